"""The archive of a world's problems: each once, the oldest leave first."""

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random

from pydantic import Field

from redqueen.config.section import Section
from redqueen.records import Problem
from redqueen.tasks.code.coverage import cell


class ArchiveConfig(Section):
    cap: int = Field(default=2000, ge=1)
    """Most problems that are kept; the oldest leave first."""
    seeds: str = "examples"
    """What it begins with: `examples` (a few small worked ones), `pawn` (random programs, as Pawn
    knows them), or a JSONL file of problems."""
    seed_count: int = Field(default=64, ge=1)
    """How many random programs, for `pawn`."""
    seed_tiers: tuple[int, int] = (1, 3)
    """Lowest and highest tier of these."""
    rarity: float = Field(default=0.0, ge=0)
    """How strongly problems of rare structure are preferred when teachers are shown some: each
    counts as one over the archive's problems in its structural cell, to this power. 0: all alike;
    1: every cell as likely as every other."""


class Archive:
    """At most `cap` problems by key, in order of arrival."""

    def __init__(self, cap: int, problems: Iterable[Problem] = ()) -> None:
        self.cap = cap
        self._problems: dict[str, Problem] = {}
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> bool:
        """Take the problem in; False if it is there already."""
        if problem.key in self._problems:
            return False
        self._problems[problem.key] = problem
        while len(self._problems) > self.cap:
            del self._problems[next(iter(self._problems))]
        return True

    def sample(
        self, count: int, draw: Random, kinds: Iterable[str] | None = None, rarity: float = 0.0
    ) -> list[Problem]:
        """Different problems, of these kinds where they are given, as many as there are up to
        `count`; those of rare structure sooner."""
        wanted = None if kinds is None else set(kinds)
        there = [problem for problem in self if wanted is None or problem.kind in wanted]
        if not rarity:
            return draw.sample(there, min(count, len(there)))
        cells = [cell(problem) for problem in there]
        crowds = Counter(cells)
        # the least of exponential times, each at its own rate: a weighted draw without putting back
        # (Efraimidis and Spirakis)
        times = [
            (draw.expovariate(crowds[where] ** -rarity), number)
            for number, where in enumerate(cells)
        ]
        return [there[number] for _, number in sorted(times)[:count]]

    def __contains__(self, key: object) -> bool:
        return key in self._problems

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems.values())

    def __len__(self) -> int:
        return len(self._problems)
