"""The modules a proposed program may import by default."""

ALLOWED_MODULES: frozenset[str] = frozenset(
    """
    abc array bisect calendar cmath collections copy dataclasses decimal enum fractions functools heapq itertools json math numbers
    operator re statistics string textwrap types typing unicodedata
    """.split()
)
"""Modules a proposed program may import: they compute, and reach neither files, clocks, chance nor
the interpreter's inside."""
