"""Compares arms over seeds: at equal trained tokens, as they are, and matched by all tokens per
adapter and in total."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

from redqueen.core.fork import flatten
from redqueen.errors import ConfigError
from redqueen.evaluate.statistics import holm, mean, t_interval, t_p, welch_difference
from redqueen.ledger.store import MEASURED_LATER
from redqueen.report.arms import (
    Curve,
    Replicate,
    compute_at,
    group_replicates,
    outcomes_at,
    score_curves,
)
from redqueen.report.common_items import common_items, not_everywhere
from redqueen.report.run_view import Run, RunView, open_views
from redqueen.report.verdicts import verdict_table, verdicts

Interval = tuple[float, float]

TRAINED = "at equal trained tokens"
AS_IS, PER_ADAPTER, IN_TOTAL = "as they are", "matched per adapter", "matched in total"
MATCHES = {
    TRAINED: "Every run where it has been trained on as many tokens, over all its adapters, as the "
    "run with the fewest. Scores are read from curves: between two measurements by a straight "
    "line.",
    AS_IS: "Every run at its last step, whatever it spent.",
    PER_ADAPTER: "Every run at the step where each of its adapters has had as many tokens as in "
    "the shortest run. A population then spends as many times more as it has members.",
    IN_TOTAL: "Every run at the step where it has spent as many tokens as the cheapest run.",
}
METHOD = (
    "Means over seeds with 95 % t intervals (n - 1 degrees of freedom). Differences are to "
    "{first}: paired by seed if both arms share two seeds or more, else unpaired (Welch's t, "
    "marked †). A single seed has no interval. Declared outcomes come first: their p values are "
    "adjusted by Holm for the number of declared outcomes. All others are exploratory."
)
_CURVE = (0.25, 0.5, 0.75, 1.0)
"""Where curves are read, as shares of the fewest trained tokens of a run."""


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
    p_holm: float | None = None
    """Of a declared outcome: adjusted for their number."""
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
    declared = list(
        dict.fromkeys(
            name
            for replicate in replicates
            for name in replicate.view.setting("evaluate.outcomes", ())
        )
    )
    items, left_out = common_items(
        [(f"{one.arm}, seed {one.seed}", one.view) for one in replicates]
    )
    curves = [score_curves(replicate, items) for replicate in replicates]
    budget = min(replicate.spent.trained[replicate.view.last] for replicate in replicates)
    tables = {}
    for match in MATCHES:
        steps = _matched_steps(replicates, match)
        outcomes = [
            outcomes_at(one, step, items) for one, step in zip(replicates, steps, strict=True)
        ]
        if match == TRAINED:
            outcomes = [
                _read(own, budget) | {name: value for name, value in at.items() if name not in own}
                for own, at in zip(curves, outcomes, strict=True)
            ]
        compute = [compute_at(one, step) for one, step in zip(replicates, steps, strict=True)]
        tables[match] = {
            "outcomes": _declare(_rows(replicates, arms, outcomes), declared),
            "compute": _rows(replicates, arms, compute),
        }
    decisive = _decisive(tables)
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
        "settings": _differences({arm: own[0].view.settings for arm, own in by_arm.items()}),
        "declared": declared,
        "verdicts": [
            sentence
            for match, rows in decisive.items()
            for sentence in verdicts(rows, arms[0], match)
        ],
        "verdict_table": [
            row for match, rows in decisive.items() for row in verdict_table(rows, match)
        ],
        "left_out": [*left_out, *not_everywhere(tables[AS_IS]["outcomes"], arms)],
        "tables": tables,
        "curves": _curves(replicates, arms, curves, budget),
        "method": METHOD.format(first=arms[0]),
    }


def _decisive(tables: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows that verdicts are about, by how their arms are matched: at equal trained tokens, and
    as they are where a declared outcome was measured at the end alone of arms that ended apart."""
    trained, as_is = (tables[match]["outcomes"] for match in (TRAINED, AS_IS))
    tested = {row["name"] for row in trained if any(cell["p"] is not None for cell in row["arms"])}
    late = [row for row in as_is if row.get("declared") and row["name"] not in tested]
    names = {row["name"] for row in late}
    declared = [row for row in trained if row.get("declared") and row["name"] not in names]
    return {TRAINED: declared if declared or late else trained, AS_IS: late}


def _differences(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The settings in which arms differ, by path: the value of each arm."""
    flat = {arm: flatten(own) for arm, own in settings.items()}
    paths = dict.fromkeys(path for own in flat.values() for path in own)
    values = {
        path: {arm: json.dumps(own.get(path)) for arm, own in flat.items()}
        for path in paths
        if path != "seed"
    }
    return {path: own for path, own in values.items() if len(set(own.values())) > 1}


def _read(curves: dict[str, Curve], tokens: float) -> dict[str, float]:
    read = {name: curve.at(tokens) for name, curve in curves.items()}
    return {name: value for name, value in read.items() if value is not None}


def _curves(
    replicates: Sequence[Replicate],
    arms: Sequence[str],
    curves: Sequence[dict[str, Curve]],
    budget: float,
) -> list[dict[str, Any]]:
    """Scores that were measured more than once, over trained tokens. An arm that was measured at
    its end alone has no curve: a line from the base to there would look like one."""
    curves = [
        {name: curve for name, curve in own.items() if sum(map(bool, curve.tokens)) > 1}
        for own in curves
    ]
    several = {name for own in curves for name in own}
    read = [
        (share * budget, _rows(replicates, arms, [_read(own, share * budget) for own in curves]))
        for share in _CURVE
    ]
    names = [row["name"] for row in read[-1][1] if row["name"] in several]
    return [
        {
            "name": name,
            "points": [
                {"tokens": tokens, "arms": row["arms"]}
                for tokens, rows in read
                for row in rows
                if row["name"] == name
            ],
        }
        for name in names
    ]


def _declare(rows: list[dict[str, Any]], declared: Sequence[str]) -> list[dict[str, Any]]:
    """Declared outcomes first, with the p values of each arm adjusted for their number."""
    chosen = [row for name in declared if (row := _find(rows, name)) is not None]
    for arm in dict.fromkeys(cell["arm"] for row in chosen for cell in row["arms"]):
        cells = [cell for row in chosen for cell in row["arms"] if cell["arm"] == arm]
        tested = [cell for cell in cells if cell["p"] is not None]
        missing = [1.0] * (len(declared) - len(tested))
        for cell, p in zip(tested, holm([*(cell["p"] for cell in tested), *missing]), strict=False):
            cell["p_holm"] = p
    others = [row for row in rows if not any(row is one for one in chosen)]
    return [{**row, "declared": True} for row in chosen] + others


def _find(rows: Sequence[dict[str, Any]], outcome: str) -> dict[str, Any] | None:
    """The row of a declared outcome. A suite that was measured later is named by its settings too;
    of several, what was greedy comes first."""
    fitting = [row for row in rows if outcome in (row["name"], plain_name(row["name"]))]
    order = sorted(fitting, key=lambda row: (row["name"] != outcome, "greedy" not in row["name"]))
    return order[0] if order else None


def plain_name(name: str) -> str:
    """`heldout: soup` for `eval/heldout (compact-5d7013, base, greedy, ...): soup`, and for what a
    run measured with several votes."""
    suite, _, what = name.partition(": ")
    suite = suite.removeprefix(MEASURED_LATER).partition(" (")[0]
    return f"{suite.partition(', ')[0]}: {what}"


def _matched_steps(replicates: Sequence[Replicate], match: str) -> list[int]:
    """The step at which each replicate is compared."""
    if match == AS_IS:
        return [replicate.view.last for replicate in replicates]
    if match == TRAINED:
        fewest = min(replicate.spent.trained[replicate.view.last] for replicate in replicates)
        return [replicate.spent.step_trained(fewest) for replicate in replicates]
    per_adapter = match == PER_ADAPTER
    budget = min(
        one.spent.tokens(one.view.last) / (one.spent.members if per_adapter else 1)
        for one in replicates
    )
    return [replicate.spent.step_within(budget, per_adapter) for replicate in replicates]


def _rows(
    replicates: Sequence[Replicate],
    arms: Sequence[str],
    values: Sequence[dict[str, float]],
) -> list[dict[str, Any]]:
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
    cell = Cell(arm, list(own), values, mean(values), t_interval(values))
    if not first:
        return cell
    common = sorted(own.keys() & first.keys())
    if len(common) > 1:
        gaps = [own[seed] - first[seed] for seed in common]
        return replace(
            cell,
            difference=mean(gaps),
            difference_interval=t_interval(gaps),
            p=t_p(gaps),
            pairs=len(common),
        )
    others = list(first.values())
    interval, p = welch_difference(values, others) or (None, None)
    gap = mean(values) - mean(others)
    return replace(cell, difference=gap, difference_interval=interval, p=p)
