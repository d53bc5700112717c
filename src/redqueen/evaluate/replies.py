"""What a model's reply holds: a program, or an answer. Line by line and character by character:
replies are hostile and can be long."""

import re

_FENCE = "```"


def cut_at(text: str, stops: tuple[str, ...]) -> str:
    """The text up to the first of the stops."""
    ends = [end for stop in stops if (end := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text


def after_thought(text: str) -> str:
    """What follows the reasoning, where that is marked."""
    return text.rpartition("</think>")[2]


def fenced(text: str) -> list[str]:
    """The contents of fenced blocks, in order; one that is not closed ends with the text."""
    blocks: list[str] = []
    lines: list[str] | None = None
    for line in text.splitlines():
        if line.lstrip().startswith(_FENCE):
            if lines is None:
                lines = []
            else:
                blocks.append("\n".join(lines))
                lines = None
        elif lines is not None:
            lines.append(line)
    return blocks if lines is None else [*blocks, "\n".join(lines)]


def program_in(reply: str, defines: str = "") -> str:
    """The program in a reply: the last fenced block that has the text asked for, else the longest
    block, else the whole reply."""
    said = after_thought(reply)
    blocks = fenced(said)
    if not blocks:
        return said
    fitting = [block for block in blocks if defines and defines in block]
    return fitting[-1] if fitting else max(blocks, key=len)


def assemble(*parts: str) -> str:
    """Parts of a program as one. What must stand first in a file (`from __future__`) is moved
    there."""
    lines = "\n".join(parts).split("\n")
    first = [line for line in lines if line.startswith("from __future__ import")]
    return "\n".join(
        [*first, *(line for line in lines if not line.startswith("from __future__ import"))]
    )


def tagged(reply: str, tag: str) -> str | None:
    """What stands in the last `<tag>`, up to its end or that of the reply."""
    _, found, rest = after_thought(reply).rpartition(f"<{tag}>")
    return rest.partition(f"</{tag}>")[0].strip() if found else None


def unquoted(text: str) -> str:
    """Without code marks around it: a fence, or backticks."""
    inner = fenced(text)
    text = inner[-1] if inner else text
    text = text.strip()
    while len(text) > 1 and text[0] == text[-1] == "`":
        text = text[1:-1].strip()
    return text


_ANSWER_IS = re.compile(r"(?:answer|result)(?:\s+(?:is|=)|\s*:)\s*([^\n]{1,300})", re.IGNORECASE)
_NUMBER = re.compile(r"-?\$?\d[\d,]*(?:\.\d+)?")


def maths_answer(reply: str) -> str | None:
    """The final answer of a worked solution: the last box, else what follows `####`, else `the
    answer is`, else the last number."""
    said = after_thought(reply)
    box = last_box(said)
    if box is not None:
        return box
    _, mark, rest = said.rpartition("####")
    if mark:
        return rest.strip().split("\n")[0].strip() or None
    if claims := _ANSWER_IS.findall(said):
        return _claim(claims[-1])
    numbers: list[str] = _NUMBER.findall(said)
    return numbers[-1].rstrip(",") if numbers else None


def _claim(text: str) -> str:
    """`**$18$ dollars.**` and the like: the formula where there is one, else the number, else the
    words."""
    if text.count("$") >= 2:
        return text.split("$")[1].strip()
    numbers = _NUMBER.findall(text)
    plain = text.strip().strip("*").rstrip(".").strip()
    return (
        numbers[0].rstrip(",") if len(numbers) == 1 and not re.search(r"[\\({]", plain) else plain
    )


def last_box(text: str) -> str | None:
    """The content of the last `\\boxed{...}`, braces counted; None where there is none or it is not closed."""
    at = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if at < 0:
        return None
    start = text.index("{", at) + 1
    depth, place = 1, start
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                return text[start:place].strip()
        place += 1
    return None
