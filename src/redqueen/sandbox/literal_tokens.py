"""Values of string and number tokens, without `ast.literal_eval`: at 15 us a token, a short program
could keep the trainer busy."""

import re
import sys
import unicodedata
from builtins import complex, float, int, len, str  # a program may patch them


class NotLiteral(ValueError):
    """The text is not a literal, or the value has none. The message is short and contains nothing
    of the offending text."""


_ESCAPE = re.compile(
    r"\\(\r\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}\n]{1,100}\}|.)",
    re.DOTALL,
)
_SIMPLE = {
    "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\n": "", "\r": "", "\r\n": "",
}  # fmt: skip


def parse_string(token: str) -> str | bytes:
    start = min(at for at in (token.find("'"), token.find('"')) if at >= 0)
    prefix, width = token[:start].lower(), 3 if token[start : start + 3] in ("'''", '"""') else 1
    text = token[start + width : -width].replace("\r\n", "\n").replace("\r", "\n")
    if "b" in prefix and not text.isascii():
        raise NotLiteral("bytes beyond ASCII")
    if "r" not in prefix and "\\" in text:
        text = _ESCAPE.sub(_unescape_byte if "b" in prefix else _unescape, text)
    return text.encode("latin-1") if "b" in prefix else text


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    if escape[0] in "xuU" and len(escape) > 1:
        if int(escape[1:], 16) > sys.maxunicode:
            raise NotLiteral("bad string")
        return chr(int(escape[1:], 16))
    if escape[0] == "N" and len(escape) > 1:
        try:
            named = unicodedata.lookup(escape[2:-1])
        except KeyError as error:
            raise NotLiteral("bad string") from error
        if len(named) != 1:  # a named sequence, which Python's literals do not allow
            raise NotLiteral("bad string")
        return named
    if escape in ("x", "u", "U", "N"):
        raise NotLiteral("bad string")
    return match[0]  # Python keeps the backslash of an unknown escape


def _unescape_byte(match: re.Match[str]) -> str:
    """As above; in bytes \\u, \\U and \\N have no meaning, and octal wraps."""
    if match[1][0] in "uUN":
        return match[0]
    return chr(ord(_unescape(match)) & 0xFF) if match[1][0] in "01234567" else _unescape(match)


def parse_number(token: str) -> int | float | complex:
    digits = token.replace("_", "")
    try:
        if digits[-1] in "jJ":
            number: int | float | complex = complex(0.0, float(digits[:-1]))
        elif digits[:2].lower() in ("0x", "0o", "0b") or digits.isdigit():
            number = int(digits, 0)
        else:
            number = float(digits)
    except ValueError as error:  # 0777, or more digits than CPython converts
        raise NotLiteral("bad number") from error
    if number in (float("inf"), complex(0.0, float("inf"))):  # 1e999
        raise NotLiteral("nan or infinity")
    return number
