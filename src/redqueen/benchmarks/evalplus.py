"""Grading as EvalPlus does it: a program is correct if it returns what the canonical solution
returns, on every input, within `atol`.

The canonical solution runs in the sandbox too, beside the candidates. Base inputs come first: a
candidate that fails them is not run on the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from redqueen.benchmarks.comparison import ResultPairs, Rule, agree
from redqueen.benchmarks.suite import Verdict
from redqueen.benchmarks.value_codec import (
    ENTRY,
    arguments_text,
    is_literal,
    with_entry,
)
from redqueen.sandbox import Job, Limits, Outcome, Sandbox

REFERENCE_LIMITS = Limits(cpu_s=60, memory_mb=2048, output_kb=2 * 1024)


_OBJECT = "\\x00object"  # two objects of one class need not be equal


@dataclass(frozen=True, slots=True)
class Task:
    """What one item asks for: a function, its inputs, a reference solution, and how results are
    compared."""

    name: str
    entry: str
    solution: str
    base_inputs: Sequence[Sequence[Any]]
    plus_inputs: Sequence[Sequence[Any]]
    rule: Rule


def grade_tasks(tasks: Sequence[Task], programs: Sequence[str], sandbox: Sandbox) -> list[Verdict]:
    """One verdict for each program."""
    verdicts = _grade(tasks, programs, [task.base_inputs for task in tasks], sandbox)
    passed = [
        number
        for number, (task, verdict) in enumerate(zip(tasks, verdicts, strict=True))
        if verdict.correct and task.plus_inputs
    ]
    plus_verdicts = _grade(
        [tasks[number] for number in passed],
        [programs[number] for number in passed],
        [tasks[number].plus_inputs for number in passed],
        sandbox,
    )
    for number, verdict in zip(passed, plus_verdicts, strict=True):
        verdicts[number] = verdict
    return verdicts


def _grade(
    tasks: Sequence[Task],
    programs: Sequence[str],
    inputs: Sequence[Sequence[Sequence[Any]]],
    sandbox: Sandbox,
) -> list[Verdict]:
    references = {
        task.name: _job(task.solution, task, of_task, REFERENCE_LIMITS)
        for task, of_task in zip(tasks, inputs, strict=True)
    }
    expected = dict(zip(references, sandbox.run(list(references.values())), strict=True))
    jobs = [
        _job(program, task, of_task, _limits(expected[task.name]))
        for task, program, of_task in zip(tasks, programs, inputs, strict=True)
    ]
    outcomes = sandbox.run(jobs)
    verdicts: list[Verdict] = []
    differing: dict[int, ResultPairs] = {}
    for task, of_task, outcome in zip(tasks, inputs, outcomes, strict=True):
        reference = expected[task.name]
        verdict = to_verdict(outcome)
        if reference.kind != "value":
            verdict = Verdict(False, f"the canonical solution fails: {failure(reference)}")
        elif verdict.correct and (pairs := _differing_pairs(task, of_task, outcome, reference)):
            differing[len(verdicts)] = ResultPairs(task.rule, pairs)
        verdicts.append(verdict)
    agreed = agree(list(differing.values()), sandbox)
    for number, is_correct in zip(differing, agreed, strict=True):
        if not is_correct:
            verdicts[number] = replace(verdicts[number], correct=False, reason="wrong")
    return verdicts


def _job(program: str, task: Task, inputs: Sequence[Sequence[Any]], limits: Limits) -> Job:
    texts = tuple(arguments_text(arguments) for arguments in inputs)
    literal = all(is_literal(arguments) for arguments in inputs)
    return Job(
        with_entry(program, task.entry),
        texts,
        entry=ENTRY,
        input_as="literal" if literal else "expression",
        limits=limits,
    )


def _limits(reference: Outcome) -> Limits:
    """EvalPlus allows four times the canonical solution's time; we add five seconds."""
    return Limits(
        cpu_s=min(4 * reference.cpu_s + 5, 300),
        memory_mb=2048,
        output_kb=REFERENCE_LIMITS.output_kb,
    )


def _differing_pairs(
    task: Task, inputs: Sequence[Sequence[Any]], outcome: Outcome, reference: Outcome
) -> list[tuple[str, str]]:
    """Results whose texts differ, beside what they are compared with."""
    pairs = []
    for arguments, actual, expected in zip(inputs, outcome.values, reference.values, strict=True):
        if actual != expected or _OBJECT in actual:
            # any root of the polynomial in the argument will do
            pairs.append(
                (actual, arguments_text(arguments) if task.rule.name == "root" else expected)
            )
    return pairs


def to_verdict(outcome: Outcome) -> Verdict:
    """Correct if the job gave values."""
    is_value = outcome.kind == "value"
    return Verdict(is_value, "" if is_value else failure(outcome), outcome.cpu_s)


def failure(outcome: Outcome) -> str:
    """Why a job returned no value, in a few words."""
    return f"{outcome.kind}: {outcome.detail}" if outcome.detail else outcome.kind
