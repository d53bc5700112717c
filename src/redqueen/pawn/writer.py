"""Writes random functions by the grammar: typed, seeded, and sure to terminate.

A function is written forwards, statement by statement, each using variables that exist, and run as
it is written, so that an unfit statement is replaced at once. Statements that the returned value
does not need are dropped at the end.
"""

from collections.abc import Callable, Sequence
from random import Random

from redqueen.pawn.choices import Choices
from redqueen.pawn.grammar import ARGUMENT_NAMES, COUNTS, INT, INTS, PAIR, STR, STRS, TIERS
from redqueen.pawn.inputs import sample_input
from redqueen.pawn.runs import Run, run_further
from redqueen.pawn.scope import Scope
from redqueen.pawn.statements import Statements
from redqueen.pawn.tree import DeadEnd, Line, Return, Statement, needed, walk

_ARGUMENT_TYPES = (INT,) * 6 + (STR,) * 6 + (INTS,) * 8 + (STRS,) * 3 + (PAIR,) * 2 + (COUNTS,) * 1
_RETRIES = 8
_SCOUTS = 5
"""Inputs that a function is run on while it is written; the others follow when it is done."""


def are_varied(values: Sequence[object]) -> bool:
    """Whether the most frequent value makes up at most half of them."""
    return max(map(values.count, values)) * 2 <= len(values)


class Writer:
    """Writes one function and runs it on its inputs."""

    def __init__(self, rng: Random, tier: int, inputs: int) -> None:
        choices, self.tier = Choices(rng), TIERS[tier]
        self.choices, self.scope = choices, Scope(choices)
        for _ in range(choices.between(1, self.tier.arguments)):
            self.scope.add(choices.pick(_ARGUMENT_TYPES), ARGUMENT_NAMES)
        self.arguments = list(self.scope.types)
        self.scope.unchanged = set(self.arguments)
        self.inputs = [
            {
                name: sample_input(choices, kind, self.tier)
                for name, kind in self.scope.types.items()
            }
            for _ in range(inputs)
        ]
        self.statements = Statements(choices, self.scope, tier)
        self._runs = [Run(values, []) for values in self.inputs[:_SCOUTS]]

    def write(self) -> list[Statement]:
        """A body without statements that its value does not need."""
        goal = self.choices.between(*self.tier.statements)
        body: list[Statement] = []
        while (size := len(walk(body))) < goal:
            body += self._try(lambda room=goal - size: self.statements.sample(room, 0))  # type: ignore[misc]
        self._try(lambda: self._finish(body))
        return self._kept

    def run(self) -> list[Run]:
        """The written body on every input. The runs so far remain valid if nothing was dropped."""
        max_steps = self.tier.trace[1]
        if self._dropped:
            return run_further([Run(values, []) for values in self.inputs], self._kept, max_steps)
        others = [Run(values, []) for values in self.inputs[_SCOUTS:]]
        return self._runs + run_further(others, self._kept, max_steps, proven=True)

    def _finish(self, body: list[Statement]) -> list[Statement]:
        """A return that needs most of the body."""
        ending = self.statements.sample_return()
        kept, _ = needed(body, ending.value.uses)
        size = len(walk(kept))
        if size < self.tier.statements[0]:
            raise DeadEnd
        self._kept, self._dropped = [*kept, ending], size < len(walk(body))
        return [ending]

    def _try(self, sample: Callable[[], list[Statement]]) -> list[Statement]:
        """Sample until the statements are fit; failed attempts leave no trace."""
        scope, blocks_left = self.scope.save(), self.statements.blocks_left
        for _ in range(_RETRIES):
            try:
                statements = sample()
                runs = run_further(self._runs, statements, self.tier.trace[1])
                if not _depends_on_inputs(statements[-1], runs):
                    raise DeadEnd
            except DeadEnd:
                self.scope.restore(scope)
                self.statements.blocks_left = blocks_left
            else:
                self._runs = runs
                return statements
        raise DeadEnd


def _depends_on_inputs(last: Statement, runs: Sequence[Run]) -> bool:
    """Whether the inputs still matter after this statement: returned values vary, and its variables
    are not the same for all inputs."""
    if isinstance(last, Return):
        return are_varied([run.output for run in runs])
    running = [run for run in runs if run.output is None]
    if len(running) * 2 < len(runs):
        return False
    first, *others = running
    targets = [part.target for part in walk([last]) if type(part) is Line]
    return not targets or any(
        repr(run.variables.get(name)) != repr(first.variables.get(name))
        for name in targets
        for run in others
    )
