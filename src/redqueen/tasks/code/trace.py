"""Reasoning against execution: where a chain of thought first contradicts what the program does.

Two forms are read. Pawn's has a line for every variable that is set, `name = value`, in the order
of execution; lines of working, which begin with a colon, are not judged. In free text, claims such
as `total is 3`, `x = [1, 2]` or `n: 0 + 2 = 2` are looked for; what is no such claim is not judged.
The trace comes from the sandbox (`tracer.py`). A program that notices that it is traced could forge
it, so it counts only if it ends in the gold answer.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from redqueen.sandbox import Job, Limits, Outcome
from redqueen.sandbox.literals import NotLiteral, canonical, parse_arguments, parse_literal

MAX_LINES, MAX_LINE = 400, 400
"""Of a reasoning that are read; the rest is not judged."""
_LIMITS = Limits(0.5, 256)
_PLAIN = re.compile(r"([A-Za-z_]\w*) = (.+)")
_CLAIM = re.compile(r"\b([A-Za-z_]\w*)`?\s*(?:(?<![<>!=])=(?!=)|:|->|→|\bis\b|\bbecomes\b)\s*`?")
_SIMPLE = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|True|False|None|'[^'\\]*'|\"[^\"\\]*\"")
_CONDITION = re.compile(r"\b(?:if|when|while|whether|unless|suppose|not|until|check)\b|\?", re.I)
_GOES_ON = re.compile(r"\s*(?:[-+*/%<>&|^\[(]|==|!=|\w|\.\w)")
_CLOSING = {"[": "]", "(": ")", "{": "}"}


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of a run: name and value of every variable that is set, in order."""

    steps: tuple[tuple[str, str], ...]
    """Values are canonical literals; empty where a value is not known."""
    given: int
    """So many of the first steps are arguments."""
    complete: bool
    """Whether it goes to the end."""


@cache
def _program() -> str:
    return Path(__file__).with_name("tracer.py").read_text(encoding="utf-8")


def trace_job(program: str, arguments: str, changed: int = -1, other: str = "None") -> Job:
    """On demand with another value at one step."""
    given = canonical(parse_arguments(arguments))
    call = f"{canonical(program)}, {given}, {changed}, {other}"
    return Job(_program(), (call,), limits=_LIMITS)


def read_returned(outcome: Outcome | None) -> str:
    """What the traced program returned; empty where that is not known."""
    if outcome is None or outcome.kind != "value":
        return ""
    try:
        return _literal(_as_tuple(parse_literal(outcome.values[0]))[0])
    except (NotLiteral, ValueError, TypeError):
        return ""


def read_trace(outcome: Outcome | None, gold: str) -> Trace | None:
    """None where there is none, or it does not end in the gold answer."""
    if outcome is None or read_returned(outcome) != gold:
        return None
    try:
        _, notes, complete = _as_tuple(parse_literal(outcome.values[0]))
        steps = tuple((name, _literal(text)) for _, name, text in notes)
        return Trace(steps, sum(line == 0 for line, _, _ in notes), bool(complete))
    except (NotLiteral, ValueError, TypeError):  # the program may have answered in our place
        return None


def _as_tuple(value: Any) -> tuple[str, list[tuple[int, str, str]], bool]:
    returned, notes, complete = value
    if not all(isinstance(name, str) and isinstance(text, str) for _, name, text in notes):
        raise ValueError("not a trace")
    return str(returned), list(notes), complete


def _literal(text: str) -> str:
    """In canonical spelling; empty where it is no literal."""
    try:
        return canonical(parse_literal(text))
    except NotLiteral:
        return ""


def first_departure(reasoning: str, trace: Trace) -> int | None:
    """The first line, from 0, that contradicts the trace."""
    lines = [line[:MAX_LINE] for line in reasoning.splitlines()[:MAX_LINES]]
    steps = [line.strip() for line in lines if line.strip() and not line.startswith(":")]
    written = [_PLAIN.fullmatch(step) for step in steps]
    if written and all(match is not None for match in written):
        return _follow_steps(lines, trace)
    return _check_claims(lines, trace)


def _follow_steps(lines: list[str], trace: Trace) -> int | None:
    """A line for a variable must be the next step that sets it. Arguments are steps as well, and
    may be left out: they were given."""
    place = 0
    for number, line in enumerate(lines):
        match = _PLAIN.fullmatch(line.strip())
        if match is None:
            continue
        name, value = match[1], _literal(match[2])
        own = [at for at in range(place, len(trace.steps)) if trace.steps[at][0] == name]
        if own and own[0] < trace.given and trace.steps[own[0]][1] != value:
            own.pop(0)
        if not own:
            return number if trace.complete else None
        if trace.steps[own[0]][1] not in ("", value):
            return number
        place = own[0] + 1
    return None


def _check_claims(lines: list[str], trace: Trace) -> int | None:
    """A claim holds if the variable has the value now, or gets it later: reasoning may pass over
    steps."""
    names = {name for name, _ in trace.steps}
    now: dict[str, str] = {}
    place = 0
    for number, line in enumerate(lines):
        for name, value in claims(line, names):
            if now.get(name) in (value, ""):
                continue
            later = [
                at
                for at in range(place, len(trace.steps))
                if trace.steps[at][0] == name and trace.steps[at][1] in (value, "")
            ]
            if not later:
                return number if trace.complete else None
            now |= dict(trace.steps[place : later[0] + 1])
            place = later[0] + 1
    return None


def alter_step(trace: Trace, rng: Random) -> tuple[int, str] | None:
    """One of the steps, not an argument, and another value of the same type for it."""
    known = [at for at in range(trace.given, len(trace.steps)) if trace.steps[at][1]]
    for at in rng.sample(known, len(known)):
        _, text = trace.steps[at]
        if (other := _other_value(parse_literal(text))) is not None:
            return at, canonical(other)
    return None


def _other_value(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value[1:] if len(value) > 1 else value + "a"
        case list() | tuple() if value:
            return value[:-1]
    return None


def write_steps(trace: Trace, until: int, other: str = "") -> str:
    """The steps up to one as reasoning, in Pawn's form; on demand with another value for the
    last."""
    lines = [f"{name} = {value}" for name, value in trace.steps[trace.given : until + 1]]
    if other:
        lines[-1] = f"{trace.steps[until][0]} = {other}"
    return "\n".join(lines)


def claims(line: str, names: Mapping[str, object] | set[str]) -> Iterator[tuple[str, str]]:
    """Variables and values that a line of free text says they have."""
    if line.rstrip().endswith("?"):
        return
    for match in _CLAIM.finditer(line):
        if match[1] in names and not _CONDITION.search(line[: match.start()]):
            value = _claimed_value(line[match.end() :])
            if value:
                yield match[1], value


def _claimed_value(text: str) -> str:
    """The literal that a text begins with, or that a formula at its beginning comes to: 2 of
    `0 + 2 = 2.` Empty where there is neither."""
    end = _literal_end(text)
    if end and not _GOES_ON.match(text[end:]):
        return _literal(text[:end])
    clause = re.split(r"[,;:.]\s|$", text, maxsplit=1)[0]
    before, equals, after = clause.rpartition(" = ")
    if not equals or _CONDITION.search(before):
        return ""
    end = _literal_end(after)
    return _literal(after[:end]) if end and not _GOES_ON.match(after[end:]) else ""


def _literal_end(text: str) -> int:
    """Where the literal ends that a text begins with; 0: it begins with none."""
    if match := _SIMPLE.match(text):
        return match.end()
    if text[:1] not in _CLOSING:
        return 0
    open_brackets: list[str] = []
    quote = ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _CLOSING:
            open_brackets.append(_CLOSING[character])
        elif character in "])}":
            if not open_brackets or open_brackets.pop() != character:
                return 0
            if not open_brackets:
                return place + 1
    return 0
