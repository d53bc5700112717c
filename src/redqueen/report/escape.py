"""Escapes control characters in text that models wrote, so that a terminal does not act on them."""

_WHITE = "\n\t\u00a0\u3000"


def escape_controls(text: str) -> str:
    """Whatever does not show, such as an escape code or a change of direction, as `\\u001b`. Line
    ends, tabs and wide spaces stay."""
    return "".join(
        char if char.isprintable() or char in _WHITE else f"\\u{ord(char):04x}" for char in text
    )
