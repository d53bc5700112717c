"""HumanEval with its own tests, and HumanEval+ with EvalPlus's inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import Task, exact, failure, grade_tasks, root_of_polynomial
from redqueen.benchmarks.suite import RIGHT, SYSTEM, Item, Judges, Style, Verdict, Wrong
from redqueen.benchmarks.value_codec import ENTRY, tests_of, with_entry
from redqueen.benchmarks.wrong import wrong_programs
from redqueen.evaluate.replies import assemble, cut_at, program_in
from redqueen.sandbox import Job, Limits
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=10, memory_mb=1024, output_kb=1024)
_STOPS = ("\ndef ", "\nclass ", "\nif __name__", "\nprint(", "\nassert ", "\n# ", "\n```", '\n"""')
_ASK = (
    "Complete the Python function below so that it does what its docstring says. Reply with the whole function, its imports included, "
    "in one ```python block.\n\n```python\n{}\n```"
)
_EVALPLUS = "https://raw.githubusercontent.com/evalplus/humanevalplus_release/200defce9e3429d28ca215b6dd061c0f7f31c18b/HumanEvalPlus.jsonl.gz"


class HumanEval:
    name = "humaneval"
    source = Source(
        "humaneval.jsonl",
        ("task_id", "prompt", "entry_point", "canonical_solution", "test"),
        hub="openai/openai_humaneval",
    )
    prompt_version = "humaneval-1"
    max_tokens = 768
    note = ""

    def items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["task_id"]), row) for row in rows]

    def prompt(self, item: Item, style: Style) -> Prompt:
        if style == "chat":
            return Prompt(_ASK.format(item.fields["prompt"].rstrip()), SYSTEM)
        return Prompt(item.fields["prompt"], None, _STOPS)

    def program(self, item: Item, reply: str, style: Style) -> str:
        """The reply as a whole program. What stands before the function in the prompt (imports,
        helpers) is there for every reply."""
        if style == "base":
            return str(item.fields["prompt"]) + cut_at(reply, _STOPS)
        entry = item.fields["entry_point"]
        given = program_in(reply, f"def {entry}")
        if f"def {entry}" not in given:  # the body alone, as the prompt could be read to ask for
            return str(item.fields["prompt"]) + given
        return assemble(_before(item.fields["prompt"], entry), given)

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        jobs = [self._job(item, reply, style) for item, reply in zip(items, replies, strict=True)]
        return [
            RIGHT if outcome.kind == "value" else Verdict(False, failure(outcome))
            for outcome in judges.sandbox.run(jobs)
        ]

    def _job(self, item: Item, reply: str, style: Style) -> Job:
        """Some tests compare with what the prompt's other functions say: the reference program is
        on the tests' side."""
        row = item.fields
        trusted = f"{row['prompt']}{row['canonical_solution']}\n{row['test']}\n"
        tests = tests_of("_redqueen_asked", trusted + "check(_redqueen_asked)")
        return Job(
            with_entry(self.program(item, reply, style), row["entry_point"]),
            mode="tests",
            entry=ENTRY,
            tests=tests,
            limits=LIMITS,
        )

    def ballot(self, item: Item, reply: str, style: Style) -> str | None:
        return None  # programs are equal by what they do, which is not compared here

    def gold(self, item: Item) -> str | None:
        return f"Here is the function.\n\n```python\n{item.fields['prompt']}{item.fields['canonical_solution']}\n```"

    def wrong(self, items: Sequence[Item], place: int) -> list[Wrong]:
        def solution(item: Item) -> tuple[str, str]:
            return item.fields["entry_point"], item.fields["prompt"] + item.fields[
                "canonical_solution"
            ]

        row = items[place].fields
        return wrong_programs(
            [solution(item) for item in items],
            place,
            f"{row['test']}\ncheck({row['entry_point']})\n",
        )


class HumanEvalPlus(HumanEval):
    name = "humaneval+"
    source = Source(
        "humaneval_plus.jsonl.gz",
        (
            "task_id",
            "prompt",
            "entry_point",
            "canonical_solution",
            "test",
            "base_input",
            "plus_input",
            "atol",
        ),
        url=_EVALPLUS,
    )

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        programs = [
            self.program(item, reply, style) for item, reply in zip(items, replies, strict=True)
        ]
        return grade_tasks([_task(item) for item in items], programs, judges.sandbox)


def _task(item: Item) -> Task:
    """Any zero of the polynomial will do where one is asked for (HumanEval/32); all other answers
    are unique."""
    row = item.fields
    oracle = (
        root_of_polynomial(row["atol"]) if row["entry_point"] == "find_zero" else exact(row["atol"])
    )
    return Task(
        item.id,
        row["entry_point"],
        row["prompt"] + row["canonical_solution"],
        row["base_input"],
        row["plus_input"],
        oracle,
    )


def _before(prompt: str, entry: str) -> str:
    return prompt[: prompt.index(f"def {entry}")]
