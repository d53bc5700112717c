"""A function run while it is being written: its variables for each of its inputs, up to the last
statement.

Functions by our own grammar are run here, in this process, by the actions of their parts; what a
model writes never is. A statement is taken when it runs on every input, all of it is reached for
some input, every change changes something, and nothing grows too large.
"""

from collections.abc import Sequence

from redqueen.pawn.tree import (
    Action,
    Branch,
    Jump,
    Line,
    Loop,
    NoWay,
    Return,
    Statement,
    Variables,
    walk,
)
from redqueen.sandbox.literals import canonical

_LONGEST_VALUE = 40
_LARGEST_INT = 9999
_RAISED = (IndexError, ValueError, KeyError, ZeroDivisionError)
"""What a written statement can raise."""


class Run:
    """The run on one input."""

    __slots__ = ("output", "trace", "variables")

    def __init__(self, variables: Variables, trace: list[str], output: str | None = None) -> None:
        self.variables = variables
        self.trace = trace
        """A line for each step: `name = value`."""
        self.output = output


def run_further(
    runs: Sequence[Run], statements: Sequence[Statement], most_steps: int, proven: bool = False
) -> list[Run]:
    """The same runs after these statements too; raises NoWay where the statements are not fit.

    `proven`: that every step changes something is known already, by other inputs.
    """
    try:
        if isinstance(statements[0], Return):
            return _returned(runs, statements[0].value.value)
        observer = _Observer(statements, most_steps)
        if proven:
            observer.waiting.clear()
        further = [run if run.output is not None else observer.run(run) for run in runs]
    except _RAISED as error:
        raise NoWay from error
    if observer.waiting:
        raise NoWay
    return further


def _returned(runs: Sequence[Run], value: Action) -> list[Run]:
    """The runs after a return alone, which sets nothing: nothing is copied, and there is no step to
    watch."""
    return [
        run
        if run.output is not None
        else Run(run.variables, run.trace, bounded(value(run.variables)))
        for run in runs
    ]


class _Observer:
    def __init__(self, statements: Sequence[Statement], most_steps: int) -> None:
        self.statements, self.most_steps = statements, most_steps
        self.waiting: set[int] = set()
        """Ids of the steps that were not yet reached, or have not yet changed anything: lines,
        jumps, returns, names that a loop sets."""
        self.changed: list[str] = []
        """Variables whose values may be changed in place: no others are copied."""
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
        self.go(self.statements)
        return after

    def go(self, statements: Sequence[Statement]) -> str:
        """Runs these statements; returns what left them early: "break", "continue" or "return"."""
        variables = self.variables
        for statement in statements:
            if type(statement) is Line:
                statement.run(variables)
                self.note(statement, statement.target, variables[statement.target])
            elif type(statement) is Branch:
                left = self.go(
                    statement.body if statement.test.value(variables) else statement.orelse
                )
                if left:
                    return left
            elif type(statement) is Loop:
                if self.loop(statement):
                    return "return"
            elif type(statement) is Jump:
                self.waiting.discard(id(statement))
                return statement.text
            elif type(statement) is Return:
                self.waiting.discard(id(statement))
                self.after.output = bounded(statement.value.value(variables))
                return "return"
        return ""

    def loop(self, loop: Loop) -> bool:
        """Runs a loop; returns whether it was left by a return."""
        targets, variables = loop.targets, self.variables
        for values in loop.turns(variables):
            for name, value in zip(targets, values, strict=True):
                variables[name] = value
                self.note(name, name, value)
            left = self.go(loop.body)
            if left in ("break", "return"):
                return left == "return"
        return False

    def note(self, step: object, name: str, value: object) -> None:
        """A step has set this variable to this value."""
        trace = self.trace
        if len(trace) >= self.most_steps:
            raise NoWay
        text = bounded(value)
        if self.waiting:
            if id(step) in self.waiting and text != self.text_before(name):
                self.waiting.remove(id(step))
            self.last[name] = text
        trace.append(f"{name} = {text}")

    def text_before(self, name: str) -> str:
        """The variable's last literal, empty where it was not set."""
        return self.last.get(name) or (show(self.before[name]) if name in self.before else "")


def show(value: object) -> str:
    """A value as its canonical literal."""
    if type(value) is dict:  # of texts without quotes, whose literals sort as they do
        return repr(dict(sorted(value.items())))
    text = repr(value)
    return canonical(value) if "{" in text else text


def bounded(value: object) -> str:
    """The value's literal; raises NoWay where it is too large."""
    if type(value) is int:
        if -_LARGEST_INT <= value <= _LARGEST_INT:
            return repr(value)
        raise NoWay
    text = show(value)
    if len(text) > _LONGEST_VALUE:
        raise NoWay
    return text
