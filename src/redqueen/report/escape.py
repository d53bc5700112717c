"""Text of models for a terminal: characters that would do something there, such as escapes, are
shown by their numbers."""

import re

_ACTIVE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def plain(text: str) -> str:
    return _ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
