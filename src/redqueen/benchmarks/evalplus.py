"""Grading as EvalPlus does it: a program is correct if it returns what the canonical solution
returns, on every input, within `atol`.

The canonical solution runs in the sandbox too, beside the candidates. Base inputs come first: a
candidate that fails them is not run on the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.benchmarks.suite import CORRECT, Verdict
from redqueen.benchmarks.value_codec import (
    ENTRY,
    arguments_text,
    decode,
    has_same_elements,
    is_equal,
    is_literal,
    with_entry,
)
from redqueen.sandbox import Job, Limits, Outcome, Sandbox

Oracle = Callable[[Sequence[Any], Any, Any], bool]
"""(arguments, actual, expected): is it correct?"""

REFERENCE_LIMITS = Limits(cpu_s=60, memory_mb=2048, output_kb=16 * 1024)


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
    oracle: Oracle


def within(atol: float) -> Oracle:
    return lambda arguments, actual, expected: is_equal(actual, expected, atol)


def in_any_order(arguments: Sequence[Any], actual: Any, expected: Any) -> bool:
    return has_same_elements(actual, expected)


def by_presence(arguments: Sequence[Any], actual: Any, expected: Any) -> bool:
    """For functions that say yes with an object, such as a match: only its presence counts."""
    return bool(actual is not None and actual is not False) == bool(
        expected is not None and expected is not False
    )


def root_of_polynomial(atol: float) -> Oracle:
    """For functions that find any root of a polynomial, given by its coefficients from the constant
    up."""

    def is_root(arguments: Sequence[Any], actual: Any, expected: Any) -> bool:
        if isinstance(actual, bool) or not isinstance(actual, (int, float)):
            return False
        try:
            x = float(actual)  # powers of a huge integer would take forever
            value = sum(coefficient * x**power for power, coefficient in enumerate(arguments[0]))
        except OverflowError:
            return False
        return bool(abs(value) <= atol)

    return is_root


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
    return [
        _verdict(task, of_task, outcome, expected[task.name])
        for task, of_task, outcome in zip(tasks, inputs, outcomes, strict=True)
    ]


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


def _verdict(
    task: Task, inputs: Sequence[Sequence[Any]], outcome: Outcome, reference: Outcome
) -> Verdict:
    for arguments, actual, expected in zip(inputs, outcome.results, reference.results, strict=True):
        if expected.kind != "value":
            return Verdict(False, f"the canonical solution fails: {expected.kind} {expected.text}")
        if actual.kind != "value":
            return Verdict(False, failure(outcome))
        if actual.text == expected.text and _OBJECT not in actual.text:
            continue
        if not task.oracle(arguments, decode(actual.text), decode(expected.text)):
            return Verdict(False, "wrong")
    return CORRECT


def failure(outcome: Outcome) -> str:
    """Why a job returned no value, in a few words."""
    return f"{outcome.kind}: {outcome.detail}" if outcome.detail else outcome.kind
