"""A function run while it is being written: its variables for each of its inputs, up to the last statement.

Functions by our own grammar are run here, in this process; what a model writes never is. A statement is taken when it runs on every
input, all of it is reached for some input, every change changes something, and nothing grows too large.
"""

from collections.abc import Sequence
from typing import Any

from redqueen.pawn.tree import NoWay, Statement, watched
from redqueen.sandbox.literals import canonical

_LONGEST_VALUE = 40
_LARGEST_INT = 9999
_RAISED = (IndexError, ValueError, KeyError, ZeroDivisionError)
"""What a written statement can raise."""


class _Returned(Exception):
    """Raised in place of a return."""


class Run:
    """The run on one input."""

    __slots__ = ("output", "trace", "variables")

    def __init__(self, variables: dict[str, Any], trace: list[str]) -> None:
        self.variables = variables
        self.trace = trace
        """A line for each step: `name = value`."""
        self.output: str | None = None


def run_further(runs: Sequence[Run], statements: Sequence[Statement], most_steps: int) -> list[Run]:
    """The same runs after these statements too; raises NoWay where the statements are not fit."""
    text, names = watched(statements)
    code = compile(text, "f", "exec")
    observer = _Observer(names, most_steps)
    further = [run if run.output is not None else observer.run(code, run) for run in runs]
    if not all(observer.effective):
        raise NoWay
    return further


class _Observer:
    def __init__(self, names: Sequence[str], most_steps: int) -> None:
        self.names, self.most_steps = names, most_steps
        self.effective = [False] * len(names)
        """For each step of the statements: whether it was ever reached, and changed something."""

    def run(self, code: Any, before: Run) -> Run:
        self.before, self.last = before.variables, dict[str, str]()
        after = Run({name: value.copy() if type(value) in (list, dict) else value for name, value in before.variables.items()}, before.trace.copy())
        self.trace = after.trace
        namespace = after.variables
        namespace["_t"], namespace["_r"] = self.note, _Returned
        try:
            exec(code, namespace)
        except _Returned as returned:
            after.output = bounded(returned.args[0])
        except _RAISED as error:
            raise NoWay from error
        del namespace["_t"], namespace["_r"], namespace["__builtins__"]
        return after

    def note(self, number: int, value: object = None) -> None:
        name = self.names[number]
        if not name:
            self.effective[number] = True
            return
        if len(self.trace) >= self.most_steps:
            raise NoWay
        text = bounded(value)
        if not self.effective[number]:
            last = self.last.get(name) or (show(self.before[name]) if name in self.before else "")
            self.effective[number] = text != last
        self.last[name] = text
        self.trace.append(f"{name} = {text}")


def show(value: object) -> str:
    """A value as its canonical literal."""
    text = repr(value)
    return canonical(value) if "{" in text else text


def bounded(value: object) -> str:
    """The value's literal; raises NoWay where it is too large."""
    if type(value) is int and abs(value) > _LARGEST_INT:
        raise NoWay
    text = show(value)
    if len(text) > _LONGEST_VALUE:
        raise NoWay
    return text
