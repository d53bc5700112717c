"""A process that compares maths answers: one JSON request a line in, one JSON verdict a line out.

It runs as `python -m redqueen.benchmarks.maths.worker` and is never imported. Answers are hostile:
one that exhausts memory or time ends this process and nothing else.
"""

import contextlib
import json
import logging
import math
import resource
import sys
from decimal import Decimal

from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-untyped]

from redqueen.benchmarks.maths.text import (
    is_words,
    parse_number,
    remove_spaces,
    tidy,
    to_words,
)

MEMORY_BYTES = 3 << 30
TIMEOUT_S = 5


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(2000)
    send({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            correct = is_same(
                request["gold"], request["answer"], request["decimals"], request["tolerance"]
            )
        except Exception:  # noqa: BLE001 - a formula can make math-verify raise anything
            correct = False
        send({"correct": correct})


def send(message: dict[str, bool]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def is_same(gold: str, answer: str, decimals: bool, tolerance: float) -> bool:
    """`decimals`: a decimal fraction need only agree in the digits that gold has. `tolerance`: how
    far a number may be off, where the benchmark says so."""
    gold, answer = tidy(gold), tidy(answer)
    if not answer:
        return False
    if remove_spaces(gold) == remove_spaces(answer):
        return True
    numbers = parse_number(gold), parse_number(answer)
    if numbers[0] is not None and numbers[1] is not None:
        return is_near(gold, numbers[0], numbers[1], decimals, tolerance)
    if is_words(gold) or is_words(answer):
        return to_words(gold) == to_words(answer)
    return is_same_formula(gold, answer, numbers[0], decimals, tolerance)


def is_same_formula(
    gold: str, answer: str, gold_number: Decimal | None, decimals: bool, tolerance: float
) -> bool:
    parsed = [
        parse(
            f"${text}$",
            [LatexExtractionConfig()],
            parsing_timeout=TIMEOUT_S,
            fallback_mode="no_fallback",
        )
        for text in (gold, answer)
    ]
    if not all(parsed):
        return False
    if verify(parsed[0], parsed[1], timeout_seconds=TIMEOUT_S):
        return True
    if gold_number is not None and (decimals or tolerance):
        # a formula for a number: 2\pi where gold is 6.28
        with contextlib.suppress(TypeError, ValueError, AttributeError, OverflowError):
            value = float(parsed[1][0].evalf())
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
