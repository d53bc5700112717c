"""Compares what candidates returned with what was expected: in the sandbox, where a text that takes
forever to read, or crashes its reader, is a wrong answer and nothing else."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from redqueen.benchmarks.programs import read_program
from redqueen.sandbox import Job, Limits, Sandbox

LIMITS = Limits(cpu_s=1.5, memory_mb=2048)
MAX_CHARS = 12_000_000
"""Of all texts of one reply: results that differ in more are wrong. The canonical solutions return
6.4 million characters at most (HumanEval/83)."""

RuleName = Literal["equal", "near", "any order", "presence", "root", "json", "output"]


@dataclass(frozen=True, slots=True)
class Rule:
    """How results are compared; see programs/compare_results.py."""

    name: RuleName
    atol: float = 0.0


EQUAL = Rule("equal")


@dataclass(frozen=True, slots=True)
class ResultPairs:
    """The results of one reply: (actual, expected) as texts."""

    rule: Rule
    pairs: Sequence[tuple[str, str]]


def agree(replies: Sequence[ResultPairs], sandbox: Sandbox) -> list[bool]:
    """For each reply, whether all its pairs agree."""
    numbers = [number for number, reply in enumerate(replies) if _size(reply) <= MAX_CHARS]
    program = read_program("decode_results") + read_program("compare_results")
    outcomes = sandbox.run(
        [
            Job(program, (_to_json(replies[number]),), mode="script", limits=LIMITS)
            for number in numbers
        ]
    )
    agreed = [False] * len(replies)
    for number, outcome in zip(numbers, outcomes, strict=True):
        agreed[number] = outcome.kind == "value" and outcome.values == (r"'yes\n'",)
    return agreed


def _size(results: ResultPairs) -> int:
    return sum(len(actual) + len(expected) for actual, expected in results.pairs)


def _to_json(results: ResultPairs) -> str:
    rule = results.rule
    return json.dumps([rule.name, rule.atol, results.pairs], ensure_ascii=False)
