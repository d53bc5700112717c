"""Maths answers as text: meaningless marks removed, numbers and words told apart from formulas."""

import re
from decimal import Context, Decimal

MAX_CHARS = 2000
"""Longer answers are not graded."""
_EXACT = Context(prec=2 * MAX_CHARS)

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,4})?")
_SCIENTIFIC = re.compile(
    r"([-+]?\d*\.?\d*)(?:\\times|\\cdot|\*|x|×)10\^(?:\{([-+]?\d{1,4})\}|([-+]?\d{1,4}))"
)
_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textbf|operatorname|textrm)\s*\{([^{}]*)\}")

_SPELLINGS = (
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
    ("−", "-"),
    ("np.", "\\"),
    ("_{\\max }", ""),
    ("_{\\max}", ""),
)
"""Spellings that math-verify does not know, and those that it does."""


def tidy(text: str) -> str:
    """Without formula marks, typographic spaces and a full stop at the end."""
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


def remove_spaces(text: str) -> str:
    return "".join(text.split())


def parse_number(text: str) -> Decimal | None:
    """The value of a plain number: 1,234.5 or 4.5e33 or 4.5 \\times 10^{33}, with $, % or a degree
    sign."""
    text = (
        remove_spaces(text)
        .replace("{,}", ",")
        .removeprefix("$")
        .removesuffix("\\%")
        .removesuffix("%")
        .removesuffix("^\\circ")
        .removesuffix("^{\\circ}")
    )
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    if scientific := _SCIENTIFIC.fullmatch(text):
        text = f"{scientific[1] or '1'}e{scientific[2] or scientific[3]}"
    return Decimal(text) if _NUMBER.fullmatch(text.lower()) else None


def is_words(text: str) -> bool:
    """Whether it is no formula: `\\text{Evelyn}` and `Evelyn` are words; `xyz` may be a product."""
    words = to_words(text)
    return bool(_TEXT.fullmatch(text)) or bool(
        re.fullmatch(r"[a-z][a-z' ]*", words) and (len(words) > 3 or " " in words)
    )


def to_words(text: str) -> str:
    inner = _TEXT.fullmatch(text)
    return (inner[1] if inner else text).strip().strip("()").strip().lower()


def normalize(text: str) -> str:
    """One spelling for answers that are equal as numbers, words or text. Formulas of equal meaning
    and different form stay different."""
    if len(text) > MAX_CHARS:
        return ""
    text = tidy(text)
    value = parse_number(text)
    if value is not None:
        return "0" if not value else str(value.normalize(_EXACT))
    return to_words(text) if is_words(text) else remove_spaces(text)
