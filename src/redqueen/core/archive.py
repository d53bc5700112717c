"""The archive of a world's problems: each once, the oldest leave first."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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


def admit_solved_sometimes(problem: Problem, solve_rate: float, settings: Choice) -> bool:
    """Problems that some attempts solve and some do not: the others teach nobody, and teachers that
    are shown unsolved ones write ever harder ones."""
    return 0 < solve_rate < 1


POLICIES: Registry[Policy] = Registry(
    "archive policy", {"solved_sometimes": admit_solved_sometimes, "all": admit_all}
)


@dataclass(frozen=True, slots=True)
class LastSolved:
    """How often a problem was solved when it was last attempted, and in which step."""

    solve_rate: float
    step: int


class Archive:
    """At most `cap` problems by key, in order of arrival, with how often each was solved last."""

    def __init__(self, cap: int, problems: Iterable[Problem] = ()) -> None:
        self.cap = cap
        self.last_solved: dict[str, LastSolved] = {}
        """By key; a seed that was not attempted yet has none."""
        self._problems: dict[str, Problem] = {}
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> bool:
        """Take the problem in; False if it is there already."""
        if problem.key in self._problems:
            return False
        self._problems[problem.key] = problem
        while len(self._problems) > self.cap:
            oldest = next(iter(self._problems))
            del self._problems[oldest]
            self.last_solved.pop(oldest, None)
        return True

    def solved(self, key: str, solve_rate: float, step: int) -> None:
        """Note how often a problem was solved in a step, if it is here."""
        if key in self._problems:
            self.last_solved[key] = LastSolved(solve_rate, step)

    def remove(self, key: str) -> None:
        self._problems.pop(key, None)
        self.last_solved.pop(key, None)

    def sample_to_replay(
        self, count: int, step: int, staleness: float, rng: Random, without: str = ""
    ) -> list[Problem]:
        """Problems to attempt again: those solved about half of the time sooner, and those not
        attempted for long (prioritized level replay, Jiang et al. 2021, arXiv 2010.03934). None of
        the author that is left out, none that was never attempted."""
        found = [
            (problem, self.last_solved[problem.key])
            for problem in self
            if problem.key in self.last_solved
            and (problem.author is None or problem.author.member != without)
        ]
        balance = [last.solve_rate * (1 - last.solve_rate) for _, last in found]
        age = [float(step - last.step) for _, last in found]
        shares = zip(*(_normalize(values) for values in (balance, age)), strict=True)
        rates = [(1 - staleness) * score + staleness * stale for score, stale in shares]
        times = [(rng.expovariate(rate), place) for place, rate in enumerate(rates) if rate > 0]
        return [found[place][0] for _, place in sorted(times)[:count]]

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


def _normalize(values: list[float]) -> list[float]:
    total = sum(values)
    return [value / total if total else 0.0 for value in values]
