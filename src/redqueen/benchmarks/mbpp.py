"""MBPP (its test split) with its own assertions, and MBPP+ with EvalPlus's inputs."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import (
    Oracle,
    Task,
    exact,
    failure,
    found_or_not,
    grade_tasks,
    unordered,
)
from redqueen.benchmarks.suite import RIGHT, SYSTEM, Item, Judges, Style, Verdict, Wrong
from redqueen.benchmarks.typed_inputs import calls_in, typed
from redqueen.benchmarks.value_codec import ENTRY, tests_of, with_entry
from redqueen.benchmarks.wrong import wrong_programs
from redqueen.evaluate.replies import cut_at, program_in
from redqueen.sandbox import Job, Limits
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=10, memory_mb=1024, output_kb=1024)
TEST_SPLIT = range(11, 511)
_STOPS = ("\nassert ", '\n"""', "\nif __name__", "\nprint(", "\n```", "\n# Test", "\n#Test")
_ASK = "{}\n\nYour function must have this name and pass {}:\n\n```python\n{}\n```\n\nReply with the whole program in one ```python block."
_EVALPLUS = "https://raw.githubusercontent.com/evalplus/mbppplus_release/dadf43da556a00f7bacd71cb154f2932757d9144/MbppPlus.jsonl.gz"


class Mbpp:
    name = "mbpp"
    source = Source(
        "mbpp.jsonl",
        ("task_id", "text", "code", "test_list", "test_setup_code"),
        hub="google-research-datasets/mbpp",
        config="full",
    )
    prompt_version = "mbpp-1"
    max_tokens = 512
    note = ""

    def items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(f"Mbpp/{row['task_id']}", row) for row in rows if row["task_id"] in TEST_SPLIT]

    def prompt(self, item: Item, style: Style) -> Prompt:
        task, tests = (
            item.fields["text"].strip(),
            [test.strip() for test in item.fields["test_list"]],
        )
        return _prompt(task, tests, style)

    def entry(self, item: Item) -> str:
        return _called(item.fields["test_list"][0], item.fields["code"])

    def program(self, item: Item, reply: str, style: Style) -> str:
        return (
            cut_at(reply, _STOPS)
            if style == "base"
            else program_in(reply, f"def {self.entry(item)}")
        )

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        jobs = [
            self._job(item, self.program(item, reply, style))
            for item, reply in zip(items, replies, strict=True)
        ]
        return [
            RIGHT if outcome.kind == "value" else Verdict(False, failure(outcome))
            for outcome in judges.sandbox.run(jobs)
        ]

    def _job(self, item: Item, program: str) -> Job:
        """Where the tests build objects of the candidate's own classes (Mbpp/367), these are made
        on its side and passed by name."""
        entry, setup = self.entry(item), item.fields["test_setup_code"]
        tests = "\n".join(item.fields["test_list"])
        call = entry
        if setup:
            program = f"{program}\n{setup}\n"
            call = f"lambda *names: {entry}(*[globals()[name] for name in names])"
            tests = ast.unparse(_Names(_assigned(setup)).visit(ast.parse(tests)))
        return Job(
            with_entry(program, call),
            mode="tests",
            entry=ENTRY,
            tests=tests_of(entry, tests),
            limits=LIMITS,
        )

    def ballot(self, item: Item, reply: str, style: Style) -> str | None:
        return None  # programs are equal by what they do, which is not compared here

    def gold(self, item: Item) -> str | None:
        return f"This does it:\n\n```python\n{item.fields['code']}\n```"

    def wrong(self, items: Sequence[Item], place: int) -> list[Wrong]:
        row = items[place].fields
        tests = "\n".join([row["test_setup_code"], *row["test_list"]])
        return wrong_programs(
            [(self.entry(item), item.fields["code"]) for item in items], place, tests
        )


class MbppPlus:
    name = "mbpp+"
    source = Source(
        "mbpp_plus.jsonl.gz",
        (
            "task_id",
            "prompt",
            "entry_point",
            "canonical_solution",
            "assertion",
            "base_input",
            "plus_input",
            "atol",
        ),
        url=_EVALPLUS,
    )
    prompt_version = "mbpp-1"
    max_tokens = 512
    note = ""

    def items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["task_id"]), row) for row in rows]

    def prompt(self, item: Item, style: Style) -> Prompt:
        task, mark, tests = item.fields["prompt"].strip().strip('"').strip().partition("\nassert ")
        return _prompt(task.strip(), [(mark + tests).strip()], style)

    def program(self, item: Item, reply: str, style: Style) -> str:
        return (
            cut_at(reply, _STOPS)
            if style == "base"
            else program_in(reply, f"def {item.fields['entry_point']}")
        )

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        programs = [
            self.program(item, reply, style) for item, reply in zip(items, replies, strict=True)
        ]
        return grade_tasks([_task(item) for item in items], programs, judges.sandbox)

    def ballot(self, item: Item, reply: str, style: Style) -> str | None:
        return None  # programs are equal by what they do, which is not compared here

    def gold(self, item: Item) -> str | None:
        return f"This does it:\n\n```python\n{item.fields['canonical_solution']}\n```"

    def wrong(self, items: Sequence[Item], place: int) -> list[Wrong]:
        solutions = [
            (item.fields["entry_point"], item.fields["canonical_solution"]) for item in items
        ]
        return wrong_programs(solutions, place, "import math\n" + items[place].fields["assertion"])


def _prompt(task: str, tests: Sequence[str], style: Style) -> Prompt:
    shown = "\n".join(tests)
    if style == "chat":
        return Prompt(
            _ASK.format(task, "these tests" if len(tests) > 1 else "this test", shown), SYSTEM
        )
    return Prompt(f'"""\n{task}\n{shown}\n"""\n', None, _STOPS)


ARBITRARY_ORDER = frozenset({"find_dissimilar", "Diff"})
"""Tasks of which the canonical solution lists a set: its order is nobody's business."""
OBJECT_ANSWERS = frozenset({"check_str", "text_match_three", "text_starta_endb"})
"""Tasks that ask for yes or no, of which the canonical solution returns what `re` found."""


def _task(item: Item) -> Task:
    row = item.fields
    calls = calls_in(row["assertion"], row["entry_point"])
    base, plus = typed(row["base_input"], calls), typed(row["plus_input"], calls)
    return Task(item.id, row["entry_point"], row["canonical_solution"], base, plus, _oracle(row))


def _oracle(row: Mapping[str, Any]) -> Oracle:
    """The assertion that the prompt shows says it: `set(f(...)) == set(...)` leaves the order open."""
    entry = row["entry_point"]
    if f"set({entry}(" in row["prompt"] or entry in ARBITRARY_ORDER:
        return unordered
    return found_or_not if entry in OBJECT_ANSWERS else exact(row["atol"])


def _called(test: str, code: str) -> str:
    """The function that a test is about: the first it calls that the reference defines."""
    defined = {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}
    calls = [
        node.func.id
        for node in ast.walk(ast.parse(test.strip()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return next((name for name in calls if name in defined), calls[0])


def _assigned(setup: str) -> set[str]:
    return {
        node.id
        for node in ast.walk(ast.parse(setup))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


class _Names(ast.NodeTransformer):
    """Names of what the set-up made become texts."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Constant(node.id), node) if node.id in self.names else node
