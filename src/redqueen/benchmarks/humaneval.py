"""HumanEval with its own tests, and HumanEval+ with EvalPlus's inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.benchmarks.benchmark import Benchmark, WrongReply
from redqueen.benchmarks.comparison import Rule
from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import Task, grade_tasks, to_verdict
from redqueen.benchmarks.extraction import extract_program, join_program, truncate_at
from redqueen.benchmarks.forgeries import forged_programs
from redqueen.benchmarks.suite import SYSTEM, Graders, Item, PromptStyle, Verdict
from redqueen.benchmarks.value_codec import ENTRY, with_candidate, with_entry
from redqueen.benchmarks.wrong_replies import wrong_programs
from redqueen.sandbox import Job, Limits
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=10, memory_mb=1024, output_kb=1024)
_STOPS = ("\ndef ", "\nclass ", "\nif __name__", "\nprint(", "\nassert ", "\n# ", "\n```", '\n"""')
_INSTRUCTION = (
    "Complete the Python function below so that it does what its docstring says. Reply with the "
    "whole function, its imports included, in one ```python block.\n\n```python\n{}\n```"
)
_EVALPLUS = (
    "https://raw.githubusercontent.com/evalplus/humanevalplus_release/"
    "200defce9e3429d28ca215b6dd061c0f7f31c18b/HumanEvalPlus.jsonl.gz"
)
_FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")


class HumanEval(Benchmark):
    version = "humaneval-1"
    max_tokens = 768

    def __init__(self, plus: bool = False) -> None:
        self.plus = plus
        self.name = "humaneval+" if plus else "humaneval"
        graded = "on EvalPlus's inputs" if plus else "by the benchmark's own tests"
        self.summary = f"164 Python functions to write, graded {graded}"
        self.source = (
            Source(
                "humaneval_plus.jsonl.gz",
                (*_FIELDS, "base_input", "plus_input", "atol"),
                url=_EVALPLUS,
            )
            if plus
            else Source("humaneval.jsonl", _FIELDS, hub="openai/openai_humaneval")
        )

    def read_items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["task_id"]), row) for row in rows]

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        if style.chat:
            return Prompt(_INSTRUCTION.format(item.fields["prompt"].rstrip()), SYSTEM)
        return Prompt(item.fields["prompt"], None, _STOPS)

    def program(self, item: Item, reply: str, style: PromptStyle) -> str:
        """The reply as a whole program, with the imports and helpers that the prompt has before the
        function."""
        prompt, entry = str(item.fields["prompt"]), item.fields["entry_point"]
        if not style.chat:
            return prompt + truncate_at(reply, _STOPS)
        program = extract_program(reply, f"def {entry}")
        if f"def {entry}" not in program:  # the body alone
            return prompt + program
        return join_program(prompt[: prompt.index(f"def {entry}")], program)

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        programs = [
            self.program(item, reply, style) for item, reply in zip(items, replies, strict=True)
        ]
        if self.plus:
            return grade_tasks([_task(item) for item in items], programs, graders.sandbox)
        jobs = [_job(item, program) for item, program in zip(items, programs, strict=True)]
        return [to_verdict(outcome) for outcome in graders.sandbox.run(jobs)]

    def gold_reply(self, item: Item) -> str | None:
        return f"Here is the function.\n\n```python\n{_solution(item)}\n```"

    def wrong_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        solutions = [(item.fields["entry_point"], _solution(item)) for item in items]
        return wrong_programs(solutions, place, _tests(items[place]))

    def forged_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        return forged_programs(items[place].fields["entry_point"], _tests(items[place]))


def _solution(item: Item) -> str:
    return str(item.fields["prompt"] + item.fields["canonical_solution"])


def _tests(item: Item) -> str:
    return f"{item.fields['test']}\ncheck({item.fields['entry_point']})\n"


def _job(item: Item, program: str) -> Job:
    """Some tests call helpers from the prompt, so the reference program stands before them."""
    row = item.fields
    tests = f"{_solution(item)}\n{row['test']}\ncheck(_redqueen_asked)"
    return Job(
        with_entry(program, row["entry_point"]),
        mode="tests",
        entry=ENTRY,
        tests=with_candidate("_redqueen_asked", tests),
        limits=LIMITS,
    )


def _task(item: Item) -> Task:
    """`find_zero` (HumanEval/32) accepts any root; all other answers are unique."""
    row = item.fields
    is_polynomial = row["entry_point"] == "find_zero"
    return Task(
        item.id,
        row["entry_point"],
        _solution(item),
        row["base_input"],
        row["plus_input"],
        Rule("root" if is_polynomial else "near", row["atol"]),
    )
