"""The chat pack: instructions in words, reasoning in <think>, the answer in <answer> as fenced blocks."""

import re

from redqueen.tasks.kind import Block, Malformed, Request
from redqueen.tasks.prompts import Prompt

_SYSTEM = "You are a careful Python programmer. You reason first, between <think> and </think>, and then answer between <answer> and </answer>."
_FENCES = {"program": "python"}
_LABELS = {"python": "program", "py": "program", "python3": "program"}
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)


_POSED = (
    "A value that every turn of a loop changes, and a list that keeps only some of its values: each turn is simple, but all have to be followed.",
    (
        (
            "program",
            "def f(numbers):\n    total, kept = 0, []\n    for number in numbers:\n        total = (total * 2 + number) % 7\n"
            "        if total % 2 == 0:\n            kept.append(total)\n    return kept, total\n",
        ),
        ("input", "[3, 5, 1, 4, 9, 2]"),
    ),
)
_LISTS = ("[1, -2, 3]", "[]", "[-5]", "[0, 4]", "[7, 7]", "[-1, -2, 10]", "[6]", "[2, 0, -9, 8]", "[100, -100]", "[5, 4, 3, 2, 1]")

WORKED: dict[tuple[str, str], tuple[str, tuple[Block, ...]]] = {
    ("code_o", "teacher"): _POSED,
    ("code_i", "teacher"): _POSED,
    ("code_f", "teacher"): (
        "The function doubles positive numbers and drops the others. Lists with both sorts show it, and so do short ones and an empty one.",
        (("message", "Some numbers stay, and those grow."), *(("input", text) for text in _LISTS)),
    ),
    ("code_o", "student"): (
        "It starts with 4. The first turn adds 3 and makes 7, the second makes 10. The result is that number as text.",
        (("output", "'10'"),),
    ),
    ("code_i", "student"): ("The function squares its argument, and the output is 9: so 3 is an input.", (("input", "3"),)),
    ("code_f", "student"): (
        "[1, 2] gives 3, [5] gives 5 and [] gives 0: it is the sum.",
        (("program", "def f(numbers):\n    return sum(numbers)\n"),),
    ),
}
"""For each kind and role a thought and an answer: small models follow a pattern better than its description."""


class ChatPack:
    name = "chat"

    def render(self, request: Request) -> Prompt:
        parts = [request.instruction]
        for number, example in enumerate(request.examples, 1):
            parts += [f"Example {number}:", _fenced(example)]
        if request.given:
            parts.append(_fenced(request.given))
        parts.append("Write your reasoning between <think> and </think>. Then write exactly this, with the blocks filled in:")
        parts.append(_answered(tuple((label, "...") for label in request.wanted)))
        if (request.kind, request.role) in WORKED:
            thought, blocks = WORKED[request.kind, request.role]
            parts += ["A whole reply to another such request looks like this:", f"<think>\n{thought}\n</think>\n{_answered(blocks)}"]
        return Prompt("\n\n".join(parts), _SYSTEM, ("</answer>",))

    def parse(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        said = text.rpartition("</think>")[2]
        answers = _ANSWER.findall(said)
        if len(answers) != 1:
            raise Malformed(f"{len(answers)} answers, expected one between <answer> and </answer>")
        blocks = _blocks(answers[0])
        if len(wanted) == 1 and len(blocks) <= 1:  # one thing was asked for: it may come without a fence, or under another label
            return [(wanted[0], blocks[0][1] if blocks else answers[0].strip())]
        return blocks


def _answered(blocks: tuple[Block, ...]) -> str:
    return f"<answer>\n{_fenced(blocks)}\n</answer>"


def _fenced(blocks: tuple[Block, ...]) -> str:
    return "\n".join(f"```{_FENCES.get(label, label)}\n{text.rstrip()}\n```" for label, text in blocks)


def _blocks(answer: str) -> list[Block]:
    """Fenced blocks, line by line: a regular expression over hostile text can take quadratic time."""
    blocks: list[Block] = []
    label: str | None = None
    lines: list[str] = []
    for line in answer.splitlines():
        mark = line.strip()
        if label is None:
            if mark.startswith("```"):
                label, lines = mark.removeprefix("```").strip(), []
        elif mark == "```":
            blocks.append((_LABELS.get(label, label), "\n".join(lines)))
            label = None
        else:
            lines.append(line)
    if label is not None:
        raise Malformed("a fenced block that is not closed")
    return blocks
