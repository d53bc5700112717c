"""Answers of mathematics as texts: what means nothing taken away, plain numbers and words told
apart from formulas."""

import re
from decimal import Context, Decimal

LONGEST = 2000
"""A longer answer is none."""
_EXACT = Context(prec=2 * LONGEST)

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
"""Other ways to write the same, which the parser of formulas does not know."""


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
        squeezed(text)
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
    """Is it no formula? `\\text{Evelyn}` and `(C)` in words; a few letters alone may be a product."""
    words = words_of(text)
    return bool(_TEXT.fullmatch(text)) or bool(
        re.fullmatch(r"[a-z][a-z' ]*", words) and (len(words) > 3 or " " in words)
    )


def words_of(text: str) -> str:
    inner = _TEXT.fullmatch(text)
    return (inner[1] if inner else text).strip().strip("()").strip().lower()


def normal_form(text: str) -> str:
    """One spelling for answers that are equal as numbers, as words, or as texts. Formulas that mean
    the same in another form stay apart."""
    if len(text) > LONGEST:
        return ""
    text = tidy(text)
    value = number(text)
    if value is not None:
        return "0" if not value else str(value.normalize(_EXACT))
    return words_of(text) if is_words(text) else squeezed(text)
