"""The chat format: instructions in words, reasoning in <think>, the answer in <answer> as fenced
blocks."""

import re
from dataclasses import replace

from redqueen.tasks.kind import Block, Malformed, Request
from redqueen.tasks.prompts.format import Prompt, Quote, join_parts

_SYSTEM = (
    "You reason first, between <think> and </think>, "
    "and then answer between <answer> and </answer>."
)
_FENCES = {"program": "python"}
_LABELS = {"python": "program", "py": "program", "python3": "program"}
_FENCE = re.compile(r"`{3,}")
_ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL)


class ChatFormat:
    """Instructions in words, reasoning in `<think>`, the answer in `<answer>` as fenced blocks: for
    instruction-tuned models."""

    name = "chat"

    def render(self, request: Request) -> Prompt:
        before: tuple[tuple[str, str], ...] = ()
        if example := request.few_shot:
            asked = replace(request, examples=example.examples, given=example.given)
            reply = "".join(self.write_reply(example.reasoning, example.reply))
            before = (("".join(_asked(asked)), reply),)
        text, quotes = join_parts(_asked(request))
        return Prompt(text, f"{request.system} {_SYSTEM}", ("</answer>",), before, quotes=quotes)

    def reasoning_prefix(self, kind: str) -> str:
        return "<think>\n"

    def write_reply(self, reasoning: str, blocks: tuple[Block, ...]) -> list[str]:
        """Without reasoning, that there is none is nothing to learn."""
        first = ["<think>\n", Quote(reasoning), "\n</think>\n"]
        return [*(first if reasoning else [Quote("".join(first))]), *_answered(blocks)]

    def parse(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        said = text.rpartition("</think>")[2]
        answers = _ANSWER.findall(said)
        if len(answers) != 1:
            raise Malformed(f"{len(answers)} answers, expected one between <answer> and </answer>")
        blocks = _blocks(answers[0])
        if (
            len(wanted) == 1 and len(blocks) <= 1
        ):  # one thing was asked for: it may come without a fence, or under another label
            return [(wanted[0], blocks[0][1] if blocks else answers[0].strip())]
        return blocks


def _asked(request: Request) -> list[str]:
    parts = [request.instruction]
    for number, example in enumerate(request.examples, 1):
        parts += [f"\n\nExample {number}:\n\n", *_fenced(example)]
    if request.given:
        parts += ["\n\n", *_fenced(request.given)]
    parts.append(
        "\n\nWrite your reasoning between <think> and </think>. "
        "Then write exactly this, with the blocks filled in:\n\n"
    )
    parts.append("".join(_answered(tuple((label, "...") for label in request.wanted))))
    return parts


def _answered(blocks: tuple[Block, ...]) -> list[str]:
    return ["<answer>\n", *_fenced(blocks), "\n</answer>"]


def _fenced(blocks: tuple[Block, ...]) -> list[str]:
    """A fence is longer than any in its text, so that no text ends its own block."""
    parts: list[str] = []
    for label, text in blocks:
        fence = "`" * (1 + max(map(len, _FENCE.findall(text)), default=2))
        parts += ["\n" if parts else "", f"{fence}{_FENCES.get(label, label)}\n"]
        parts += [Quote(text.rstrip()), f"\n{fence}"]
    return parts


def _blocks(answer: str) -> list[Block]:
    """Fenced blocks, line by line: a regular expression takes quadratic time on hostile text."""
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
