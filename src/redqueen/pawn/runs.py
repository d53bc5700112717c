"""Runs of a function that is being written: its variables for each input, after the last statement.

Only functions of our own grammar run here, in this process, by the actions of their parts; what a
model writes never does. A statement is fit if it runs on every input, all of it is reached for some
input, every change changes something, and no value grows too large.
"""

from collections.abc import Sequence

from redqueen.pawn.tree import (
    Action,
    Branch,
    DeadEnd,
    Jump,
    Line,
    Loop,
    Return,
    Statement,
    Variables,
    walk,
)
from redqueen.sandbox.literals import canonical

_LONGEST_VALUE = 40
_LARGEST_INT = 9999
RAISED = (IndexError, ValueError, KeyError, ZeroDivisionError)
"""What a statement can raise."""


class Run:
    """The run on one input."""

    __slots__ = ("output", "trace", "variables")

    def __init__(self, variables: Variables, trace: list[str], output: str | None = None) -> None:
        self.variables = variables
        self.trace = trace
        """A line for each step: `name = value`."""
        self.output = output


def run_further(
    runs: Sequence[Run], statements: Sequence[Statement], max_steps: int, proven: bool = False
) -> list[Run]:
    """The runs, continued with these statements; raises DeadEnd if the statements are not fit.

    `proven`: other inputs have shown that every step changes something.
    """
    try:
        if isinstance(statements[0], Return):
            return _run_return(runs, statements[0].value.value)
        observer = Observer(statements, max_steps)
        if proven:
            observer.waiting.clear()
        further = [run if run.output is not None else observer.run(run) for run in runs]
    except RAISED as error:
        raise DeadEnd from error
    if observer.waiting:
        raise DeadEnd
    return further


def _run_return(runs: Sequence[Run], value: Action) -> list[Run]:
    """A return sets nothing: no variables to copy, no steps to observe."""
    return [
        run
        if run.output is not None
        else Run(run.variables, run.trace, write_bounded(value(run.variables)))
        for run in runs
    ]


class Observer:
    """Runs statements and watches that all of them have an effect."""

    def __init__(self, statements: Sequence[Statement], max_steps: int) -> None:
        self.statements, self.max_steps = statements, max_steps
        self.waiting: set[int] = set()
        """Ids of the steps that were not yet reached or have not yet changed anything: lines,
        jumps, returns, names that a loop sets."""
        self.changed: list[str] = []
        """Variables whose values may be changed in place: only these are copied."""
        for part in walk(statements):
            if type(part) is Loop:
                self.waiting.update(map(id, part.targets))
            elif type(part) is not Branch:
                self.waiting.add(id(part))
                if type(part) is Line and part.changes:
                    self.changed.append(part.target)

    def run(self, before: Run) -> Run:
        after = Run(before.variables.copy(), before.trace.copy())
        self.after, self.variables, self.trace = after, after.variables, after.trace
        for name in self.changed:
            value = before.variables.get(name)
            if type(value) is list or type(value) is dict:
                after.variables[name] = value.copy()
        self.before = before.variables
        self.last: dict[str, str] = {}
        self.execute(self.statements)
        return after

    def execute(self, statements: Sequence[Statement]) -> str:
        """Runs the statements; returns what ended them early: "break", "continue", "return" or
        nothing."""
        variables = self.variables
        for statement in statements:
            if type(statement) is Line:
                statement.run(variables)
                self.note(statement, statement.target, variables[statement.target])
            elif type(statement) is Branch:
                taken = statement.body if statement.test.value(variables) else statement.orelse
                exit_by = self.execute(taken)
                if exit_by:
                    return exit_by
            elif type(statement) is Loop:
                if self.execute_loop(statement):
                    return "return"
            elif type(statement) is Jump:
                self.waiting.discard(id(statement))
                return statement.text
            elif type(statement) is Return:
                self.waiting.discard(id(statement))
                self.after.output = write_bounded(statement.value.value(variables))
                return "return"
        return ""

    def execute_loop(self, loop: Loop) -> bool:
        """Runs a loop; returns whether a return ended it."""
        targets, variables = loop.targets, self.variables
        for values in loop.turns(variables):
            for name, value in zip(targets, values, strict=True):
                variables[name] = value
                self.note(name, name, value)
            exit_by = self.execute(loop.body)
            if exit_by in ("break", "return"):
                return exit_by == "return"
        return False

    def note(self, step: object, name: str, value: object) -> None:
        """A step has set this variable to this value."""
        trace = self.trace
        if len(trace) >= self.max_steps:
            raise DeadEnd
        text = write_bounded(value)
        if self.waiting:
            if id(step) in self.waiting and text != self.text_before(name):
                self.waiting.remove(id(step))
            self.last[name] = text
        trace.append(f"{name} = {text}")

    def text_before(self, name: str) -> str:
        """The variable's last literal, empty if it was not set."""
        return self.last.get(name) or (_write(self.before[name]) if name in self.before else "")


def _write(value: object) -> str:
    """A value as its canonical literal."""
    if type(value) is dict:  # keys are texts without quotes, which sort as their literals do
        return repr(dict(sorted(value.items())))
    text = repr(value)
    return canonical(value) if "{" in text else text


def write_bounded(value: object) -> str:
    """The value's literal; raises DeadEnd if it is too large."""
    if type(value) is int:
        if -_LARGEST_INT <= value <= _LARGEST_INT:
            return repr(value)
        raise DeadEnd
    text = _write(value)
    if len(text) > _LONGEST_VALUE:
        raise DeadEnd
    return text
