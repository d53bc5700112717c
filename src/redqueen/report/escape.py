"""Escapes control characters in text that models wrote, so that a terminal does not act on them."""

import re

_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)


def escape_controls(text: str) -> str:
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
