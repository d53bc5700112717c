"""The variables of a function that is being written."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from redqueen.pawn.choices import Choices
from redqueen.pawn.tree import DeadEnd


class Snapshot(NamedTuple):
    """What backtracking restores."""

    types: dict[str, str]
    fresh: list[str]
    taken: set[str]


class Scope:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.types: dict[str, str] = {}
        """Variables that are set on every path to here, with their types."""
        self.fresh: list[str] = []
        """Variables not used since they were set: preferred in expressions."""
        self.fixed: set[str] = set()
        """Variables that must not be changed now, because a loop depends on them."""
        self.unchanged: set[str] = set()
        """Arguments as they were passed: to return one alone would be no work."""
        self._taken: set[str] = set()

    def save(self) -> Snapshot:
        return Snapshot(self.types.copy(), self.fresh.copy(), self._taken.copy())

    def restore(self, snapshot: Snapshot) -> None:
        """Backtrack to a statement's start. `unchanged` stays as it is: restoring it would give
        other programs for every seed."""
        self.types = snapshot.types.copy()
        self.fresh = snapshot.fresh.copy()
        self._taken = snapshot.taken.copy()
        self.fixed = set()

    def new_name(self, names: list[str]) -> str:
        """A name that is not taken, often the first one."""
        free = [name for name in names if name not in self._taken]
        if not free:
            raise DeadEnd
        name = free[0] if self.choices.flip(0.5) else self.choices.pick(free)
        self._taken.add(name)
        return name

    def add(self, kind: str, names: dict[str, list[str]]) -> str:
        """A new variable of this type."""
        name = self.new_name(names[kind])
        self.types[name] = kind
        self.refresh(name)
        return name

    def refresh(self, name: str) -> None:
        """The variable has a new value, which nothing has used."""
        if name not in self.fresh:
            self.fresh.append(name)

    def changeable(self) -> list[str]:
        return [name for name in self.types if name not in self.fixed]

    def use(self, kind: str) -> str | None:
        """A variable of this type, preferably a fresh one; None if there is none."""
        names = [name for name in self.fresh if self.types.get(name) == kind]
        if not names or not self.choices.flip(0.85):
            names = [name for name, type_ in self.types.items() if type_ == kind]
        if not names:
            return None
        name = self.choices.pick(names)
        if name in self.fresh:
            self.fresh.remove(name)
        return name

    @contextmanager
    def loop(
        self, targets: dict[str, str], fixed: Collection[str], accumulator: str
    ) -> Iterator[None]:
        """The body of a loop that sets `targets` and depends on `fixed`. Its variables end with it;
        the accumulator has a new value after it."""
        outer, outer_fixed = dict(self.types), set(self.fixed)
        self.types.update(targets)
        self.fixed |= {*targets, *fixed}
        # twice: the loop's own variables are the likeliest to be used
        self.fresh = [name for name in self.fresh if name != accumulator] + list(targets) * 2
        yield
        self.types = {name: kind for name, kind in self.types.items() if name in outer}
        self.fresh = [name for name in self.fresh if name in outer]
        self.fixed = outer_fixed
        self.refresh(accumulator)
