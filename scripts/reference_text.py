"""Text of the reference pages: one cell or one line of Markdown."""


def line(text: str) -> str:
    """A text of several lines as one."""
    return escape(" ".join(text.split()))


def escape(text: str) -> str:
    """No part of it ends a table's cell or begins an element; code spans cannot."""
    parts = text.split("`")
    return "`".join(
        part if number % 2 else part.replace("|", "\\|").replace("<", "&lt;")
        for number, part in enumerate(parts)
    )


def code(text: str) -> str:
    """A code span; none where there is nothing to show."""
    return f"`{text}`" if text else ""


def sentence(text: str) -> str:
    ends = not text or text[-1] in ".?!"
    return text[:1].upper() + text[1:] + ("" if ends else ".")


def anchor(heading: str) -> str:
    """Of a heading in the built page."""
    return heading.replace(" ", "-")
