"""Extracts a program or an answer from a model's reply. Replies are hostile and can be long: no
regular expression here backtracks over lines."""

import re

_FENCE = "```"


def truncate_at(text: str, stops: tuple[str, ...]) -> str:
    """The text up to the first of the stops."""
    ends = [end for stop in stops if (end := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text


def strip_reasoning(text: str) -> str:
    """What follows `</think>`, where there is one."""
    return text.rpartition("</think>")[2]


def code_blocks(text: str) -> list[str]:
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


def extract_program(reply: str, defines: str = "") -> str:
    """The last fenced block that contains `defines`, else the longest block, else the whole
    reply."""
    answer = strip_reasoning(reply)
    blocks = code_blocks(answer)
    if not blocks:
        return answer
    fitting = [block for block in blocks if defines and defines in block]
    return fitting[-1] if fitting else max(blocks, key=len)


def join_program(*parts: str) -> str:
    """Parts of a program as one, with every `from __future__ import` at the top."""
    lines = "\n".join(parts).split("\n")
    future = [line for line in lines if line.startswith("from __future__ import")]
    return "\n".join(
        [*future, *(line for line in lines if not line.startswith("from __future__ import"))]
    )


def extract_tag(reply: str, tag: str) -> str | None:
    """The content of the last `<tag>`, up to `</tag>` or the end of the reply."""
    _, opened, rest = strip_reasoning(reply).rpartition(f"<{tag}>")
    return rest.partition(f"</{tag}>")[0].strip() if opened else None


def strip_code_marks(text: str) -> str:
    """Without a fence or backticks around it."""
    blocks = code_blocks(text)
    text = (blocks[-1] if blocks else text).strip()
    for _ in range(3):
        if len(text) > 1 and text[0] == text[-1] == "`":
            text = text[1:-1].strip()
    return text


_ANSWER_IS = re.compile(r"(?:answer|result)(?:\s+(?:is|=)|\s*:)\s*([^\n]{1,300})", re.IGNORECASE)
_NUMBER = re.compile(r"-?\$?\d[\d,]*(?:\.\d+)?")


def extract_maths_answer(reply: str) -> str | None:
    """The final answer of a worked solution: the last box, else what follows `####`, else `the
    answer is`, else the last number."""
    solution = strip_reasoning(reply)
    boxed = extract_boxed(solution)
    if boxed is not None:
        return boxed
    _, mark, rest = solution.rpartition("####")
    if mark:
        return rest.strip().split("\n")[0].strip() or None
    if claims := _ANSWER_IS.findall(solution):
        return _read_claim(claims[-1])
    numbers: list[str] = _NUMBER.findall(solution)
    return numbers[-1].rstrip(",") if numbers else None


def _read_claim(text: str) -> str:
    """From `**$18$ dollars.**` and the like: the formula if there is one, else the number, else the
    words."""
    if text.count("$") >= 2:
        return text.split("$")[1].strip()
    numbers = _NUMBER.findall(text)
    words = text.strip().strip("*").rstrip(".").strip()
    if len(numbers) == 1 and not re.search(r"[\\({]", words):
        return str(numbers[0]).rstrip(",")
    return words


def extract_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{...}`, braces counted; None where it is missing or not
    closed."""
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
