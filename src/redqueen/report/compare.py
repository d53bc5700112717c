"""Arms side by side, seeds as the unit of replication: as they are, matched per adapter, and
matched in total."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from redqueen.report.arms import Replica, compute, outcomes
from redqueen.report.permutation import bootstrap, mean, permutation_p, sign_flip_p

MATCHES = {
    "as they are": "Every run at its last step, whatever it spent.",
    "matched per adapter": "Every run at the step where each of its adapters has had as many tokens as in the shortest run. "
    "A population then spends as many times more as it has members.",
    "matched in total": "Every run at the step where it has spent as many tokens in all as the cheapest run.",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One outcome of one arm: its seeds, their mean and its interval, and how far it is from the
    first arm."""

    arm: str
    seeds: list[int]
    values: list[float]
    mean: float
    interval: tuple[float, float] | None
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    p: float | None = None
    pairs: int = 0
    """Seeds that both arms have; where there are fewer than two the test is without pairs."""


def compare(found: Sequence[Replica]) -> dict[str, Any]:
    arms = list(dict.fromkeys(one.arm for one in found))
    tables = {name: _table(found, arms, _steps(found, name)) for name in MATCHES}
    return {
        "arms": [
            {
                "arm": arm,
                "seeds": [one.seed for one in found if one.arm == arm],
                "members": _members(found, arm),
            }
            for arm in arms
        ],
        "runs": [
            {
                "arm": one.arm,
                "seed": one.seed,
                "folder": one.side.folder.resolve().name,
                "steps": one.side.last,
            }
            for one in found
        ],
        "tables": tables,
    }


def _members(found: Sequence[Replica], arm: str) -> int:
    return next(one.spent.members for one in found if one.arm == arm)


def _steps(found: Sequence[Replica], match: str) -> list[int]:
    """The step at which each replica is looked at."""
    if match == "as they are":
        return [one.side.last for one in found]
    each = match == "matched per adapter"
    budget = min(
        one.spent.tokens(one.side.last) / (one.spent.members if each else 1) for one in found
    )
    return [one.spent.step_within(budget, each) for one in found]


def _table(found: Sequence[Replica], arms: Sequence[str], steps: Sequence[int]) -> dict[str, Any]:
    return {
        "outcomes": _rows(found, arms, steps, outcomes),
        "compute": _rows(found, arms, steps, compute),
    }


def _rows(
    found: Sequence[Replica],
    arms: Sequence[str],
    steps: Sequence[int],
    look: Callable[[Replica, int], dict[str, float]],
) -> list[dict[str, Any]]:
    values = [look(one, step) for one, step in zip(found, steps, strict=True)]
    names = list(dict.fromkeys(name for one in values for name in one))
    rows = []
    for name in names:
        by_arm = {
            arm: {
                one.seed: got[name]
                for one, got in zip(found, values, strict=True)
                if one.arm == arm and name in got
            }
            for arm in arms
        }
        rows.append(
            {
                "name": name,
                "arms": [
                    asdict(_cell(arm, by_arm[arm], by_arm[arms[0]] if arm != arms[0] else None))
                    for arm in arms
                    if by_arm[arm]
                ],
            }
        )
    return rows


def _cell(arm: str, mine: dict[int, float], first: dict[int, float] | None) -> Cell:
    values = list(mine.values())
    cell = Cell(arm, list(mine), values, mean(values), bootstrap(values))
    if not first:
        return cell
    common = sorted(mine.keys() & first.keys())
    if len(common) > 1:
        apart = [mine[seed] - first[seed] for seed in common]
        return _with(cell, mean(apart), bootstrap(apart), sign_flip_p(apart), len(common))
    return _with(
        cell,
        mean(values) - mean(list(first.values())),
        None,
        permutation_p(values, list(first.values())),
        0,
    )


def _with(
    cell: Cell, difference: float, interval: tuple[float, float] | None, p: float | None, pairs: int
) -> Cell:
    return Cell(
        cell.arm, cell.seeds, cell.values, cell.mean, cell.interval, difference, interval, p, pairs
    )


def as_markdown(found: dict[str, Any]) -> str:
    """The tables in words: means with 95 % bootstrap intervals over seeds, and differences to the
    first arm."""
    arms = [one["arm"] for one in found["arms"]]
    parts = ["# Comparison", "", "| arm | seeds | adapters |", "|---|---|---|"]
    parts += [
        f"| {_safe(one['arm'])} | {', '.join(map(str, one['seeds']))} | {one['members']} |"
        for one in found["arms"]
    ]
    parts += [
        "",
        f"Means over seeds with 95 % bootstrap intervals. Differences are to `{_safe(arms[0])}`: paired by seed where both arms have two seeds ",
    ]
    parts[-1] += (
        "or more in common (sign-flip test), else apart (permutation test, marked †). One seed has no interval."
    )
    for name, table in found["tables"].items():
        parts += ["", f"## {name[0].upper()}{name[1:]}", "", MATCHES[name], ""]
        parts += [
            "| | "
            + " | ".join(map(_safe, arms))
            + " | "
            + " | ".join(f"{_safe(arm)}: difference" for arm in arms[1:])
            + (" |" if arms[1:] else "")
        ]
        parts += ["|---|" + "---|" * (2 * len(arms) - 1)]
        parts += [_line(row, arms) for row in [*table["outcomes"], *table["compute"]]]
    return "\n".join(parts) + "\n"


def _safe(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _line(row: dict[str, Any], arms: Sequence[str]) -> str:
    cells = {one["arm"]: one for one in row["arms"]}
    shown = [
        _estimate(cells[arm]["mean"], cells[arm]["interval"]) if arm in cells else "–"
        for arm in arms
    ]
    for arm in arms[1:]:
        one = cells.get(arm)
        if one is None or one["difference"] is None:
            shown.append("–")
            continue
        p = "" if one["p"] is None else f", p {one['p']:.2g}"
        shown.append(
            _estimate(one["difference"], one["difference_interval"], sign="+")
            + p
            + ("" if one["pairs"] else " †")
        )
    return f"| {_safe(row['name'])} | " + " | ".join(shown) + " |"


def _estimate(value: float, interval: tuple[float, float] | None, sign: str = "") -> str:
    said = f"{value:{sign}.4g}"
    return (
        said if interval is None else f"{said} [{interval[0]:{sign}.4g}, {interval[1]:{sign}.4g}]"
    )
