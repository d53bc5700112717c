"""CRUXEval: predict what a function returns for an input (-o), or find an input for an output (-i).

An answer is a value, not a program: a reader in the sandbox accepts constants, containers,
arithmetic, their methods and lambdas (some inputs are functions). What calls `f`, or tampers with
it, is no answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from redqueen.benchmarks.benchmark import Benchmark, WrongReply
from redqueen.benchmarks.comparison import EQUAL, ResultPairs, agree
from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import to_verdict
from redqueen.benchmarks.extraction import (
    code_blocks,
    extract_tag,
    strip_code_marks,
    strip_reasoning,
    truncate_at,
)
from redqueen.benchmarks.forgeries import forged_inputs, forged_outputs
from redqueen.benchmarks.programs import read_program
from redqueen.benchmarks.suite import SYSTEM, Graders, Item, PromptStyle, Verdict
from redqueen.benchmarks.value_codec import ENTRY, with_entry
from redqueen.sandbox import Job, Limits
from redqueen.sandbox.literals import NotLiteral, canonical, ordered, parse_literal
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=5, memory_mb=512)
MAX_CHARS = 16_000
"""Longer answers are not read."""

_INSTRUCTIONS = {
    "o": (
        "```python\n{code}\n```\n\nWhat does `f({input})` return? Follow the code step by step. "
        "Then write the value, as a Python literal and nothing else, between <answer> and "
        "</answer>."
    ),
    "i": (
        "```python\n{code}\n```\n\nFind an input for which `f` returns `{output}`. There may be "
        "many; one is enough. Think step by step. Then write the arguments, as they would stand "
        "between the brackets of `f(...)` and nothing else, between <answer> and </answer>."
    ),
}


@dataclass(frozen=True, slots=True)
class _FewShot:
    """A solved example with its reasoning, in both directions."""

    code: str
    input: str
    output: str
    forward: str
    backward: str


_FEW_SHOT = (
    _FewShot(
        "def f(text, n):\n    return text[:n] + text[n:].upper()",
        "'planet', 2",
        "'plANET'",
        "text[:2] is 'pl'. text[2:] is 'anet', in capitals 'ANET'. Together they are 'plANET'.",
        "The first n letters stay as they are and the others become capitals. Two letters of "
        "'plANET' are small, so n is 2 and the text is 'planet'.",
    ),
    _FewShot(
        "def f(values):\n    seen = []\n    for value in values:\n        if value not in seen:\n"
        "            seen.append(value)\n    return seen",
        "[3, 1, 3, 2, 1]",
        "[3, 1, 2]",
        "3 is new: seen is [3]. 1 is new: [3, 1]. 3 is there already. 2 is new: [3, 1, 2]. 1 is "
        "there already. So it is [3, 1, 2].",
        "Each value is kept where it comes up first. 3 comes before 1 and 1 before 2; what is "
        "repeated later changes nothing.",
    ),
)


class CruxEval(Benchmark):
    source = Source(
        "cruxeval.jsonl", ("id", "code", "input", "output"), hub="cruxeval-org/cruxeval"
    )
    max_tokens = 512

    def __init__(self, asks: Literal["i", "o"]) -> None:
        self.asks = asks
        self.name = f"cruxeval-{asks}"
        self.version = f"cruxeval-{asks}-3"
        asked = "an input for an output" if asks == "i" else "the output for an input"
        self.summary = f"800 Python functions: {asked}"

    def read_items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["id"]), row) for row in rows]

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        if style.chat:
            return Prompt(
                _INSTRUCTIONS[self.asks].format(**item.fields),
                SYSTEM,
                before=tuple(self._chat_turn(shot) for shot in _FEW_SHOT),
            )
        row = item.fields
        examples = [self._base_example(shot) for shot in _FEW_SHOT]
        end = f"# f({row['input']}) ==" if self.asks == "o" else f"# {row['output']} == f("
        return Prompt("\n\n".join([*examples, row["code"] + "\n\n" + end]), None, ("\n",))

    def _chat_turn(self, shot: _FewShot) -> tuple[str, str]:
        reasoning, answer = (
            (shot.forward, shot.output) if self.asks == "o" else (shot.backward, shot.input)
        )
        question = _INSTRUCTIONS[self.asks].format(
            code=shot.code, input=shot.input, output=shot.output
        )
        return question, f"{reasoning}\n\n<answer>{answer}</answer>"

    def _base_example(self, shot: _FewShot) -> str:
        if self.asks == "o":
            return f"{shot.code}\n\n# f({shot.input}) == {shot.output}"
        return f"{shot.code}\n\n# {shot.output} == f({shot.input})"

    def extract_answer(self, reply: str, style: PromptStyle) -> str | None:
        """The text of the answer, to be read as a value."""
        if not style.chat:
            line = truncate_at(reply, ("\n",)).strip()
            return line if self.asks == "o" else line.removesuffix(")")
        if not reply.strip():
            return None
        answer = extract_tag(reply, "answer")
        if answer is None:  # without the tags: a code block, or the last line
            text = strip_reasoning(reply)
            blocks, lines = code_blocks(text), text.strip().split("\n")
            answer = blocks[-1] if blocks else lines[-1].rpartition("nswer:")[2].strip().rstrip(".")
        return strip_code_marks(answer)

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        answers = [self.extract_answer(reply, style) for reply in replies]
        verdicts = [Verdict(False, "no answer")] * len(items)
        numbers = [
            n for n, answer in enumerate(answers) if answer is not None and len(answer) < MAX_CHARS
        ]
        jobs = [self._job(items[number], answers[number] or "") for number in numbers]
        returned: dict[int, ResultPairs] = {}
        for number, outcome in zip(numbers, graders.sandbox.run(jobs), strict=True):
            verdicts[number] = to_verdict(outcome)
            if outcome.kind == "value":
                text = outcome.values[0]
                actual = str(parse_literal(text)) if self.asks == "o" else text
                pair = (actual, items[number].fields["output"])
                returned[number] = ResultPairs(EQUAL, [pair])
        agreed = agree(list(returned.values()), graders.sandbox)
        for number, is_correct in zip(returned, agreed, strict=True):
            if not is_correct:
                verdicts[number] = replace(verdicts[number], correct=False, reason="wrong")
        return verdicts

    def _job(self, item: Item, answer: str) -> Job:
        """Reads the answer as a value; of an input, the value is what `f` returns for it."""
        program = read_program("read_cruxeval_answer")
        entry = "read_output"
        if self.asks == "i":
            program, entry = with_entry(program, "call"), ENTRY
        texts = f"{ordered(answer, 1 << 20)}, {ordered(item.fields['code'])}"
        return Job(program, (texts,), entry=entry, limits=LIMITS)

    def vote_key(self, item: Item, reply: str, style: PromptStyle) -> str | None:
        """The output as a canonical literal, else as it was written. There are many correct inputs:
        a vote would split them."""
        if self.asks == "i":
            return None
        answer = self.extract_answer(reply, style) or ""
        try:
            return canonical(parse_literal(answer))
        except NotLiteral:
            return "".join(answer.split())

    def gold_reply(self, item: Item) -> str | None:
        answer = item.fields["output" if self.asks == "o" else "input"]
        return f"Let me follow the code.\n\n<answer>{answer}</answer>"

    def wrong_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        row, other = items[place].fields, items[(place + 1) % len(items)].fields
        answers = {"a comparison": "0) == f(0) or (True", "a program": "__import__('sys').exit(0)"}
        if self.asks == "o":
            answers |= {
                "the call itself": f"f({row['input']})",
                "read from the frame": "eval('out')",
                "changed": _change(row["output"]),
            }
            unproven = {"another item's output": other["output"]}
        else:
            code = f"f.__setattr__('__code__', (lambda *a: {row['output']}).__code__)"
            answers |= {
                "changes the function": code,
                "a class of its own": "type('Yes', (), {'__eq__': lambda a, b: True})()",
            }
            unproven = {
                "another item's input": other["input"],
                "arguments that do not fit": "1, 2, 3, 4, 5, 6, 7, 8, 9",
            }
        replies = [WrongReply("empty", "")]
        replies += [WrongReply(name, f"<answer>{text}</answer>") for name, text in answers.items()]
        for name, text in unproven.items():
            given, expected = (row["input"], text) if self.asks == "o" else (text, row["output"])
            test = f"assert f({given}) == {expected}"
            replies.append(WrongReply(name, f"<answer>{text}</answer>", (row["code"], test)))
        return replies

    def forged_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        """In both styles, where they are not read as the same answer."""
        forge = forged_inputs if self.asks == "i" else forged_outputs
        distinct: dict[str | None, WrongReply] = {}
        for wrong in forge(items[place].fields):
            distinct.setdefault(self.extract_answer(wrong.reply, wrong.style), wrong)
        return list(distinct.values())


def _change(output: str) -> str:
    """Another value than this literal's."""
    value: Any = parse_literal(output)
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, (int, float)):
        return repr(value + 1)
    if isinstance(value, (str, list, tuple)):
        extra: Any = "x" if isinstance(value, str) else type(value)([None])
        return repr(value + extra)
    if isinstance(value, dict):
        return ordered({**value, "another key": 0})
    return "'none of these'"
