"""What a world spent, step by step: tokens written and learned from, seconds, and an estimate of
operations."""

import json
from dataclasses import dataclass
from importlib import resources

from redqueen.report.run_view import Side

_PER_TOKEN_WRITTEN = 2
"""Operations per parameter: one multiplication and one addition."""
_PER_TOKEN_LEARNED = 4
"""The way forward, and the way back through frozen weights, which need no gradients of their own."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums up to and including each step; the first stands for step 0. Prompts are not counted: the
    ledger does not have their lengths."""

    members: int
    """Adapters that live at a time."""
    written: list[float]
    learned: list[float]
    seconds: list[float]
    parameters: int | None
    """Of the base, where they are known."""

    def tokens(self, step: int) -> float:
        return self.written[step] + self.learned[step]

    def operations(self, step: int) -> float | None:
        if self.parameters is None:
            return None
        return self.parameters * (
            _PER_TOKEN_WRITTEN * self.written[step] + _PER_TOKEN_LEARNED * self.learned[step]
        )

    def step_within(self, budget: float, each: bool) -> int:
        """The last step at which so many tokens are not exceeded, in all or for each adapter; at
        least the first."""
        share = self.members if each else 1
        steps = [
            step
            for step in range(len(self.written))
            if self.tokens(step) / share <= budget * (1 + 1e-9)
        ]
        return max(min(1, len(self.written) - 1), steps[-1] if steps else 0)


def spent(side: Side) -> Spent:
    written = _sums(
        side,
        "SELECT step, sum(value) FROM metrics WHERE world = :world AND name IN ('propose/tokens', 'solve/tokens') GROUP BY step",
    )
    learned = _sums(
        side, "SELECT step, sum(tokens) FROM updates WHERE world = :world GROUP BY step"
    )
    seconds = _sums(side, "SELECT step, sum(seconds) FROM timings GROUP BY step")
    (all_tokens,) = side.row(
        "SELECT sum(value) FROM metrics WHERE name IN ('propose/tokens', 'solve/tokens')"
    )
    share = (
        written[-1] / all_tokens if all_tokens else 1.0
    )  # worlds of one run share its time, by their tokens
    (members,) = side.row("SELECT count(*) FROM births WHERE world = :world AND step = 0")
    return Spent(
        max(1, members),
        written,
        learned,
        [share * value for value in seconds],
        parameters_of(side.about),
    )


def _sums(side: Side, query: str) -> list[float]:
    each = {row[0]: float(row[1] or 0) for row in side.rows(query)}
    found, total = [], 0.0
    for step in range(side.last + 1):
        total += each.get(step, 0.0)
        found.append(total)
    return found


def parameters_of(about: dict[str, str]) -> int | None:
    """Of the base: as the run noted them, or as Pawn's own card says."""
    if about.get("parameters", "").isdecimal():
        return int(about["parameters"])
    if about.get("base") != "pawn":
        return None
    card = resources.files("redqueen.pawn").joinpath("weights", "pretraining.json")
    return int(json.loads(card.read_text(encoding="utf-8"))["parameters"])
