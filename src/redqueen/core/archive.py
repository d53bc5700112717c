"""The archive of a world's problems: each once, the oldest leave first."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from redqueen.config.registry import Choice, Registry
from redqueen.records import Problem
from redqueen.tasks import load_kind

Policy = Callable[[Problem, float, Any], bool]
"""From a problem, its solve rate and the settings: whether the archive takes it."""


def admit_all(problem: Problem, solve_rate: float, settings: Choice) -> bool:
    """Every verified problem, however often it is solved."""
    return True


POLICIES: Registry[Policy] = Registry("archive policy", {"all": admit_all})


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
        self, count: int, rng: Random, kinds: Iterable[str] | None = None, rarity: float = 0.0
    ) -> list[Problem]:
        """Different problems, of these kinds where some are given, as many as there are up to
        `count`; those of rare structure sooner."""
        wanted = None if kinds is None else set(kinds)
        problems = [problem for problem in self if wanted is None or problem.kind in wanted]
        if not rarity:
            return rng.sample(problems, min(count, len(problems)))
        cells = [load_kind(problem.kind).cell(problem) for problem in problems]
        sizes = Counter(cells)
        # the smallest of exponential times, each at its own rate: weighted sampling without
        # replacement (Efraimidis and Spirakis 2006)
        times = [
            (rng.expovariate(sizes[cell] ** -rarity), place) for place, cell in enumerate(cells)
        ]
        return [problems[place] for _, place in sorted(times)[:count]]

    def __contains__(self, key: object) -> bool:
        return key in self._problems

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems.values())

    def __len__(self) -> int:
        return len(self._problems)
