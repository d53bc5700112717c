"""Compares arms over seeds: as they are, matched by tokens per adapter, and by tokens in total."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

from redqueen.errors import ConfigError
from redqueen.evaluate.statistics import bootstrap, mean, permutation_p, sign_flip_p
from redqueen.report.arms import Replicate, compute_at, group_replicates, outcomes_at
from redqueen.report.run_view import Run, RunView, open_views

Interval = tuple[float, float]

AS_IS, PER_ADAPTER, IN_TOTAL = "as they are", "matched per adapter", "matched in total"
MATCHES = {
    AS_IS: "Every run at its last step, whatever it spent.",
    PER_ADAPTER: "Every run at the step where each of its adapters has had as many tokens as in "
    "the shortest run. A population then spends as many times more as it has members.",
    IN_TOTAL: "Every run at the step where it has spent as many tokens as the cheapest run.",
}
METHOD = (
    "Means over seeds with 95 % bootstrap intervals. Differences are to {first}: paired by seed if "
    "both arms share two seeds or more (sign-flip test), else unpaired (permutation test, marked "
    "†). A single seed has no interval."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One outcome of one arm: the values of its seeds, their mean, and the difference to the first
    arm."""

    arm: str
    seeds: list[int]
    values: list[float]
    mean: float
    interval: Interval | None
    difference: float | None = None
    difference_interval: Interval | None = None
    p: float | None = None
    pairs: int = 0
    """Seeds in common with the first arm; with fewer than two the test is unpaired."""


def compare_runs(runs: Sequence[tuple[str | None, Run]]) -> dict[str, Any]:
    """Compare runs, each with the name of its arm or None to name it by what differs."""
    with ExitStack() as stack:
        labelled: list[tuple[str | None, RunView]] = []
        for label, run in runs:
            labelled += [(label, view) for view in stack.enter_context(open_views([run]))]
        if len(labelled) < 2:
            raise ConfigError("a comparison needs at least two runs, or a run with several worlds")
        for _, view in labelled:
            if view.last < 1:
                raise ConfigError(f"{view.folder} has no steps yet: there is nothing to compare")
        return compare_replicates(group_replicates(labelled))


def compare_replicates(replicates: Sequence[Replicate]) -> dict[str, Any]:
    by_arm: dict[str, list[Replicate]] = {}
    for replicate in replicates:
        by_arm.setdefault(replicate.arm, []).append(replicate)
    arms = list(by_arm)
    return {
        "arms": [
            {
                "arm": arm,
                "seeds": [replicate.seed for replicate in own],
                "members": own[0].spent.members,
            }
            for arm, own in by_arm.items()
        ],
        "runs": [
            {
                "arm": replicate.arm,
                "seed": replicate.seed,
                "folder": replicate.view.folder.resolve().name,
                "steps": replicate.view.last,
            }
            for replicate in replicates
        ],
        "tables": {
            match: {
                "outcomes": _rows(replicates, arms, steps, outcomes_at),
                "compute": _rows(replicates, arms, steps, compute_at),
            }
            for match in MATCHES
            for steps in [_matched_steps(replicates, match)]
        },
        "method": METHOD.format(first=arms[0]),
    }


def _matched_steps(replicates: Sequence[Replicate], match: str) -> list[int]:
    """The step at which each replicate is compared."""
    if match == AS_IS:
        return [replicate.view.last for replicate in replicates]
    per_adapter = match == PER_ADAPTER
    budget = min(
        one.spent.tokens(one.view.last) / (one.spent.members if per_adapter else 1)
        for one in replicates
    )
    return [replicate.spent.step_within(budget, per_adapter) for replicate in replicates]


def _rows(
    replicates: Sequence[Replicate],
    arms: Sequence[str],
    steps: Sequence[int],
    measure: Callable[[Replicate, int], dict[str, float]],
) -> list[dict[str, Any]]:
    values = [measure(one, step) for one, step in zip(replicates, steps, strict=True)]
    rows = []
    for name in dict.fromkeys(name for measured in values for name in measured):
        by_arm: dict[str, dict[int, float]] = {arm: {} for arm in arms}
        for replicate, measured in zip(replicates, values, strict=True):
            if name in measured:
                by_arm[replicate.arm][replicate.seed] = measured[name]
        first = by_arm[arms[0]]
        cells = [
            _cell(arm, own, first if arm != arms[0] else None) for arm, own in by_arm.items() if own
        ]
        rows.append({"name": name, "arms": [asdict(cell) for cell in cells]})
    return rows


def _cell(arm: str, own: dict[int, float], first: dict[int, float] | None) -> Cell:
    values = list(own.values())
    cell = Cell(arm, list(own), values, mean(values), bootstrap(values))
    if not first:
        return cell
    common = sorted(own.keys() & first.keys())
    if len(common) > 1:
        gaps = [own[seed] - first[seed] for seed in common]
        return replace(
            cell,
            difference=mean(gaps),
            difference_interval=bootstrap(gaps),
            p=sign_flip_p(gaps),
            pairs=len(common),
        )
    others = list(first.values())
    return replace(cell, difference=mean(values) - mean(others), p=permutation_p(values, others))


def to_markdown(comparison: dict[str, Any]) -> str:
    """The tables as Markdown: means with intervals, and differences to the first arm."""
    arms = [one["arm"] for one in comparison["arms"]]
    parts = ["# Comparison", "", "| arm | seeds | adapters |", "|---|---|---|"]
    parts += [
        f"| {_escape(one['arm'])} | {', '.join(map(str, one['seeds']))} | {one['members']} |"
        for one in comparison["arms"]
    ]
    parts += ["", _escape(comparison["method"])]
    columns = ["", *map(_escape, arms), *(f"{_escape(arm)}: difference" for arm in arms[1:])]
    for name, table in comparison["tables"].items():
        parts += ["", f"## {name[0].upper()}{name[1:]}", "", MATCHES[name], ""]
        parts += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        parts += [_markdown_row(row, arms) for row in [*table["outcomes"], *table["compute"]]]
    return "\n".join(parts) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _markdown_row(row: dict[str, Any], arms: Sequence[str]) -> str:
    cells = {one["arm"]: one for one in row["arms"]}
    texts = [
        _estimate(cells[arm]["mean"], cells[arm]["interval"]) if arm in cells else "–"
        for arm in arms
    ]
    for arm in arms[1:]:
        cell = cells.get(arm)
        if cell is None or cell["difference"] is None:
            texts.append("–")
            continue
        p = "" if cell["p"] is None else f", p {cell['p']:.2g}"
        gap = _estimate(cell["difference"], cell["difference_interval"], sign="+")
        texts.append(f"{gap}{p}{'' if cell['pairs'] else ' †'}")
    return f"| {_escape(row['name'])} | " + " | ".join(texts) + " |"


def _estimate(value: float, interval: Interval | None, sign: str = "") -> str:
    text = f"{value:{sign}.4g}"
    if interval is None:
        return text
    return f"{text} [{interval[0]:{sign}.4g}, {interval[1]:{sign}.4g}]"
