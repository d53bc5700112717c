"""A process that compares answers of mathematics, one JSON request a line, one JSON verdict back. It is killed when it takes too long.

Not imported by anything: it runs as `python -m redqueen.evaluate.maths_worker`. Whatever it is sent is hostile: it may blow up memory or
time, which ends this process and nothing else.
"""

import contextlib
import json
import logging
import math
import re
import resource
import sys
from decimal import Decimal
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify  # type: ignore[import-untyped]

MEMORY = 3 << 30
SECONDS = 5
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,4})?")
_SCIENTIFIC = re.compile(r"([-+]?\d*\.?\d*)(?:\\times|\\cdot|\*|x|×)10\^(?:\{([-+]?\d{1,4})\}|([-+]?\d{1,4}))")
_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textbf|operatorname|textrm)\s*\{([^{}]*)\}")

_SPELLINGS = (("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("−", "-"), ("np.", "\\"), ("_{\\max }", ""), ("_{\\max}", ""))
"""Other ways to write the same, which the parser of formulas does not know."""


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
            right = agree(request["gold"], request["answer"], request["decimals"], request["tolerance"])
        except Exception:  # noqa: BLE001 - whatever a library makes of a hostile formula: it is no right answer
            right = False
        answer(sys.stdout, {"right": right})


def answer(stream: Any, what: dict[str, Any]) -> None:
    stream.write(json.dumps(what) + "\n")
    stream.flush()


def agree(gold: str, given: str, decimals: bool, tolerance: float) -> bool:
    """Is the answer the gold one? `decimals`: a decimal fraction need only agree in the digits that gold has. `tolerance`: as far as an
    answer may be off, where the benchmark says so."""
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


def formulas_agree(gold: str, given: str, gold_number: Decimal | None, decimals: bool, tolerance: float) -> bool:
    parsed = [parse(f"${text}$", [LatexExtractionConfig()], parsing_timeout=SECONDS, fallback_mode="no_fallback") for text in (gold, given)]
    if not all(parsed):
        return False
    if verify(parsed[0], parsed[1], timeout_seconds=SECONDS):
        return True
    if gold_number is not None and (decimals or tolerance):  # a formula for a number: 2\pi where gold is 6.28
        with contextlib.suppress(TypeError, ValueError, AttributeError, OverflowError):
            value = float(parsed[1][0].evalf())
            return math.isfinite(value) and near(gold, gold_number, Decimal(value), decimals, tolerance)
    return False


def tidy(text: str) -> str:
    """Without what means nothing: marks of formulas, spaces of typography, a full stop at the end."""
    text = text.strip().rstrip(".").strip()
    if text.startswith("\\(") and text.endswith("\\)"):
        text = text[2:-2]
    text = text.strip("$").strip() if text.count("$") == 2 and text[0] == text[-1] == "$" else text
    for mark in ("\\!", "\\,", "\\;", "\\:", "\\left", "\\right", "\\$", "~"):
        text = text.replace(mark, "" if mark != "~" else " ")
    for mark, other in _SPELLINGS:
        text = text.replace(mark, other)
    text = re.sub(r"(?<=\d)\./", "/", text)  # -1./3, as a program has it
    return text.strip().rstrip(".").strip()


def squeezed(text: str) -> str:
    return "".join(text.split())


def number(text: str) -> Decimal | None:
    """The value of a plain number: 1,234.5 or 4.5e33 or 4.5 \\times 10^{33}, with a sign of currency, per cent or degrees."""
    text = (
        squeezed(text).replace("{,}", ",").removeprefix("$").removesuffix("\\%").removesuffix("%").removesuffix("^\\circ").removesuffix("^{\\circ}")
    )
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    if scientific := _SCIENTIFIC.fullmatch(text):
        text = f"{scientific[1] or '1'}e{scientific[2] or scientific[3]}"
    return Decimal(text) if _NUMBER.fullmatch(text.lower()) else None


def near(gold_text: str, gold: Decimal, given: Decimal, decimals: bool, tolerance: float) -> bool:
    if gold == given:
        return True
    allowed = Decimal(tolerance)
    if decimals and ("." in gold_text or "e" in gold_text.lower()):  # half a unit of gold's last digit, at most a twentieth of all
        last_digit = Decimal(10) ** int(gold.as_tuple().exponent)
        allowed = max(allowed, min(last_digit / 2, abs(gold) / 20))
    return abs(gold - given) <= allowed


def is_words(text: str) -> bool:
    """Is it no formula? `\\text{Evelyn}` and `(C)` in words; a few letters alone may be a product."""
    words = words_of(text)
    return bool(_TEXT.fullmatch(text)) or bool(re.fullmatch(r"[a-z][a-z' ]*", words) and (len(words) > 3 or " " in words))


def words_of(text: str) -> str:
    inner = _TEXT.fullmatch(text)
    return (inner[1] if inner else text).strip().strip("()").strip().lower()


if __name__ == "__main__":
    main()
