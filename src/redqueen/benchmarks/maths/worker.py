"""A process that compares answers of mathematics, one JSON request a line, one JSON verdict back.
It is killed when it takes too long.

Not imported by anything: it runs as `python -m redqueen.benchmarks.maths.worker`. Whatever it is
sent is hostile: it may blow up memory or time, which ends this process and nothing else.
"""

import contextlib
import json
import logging
import math
import resource
import sys
from decimal import Decimal
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-untyped]

from redqueen.benchmarks.maths.text import is_words, number, squeezed, tidy, words_of

MEMORY = 3 << 30
SECONDS = 5


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(2000)
    answer(sys.stdout, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            right = agree(
                request["gold"], request["answer"], request["decimals"], request["tolerance"]
            )
        except Exception:
            right = False
        answer(sys.stdout, {"right": right})


def answer(stream: Any, what: dict[str, Any]) -> None:
    stream.write(json.dumps(what) + "\n")
    stream.flush()


def agree(gold: str, given: str, decimals: bool, tolerance: float) -> bool:
    """Is the answer the gold one? `decimals`: a decimal fraction need only agree in the digits that
    gold has. `tolerance`: as far as an answer may be off, where the benchmark says so."""
    gold, given = tidy(gold), tidy(given)
    if not given:
        return False
    if squeezed(gold) == squeezed(given):
        return True
    numbers = number(gold), number(given)
    if numbers[0] is not None and numbers[1] is not None:
        return near(gold, numbers[0], numbers[1], decimals, tolerance)
    if is_words(gold) or is_words(given):
        return words_of(gold) == words_of(given)
    return formulas_agree(gold, given, numbers[0], decimals, tolerance)


def formulas_agree(
    gold: str, given: str, gold_number: Decimal | None, decimals: bool, tolerance: float
) -> bool:
    parsed = [
        parse(
            f"${text}$",
            [LatexExtractionConfig()],
            parsing_timeout=SECONDS,
            fallback_mode="no_fallback",
        )
        for text in (gold, given)
    ]
    if not all(parsed):
        return False
    if verify(parsed[0], parsed[1], timeout_seconds=SECONDS):
        return True
    if gold_number is not None and (
        decimals or tolerance
    ):  # a formula for a number: 2\pi where gold is 6.28
        with contextlib.suppress(TypeError, ValueError, AttributeError, OverflowError):
            value = float(parsed[1][0].evalf())
            return math.isfinite(value) and near(
                gold, gold_number, Decimal(value), decimals, tolerance
            )
    return False


def near(gold_text: str, gold: Decimal, given: Decimal, decimals: bool, tolerance: float) -> bool:
    if gold == given:
        return True
    allowed = Decimal(tolerance)
    if decimals and (
        "." in gold_text or "e" in gold_text.lower()
    ):  # half a unit of gold's last digit, at most a twentieth of all
        last_digit = Decimal(10) ** int(gold.as_tuple().exponent)
        allowed = max(allowed, min(last_digit / 2, abs(gold) / 20))
    return abs(gold - given) <= allowed


if __name__ == "__main__":
    main()
