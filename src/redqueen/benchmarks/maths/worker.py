"""A process that compares maths answers: one JSON request a line in, one JSON verdict a line out.

    python -m redqueen.benchmarks.maths.worker CPU_S [WALL to leave down...] [unsafe]

Answers are hostile. Numbers and words are compared here; a formula is read and compared in a fork
without these pipes, behind the walls of the sandbox, with a limit on CPU time and memory. It may
end by these, and harms nothing else. Without the system call filter this process refuses to work,
unless it is `unsafe`.
"""

import contextlib
import gc
import importlib
import logging
import math
import pkgutil
import sys
import warnings
from decimal import Decimal
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-untyped]
from sympy import Equality  # type: ignore[import-untyped]
from sympy.utilities.exceptions import SymPyDeprecationWarning  # type: ignore[import-untyped]

from redqueen.benchmarks.maths.text import (
    is_words,
    parse_number,
    remove_spaces,
    tidy,
    to_words,
)
from redqueen.sandbox import lockdown
from redqueen.sandbox.forks import Channel, in_fork, lock_down

MEMORY_BYTES = 3 << 30
PACKAGES = [
    *("antlr4", "latex2sympy2_extended", "mpmath", "sympy.physics.units"),
    *(
        f"sympy.{name}"
        for name in (
            "assumptions calculus combinatorics concrete core discrete functions integrals logic "
            "matrices ntheory polys series sets simplify solvers tensor"
        ).split()
    ),
]
"""Imported whole: behind the walls no file can be opened, and these import each other when they are
called."""
WARM_UP = (
    "\\frac{1}{2}+\\sqrt{3}",
    "(1, \\frac{\\pi}{2}]",
    "n^2+2n+1=0",
    "\\{1,2\\} \\cup (-\\infty, 5)",
    "\\begin{pmatrix} 1 \\\\ -2 \\end{pmatrix}",
    "1 \\pm e^{-2 x}",
    "x \\le \\log_{2} 7 \\cdot \\sin 3",
    "[17, 19]",
    "(-\\infty, \\infty)",
    "x_{1} = x_{2}",
    "x_{1} \\in \\mathbb{R}",
    "x_{1} \\ge -10^{9}",
    "y = \\frac{a}{b} x^{2} - 3",
    "\\sqrt[3]{5!}",
    "\\frac{\\sqrt{2} \\cdot 3^{n}}{n!}",
    "90^\\circ",
    "0.5, -1, \\emptyset",
)
"""The parser is ten times as fast once it has seen its grammar."""


def main() -> None:
    cpu_s, options, channel = float(sys.argv[1]), set(sys.argv[2:]), Channel()
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(2000)
    prepare()
    walls, seccomp = lock_down(options, MEMORY_BYTES)
    if seccomp is None and "unsafe" not in options:
        channel.send({"refused": walls["seccomp"]})
        return
    gc.collect()
    gc.freeze()  # or a collection in a fork would copy the pages it shares
    channel.send({"ready": walls})
    for request in channel:
        channel.send(answer(request, cpu_s, seccomp, channel))


def prepare() -> None:
    """Import all that a comparison may need, and run some."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", SymPyDeprecationWarning)
        for name in PACKAGES:
            import_package(name)
    formulas = [parse_formula(text) for text in WARM_UP]
    for gold in formulas[:6]:
        for formula in formulas:
            verify(gold, formula, timeout_seconds=None)


def import_package(name: str) -> None:
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__, f"{name}."):
        if module.name.endswith((".tests", ".benchmarks", "_doc")):
            continue
        # deprecated, or for another library that is not installed
        with contextlib.suppress(ImportError, SymPyDeprecationWarning):
            if module.ispkg:
                import_package(module.name)
            else:
                importlib.import_module(module.name)


# comparisons


def answer(
    request: dict[str, Any],
    cpu_s: float,
    seccomp: lockdown.SeccompFilter | None,
    channel: Channel,
) -> dict[str, Any]:
    gold, given = tidy(request["gold"]), tidy(request["answer"])
    decimals, tolerance = request["decimals"], request["tolerance"]
    correct: bool | str | None = is_same_text(gold, given, decimals, tolerance)
    if correct is None:
        formula = parse_gold(gold)
        correct = in_fork(
            cpu_s,
            seccomp,
            lambda: is_same_formula(gold, formula, given, decimals, tolerance),
            channel,
        )
    return {"correct": correct is True, "reason": correct if isinstance(correct, str) else ""}


def is_same_text(gold: str, answer: str, decimals: bool, tolerance: float) -> bool | None:
    """Whether they are the same text, number or words; None: they must be read as formulas.
    `decimals`: a decimal fraction need only agree in the digits that gold has. `tolerance`: how far
    a number may be off, where the benchmark says so."""
    if not answer:
        return False
    if remove_spaces(gold) == remove_spaces(answer):
        return True
    numbers = parse_number(gold), parse_number(answer)
    if numbers[0] is not None and numbers[1] is not None:
        return is_near(gold, numbers[0], numbers[1], decimals, tolerance)
    if is_words(gold) or is_words(answer):
        return to_words(gold) == to_words(answer)
    return None


def parse_formula(text: str) -> list[Any]:
    # no timeout of its own: that would need signals, which the walls deny
    config = [LatexExtractionConfig()]
    parsed: list[Any] = parse(
        f"${text}$", config, parsing_timeout=None, fallback_mode="no_fallback"
    )
    return parsed


@lru_cache(maxsize=1000)
def parse_gold(text: str) -> list[Any]:
    """Once for all answers to an item. The text is the benchmark's, not a model's. Capitals are
    read as small letters, and `N = n` would equal every identity: it stands for `n`."""
    formula = parse_formula(text)
    return [
        part.rhs if isinstance(part, Equality) and part.lhs == part.rhs else part
        for part in formula
    ]


def is_same_formula(
    gold: str, gold_formula: list[Any], answer: str, decimals: bool, tolerance: float
) -> bool:
    formula = parse_formula(answer)
    if not gold_formula or not formula:
        return False
    if verify(gold_formula, formula, timeout_seconds=None):
        return True
    gold_number = parse_number(gold)
    if gold_number is not None and (decimals or tolerance):
        # a formula for a number: 2\pi where gold is 6.28
        with contextlib.suppress(TypeError, ValueError, AttributeError, OverflowError):
            value = float(formula[0].evalf())
            return math.isfinite(value) and is_near(
                gold, gold_number, Decimal(value), decimals, tolerance
            )
    return False


def is_near(
    gold_text: str, gold: Decimal, answer: Decimal, decimals: bool, tolerance: float
) -> bool:
    if gold == answer:
        return True
    allowed = Decimal(tolerance)
    if decimals and ("." in gold_text or "e" in gold_text.lower()):
        # half a unit of gold's last digit, at most 5 %
        last_digit = Decimal(10) ** int(gold.as_tuple().exponent)
        allowed = max(allowed, min(last_digit / 2, abs(gold) / 20))
    return abs(gold - answer) <= allowed


if __name__ == "__main__":
    main()
