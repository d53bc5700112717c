"""The archive of a world's problems: each once, the oldest leave first."""

from collections.abc import Iterable, Iterator
from random import Random

from redqueen.records import Problem


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

    def sample(self, count: int, draw: Random) -> list[Problem]:
        """Different problems, as many as there are up to `count`."""
        return draw.sample(list(self), min(count, len(self)))

    def __contains__(self, key: object) -> bool:
        return key in self._problems

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems.values())

    def __len__(self) -> int:
        return len(self._problems)
