"""The archive of a world's problems: each once, the oldest leave first."""

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random

from redqueen.records import Problem
from redqueen.tasks.code.coverage import cell


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
