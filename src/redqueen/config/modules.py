"""The modules that a proposed program may import by default. Standard library only: zygotes import
this module."""

ALLOWED_MODULES: frozenset[str] = frozenset(
    """
    abc array bisect calendar cmath collections copy dataclasses decimal enum fractions functools
    heapq itertools json math numbers operator re statistics string textwrap types typing
    unicodedata
    """.split()
)
"""They compute, and reach no files, clocks, randomness or interpreter internals."""
