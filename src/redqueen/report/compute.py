"""What a world spent, step by step: tokens sampled and trained on, seconds, and estimated FLOPs."""

import json
from dataclasses import dataclass

from redqueen.models.bundled import BUNDLED
from redqueen.report.run_view import RunView

SAMPLED = (
    "('propose/tokens', 'solve/tokens', 'replay/tokens', 'exam/tokens', 'games/tokens', "
    "'people/tokens')"
)
"""Metrics that add up to what was sampled, for SQL."""
_FLOPS_PER_SAMPLED_TOKEN = 2
"""Per parameter: one multiplication and one addition."""
_FLOPS_PER_TRAINED_TOKEN = 4
"""Per parameter: forward, and backward through frozen weights, which need no gradients."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Cumulative sums by step, from step 0. Prompts are not counted: the ledger does not have their
    lengths."""

    members: int
    """Adapters alive at a time."""
    sampled: list[float]
    trained: list[float]
    seconds: list[float]
    parameters: int | None
    """Of the base, where known."""

    def tokens(self, step: int) -> float:
        return self.sampled[step] + self.trained[step]

    def flops(self, step: int) -> float | None:
        if self.parameters is None:
            return None
        return self.parameters * (
            _FLOPS_PER_SAMPLED_TOKEN * self.sampled[step]
            + _FLOPS_PER_TRAINED_TOKEN * self.trained[step]
        )

    def step_within(self, budget: float, per_adapter: bool) -> int:
        """The last step within a budget of tokens, in total or per adapter; at least the first."""
        limit = budget * (self.members if per_adapter else 1) * (1 + 1e-9)
        steps = [step for step in range(len(self.sampled)) if self.tokens(step) <= limit]
        return max(min(1, len(self.sampled) - 1), steps[-1] if steps else 0)

    def step_trained(self, budget: float) -> int:
        """The last step within a budget of trained tokens; at least the first."""
        steps = [step for step, tokens in enumerate(self.trained) if tokens <= budget * (1 + 1e-9)]
        return max(min(1, len(self.trained) - 1), steps[-1] if steps else 0)


def measure_spent(view: RunView) -> Spent:
    tokens = f"FROM metrics WHERE name IN {SAMPLED}"
    sampled = _cumulate(view, f"SELECT step, sum(value) {tokens} AND world = :world GROUP BY step")
    trained = _cumulate(
        view, "SELECT step, sum(tokens) FROM updates WHERE world = :world GROUP BY step"
    )
    seconds = _cumulate(view, "SELECT step, sum(seconds) FROM timings GROUP BY step")
    # The worlds of a run share its time; split it by their tokens.
    (all_tokens,) = view.row(f"SELECT sum(value) {tokens}")
    share = sampled[-1] / all_tokens if all_tokens else 1.0
    (members,) = view.row("SELECT count(*) FROM births WHERE world = :world AND step = 0")
    own_seconds = [share * value for value in seconds]
    return Spent(max(1, members), sampled, trained, own_seconds, _parameters(view.about))


def _cumulate(view: RunView, query: str) -> list[float]:
    by_step = {step: float(value or 0) for step, value in view.rows(query)}
    sums, total = [], 0.0
    for step in range(view.last + 1):
        total += by_step.get(step, 0.0)
        sums.append(total)
    return sums


def _parameters(about: dict[str, str]) -> int | None:
    """Of the base: as the run recorded it, or as Pawn's own card says."""
    if about.get("parameters", "").isdecimal():
        return int(about["parameters"])
    if about.get("base") not in BUNDLED:
        return None
    card = BUNDLED[about["base"]] / "pretraining.json"
    return int(json.loads(card.read_text(encoding="utf-8"))["parameters"])
