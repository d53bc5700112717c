"""MBPP (its test split) with its own assertions, and MBPP+ with EvalPlus's inputs."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from redqueen.benchmarks.benchmark import Benchmark, WrongReply
from redqueen.benchmarks.comparison import Rule
from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import Task, grade_tasks, to_verdict
from redqueen.benchmarks.extraction import extract_program, truncate_at
from redqueen.benchmarks.forgeries import forged_programs
from redqueen.benchmarks.mbpp.typed_inputs import find_calls, restore_types
from redqueen.benchmarks.suite import SYSTEM, Graders, Item, PromptStyle, Verdict
from redqueen.benchmarks.value_codec import ENTRY, with_candidate, with_entry
from redqueen.benchmarks.wrong_replies import wrong_programs
from redqueen.sandbox import Job, Limits
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=10, memory_mb=1024, output_kb=1024)
TEST_SPLIT = range(11, 511)
_STOPS = ("\nassert ", '\n"""', "\nif __name__", "\nprint(", "\n```", "\n# Test", "\n#Test")
_INSTRUCTION = (
    "{}\n\nYour function must have this name and pass {}:\n\n```python\n{}\n```\n\n"
    "Reply with the whole program in one ```python block."
)
_EVALPLUS = (
    "https://raw.githubusercontent.com/evalplus/mbppplus_release/"
    "dadf43da556a00f7bacd71cb154f2932757d9144/MbppPlus.jsonl.gz"
)


class Mbpp(Benchmark):
    name = "mbpp"
    summary = "500 Python functions to write (test split), graded by their own assertions"
    source = Source(
        "mbpp.jsonl",
        ("task_id", "text", "code", "test_list", "test_setup_code"),
        hub="google-research-datasets/mbpp",
        config="full",
    )
    version = "mbpp-1"
    max_tokens = 512

    def read_items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(f"Mbpp/{row['task_id']}", row) for row in rows if row["task_id"] in TEST_SPLIT]

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        tests = [test.strip() for test in item.fields["test_list"]]
        return _prompt(item.fields["text"].strip(), tests, style)

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        jobs = [
            _job(item, _program(reply, _entry(item), style))
            for item, reply in zip(items, replies, strict=True)
        ]
        return [to_verdict(outcome) for outcome in graders.sandbox.run(jobs)]

    def gold_reply(self, item: Item) -> str | None:
        return f"This does it:\n\n```python\n{item.fields['code']}\n```"

    def wrong_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        solutions = [(_entry(item), item.fields["code"]) for item in items]
        return wrong_programs(solutions, place, _tests(items[place]))

    def forged_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        return forged_programs(_entry(items[place]), _tests(items[place]))


class MbppPlus(Benchmark):
    name = "mbpp+"
    summary = "378 Python functions to write, graded on EvalPlus's inputs"
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
    version = "mbpp-1"
    max_tokens = 512

    def read_items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["task_id"]), row) for row in rows]

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        task, mark, tests = item.fields["prompt"].strip().strip('"').strip().partition("\nassert ")
        return _prompt(task.strip(), [(mark + tests).strip()], style)

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        programs = [
            _program(reply, item.fields["entry_point"], style)
            for item, reply in zip(items, replies, strict=True)
        ]
        return grade_tasks([_task(item) for item in items], programs, graders.sandbox)

    def gold_reply(self, item: Item) -> str | None:
        return f"This does it:\n\n```python\n{item.fields['canonical_solution']}\n```"

    def wrong_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        solutions = [
            (item.fields["entry_point"], item.fields["canonical_solution"]) for item in items
        ]
        return wrong_programs(solutions, place, _assertions(items[place]))

    def forged_replies(self, items: Sequence[Item], place: int) -> list[WrongReply]:
        return forged_programs(items[place].fields["entry_point"], _assertions(items[place]))


def _tests(item: Item) -> str:
    return "\n".join([item.fields["test_setup_code"], *item.fields["test_list"]])


def _assertions(item: Item) -> str:
    return f"import math\n{item.fields['assertion']}"


def _prompt(task: str, tests: Sequence[str], style: PromptStyle) -> Prompt:
    shown = "\n".join(tests)
    if style.chat:
        which = "these tests" if len(tests) > 1 else "this test"
        return Prompt(_INSTRUCTION.format(task, which, shown), SYSTEM)
    return Prompt(f'"""\n{task}\n{shown}\n"""\n', None, _STOPS)


def _program(reply: str, entry: str, style: PromptStyle) -> str:
    return extract_program(reply, f"def {entry}") if style.chat else truncate_at(reply, _STOPS)


def _entry(item: Item) -> str:
    """The function under test: the first that a test calls and the reference defines."""
    code, test = item.fields["code"], item.fields["test_list"][0]
    defined = {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}
    calls = [
        node.func.id
        for node in ast.walk(ast.parse(test.strip()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    return next((name for name in calls if name in defined), calls[0])


def _job(item: Item, program: str) -> Job:
    """Where tests need objects of the candidate's own classes (Mbpp/367), the set-up code builds
    them in its process and the tests pass them by name."""
    entry, setup = _entry(item), item.fields["test_setup_code"]
    tests = "\n".join(item.fields["test_list"])
    call = entry
    if setup:
        program = f"{program}\n{setup}\n"
        call = f"lambda *names: {entry}(*[globals()[name] for name in names])"
        tests = ast.unparse(_Names(_assigned_names(setup)).visit(ast.parse(tests)))
    return Job(
        with_entry(program, call),
        mode="tests",
        entry=ENTRY,
        tests=with_candidate(entry, tests),
        limits=LIMITS,
    )


def _assigned_names(code: str) -> set[str]:
    return {
        node.id
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


class _Names(ast.NodeTransformer):
    """Replaces these names by string constants."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Constant(node.id), node) if node.id in self.names else node


ARBITRARY_ORDER = frozenset({"find_dissimilar", "Diff"})
"""Tasks whose canonical solution lists a set, in whatever order."""
OBJECT_ANSWERS = frozenset({"check_str", "text_match_three", "text_starta_endb"})
"""Yes-or-no tasks whose canonical solution returns a match object of `re`."""


def _task(item: Item) -> Task:
    row = item.fields
    calls = find_calls(row["assertion"], row["entry_point"])
    base, plus = restore_types(row["base_input"], calls), restore_types(row["plus_input"], calls)
    return Task(item.id, row["entry_point"], row["canonical_solution"], base, plus, _rule(row))


def _rule(row: Mapping[str, Any]) -> Rule:
    """Where the assertion in the prompt compares sets, order does not count."""
    entry = row["entry_point"]
    if f"set({entry}(" in row["prompt"] or entry in ARBITRARY_ORDER:
        return Rule("any order")
    return Rule("presence") if entry in OBJECT_ANSWERS else Rule("near", row["atol"])
