"""Figures of a suite: of one member, of a member beside its base, and of a population: its mean,
its vote, and the best of its members."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.benchmarks.suite import Item
from redqueen.evaluate.attempts import Attempted, Setting
from redqueen.evaluate.statistics import Accuracy, mean_interval, paired, pass_at_k
from redqueen.tasks import KINDS

Figures = dict[str, Any]
"""As they stand in the JSON."""

_KS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Population:
    """Members that count together, by the names they have in the setting."""

    world: int
    arm: str
    members: tuple[str, ...]


def figures(setting: Setting, attempts: Sequence[Attempted], note: str) -> Figures:
    """Of the first member, and beside it those of the base where that is another."""
    sheets = _sheets(setting, attempts)
    first, *others = setting.members
    found = _of_member(setting, sheets[first]) | asked(setting)
    for base in others:
        found["base"] = _of_member(setting, sheets[base])
        found["against_base"] = paired(_shares(sheets[first]), _shares(sheets[base])).as_json()
    return found | ({"note": note} if note else {})


def population_figures(
    setting: Setting, attempts: Sequence[Attempted], populations: Sequence[Population], note: str
) -> Figures:
    """Of every member beside the base, which is the last of them, and of each population."""
    sheets = _sheets(setting, attempts)
    *members, base = setting.members
    own = _shares(sheets[base])
    found: Figures = {"n": len(own)} | asked(setting) | {"base": _of_member(setting, sheets[base])}
    found["members"] = {
        name: _of_member(setting, sheets[name])
        | {"against_base": paired(_shares(sheets[name]), own).as_json()}
        for name in members
    }
    found["populations"] = [
        _of_population(setting, one, [sheets[name] for name in one.members], sheets[base])
        for one in populations
    ]
    return found | ({"note": note} if note else {})


def figures_by_tier(
    setting: Setting, items: Sequence[Item], attempts: Sequence[Attempted]
) -> dict[str, dict[str, Figures]]:
    """Of the one member there is, for each kind and tier."""
    of_item = {item.id: item for item in items}
    cells: dict[str, dict[str, list[Attempted]]] = {kind: defaultdict(list) for kind in KINDS}
    for one in attempts:
        item = of_item[one.item]
        cells[item.kind][str(item.tier)].append(one)
    return {
        kind: {tier: of_attempts(setting, cell) for tier, cell in row.items()}
        for kind, row in cells.items()
    }


def of_attempts(setting: Setting, attempts: Sequence[Attempted]) -> Figures:
    """Of attempts of one member, whichever they are."""
    sheet: dict[str, list[Attempted]] = defaultdict(list)
    for one in attempts:
        sheet[one.item].append(one)
    return _of_member(setting, sheet)


Sheet = Mapping[str, Sequence[Attempted]]
"""One member's attempts, by item."""


def _sheets(setting: Setting, attempts: Sequence[Attempted]) -> dict[str, Sheet]:
    sheets: dict[str, dict[str, list[Attempted]]] = {
        name: defaultdict(list) for name in setting.members
    }
    for one in attempts:
        sheets[one.member][one.item].append(one)
    return {name: dict(sheet) for name, sheet in sheets.items()}


def asked(setting: Setting) -> Figures:
    """How the answers were come by."""
    return {
        "prompt_version": setting.prompt_version,
        "style": setting.style,
        "max_tokens": setting.max_tokens,
        "samples": setting.samples,
        "temperature": setting.temperature,
    }


def _of_member(setting: Setting, sheet: Sheet) -> Figures:
    attempts = [one for some in sheet.values() for one in some]
    found = _share(_shares(sheet))
    if setting.samples > 1:
        ks = sorted({k for k in _KS if k < setting.samples} | {setting.samples})
        found["pass_at"] = {
            str(k): round(math.fsum(_pass_at(sheet, k)) / len(sheet), 4) for k in ks
        }
        if (vote := _vote([sheet])) is not None:
            found["majority_vote"] = _share(list(vote.values()))
    reasons = Counter(one.reason.partition(":")[0] for one in attempts if not one.right)
    return found | {
        "truncated": sum(one.truncated for one in attempts),
        "not_right": dict(reasons.most_common()),
    }


def _of_population(
    setting: Setting, population: Population, sheets: Sequence[Sheet], base: Sheet
) -> Figures:
    found: Figures = {
        "world": population.world,
        "arm": population.arm,
        "members": list(population.members),
    }
    own, shares = _shares(base), [_shares(sheet) for sheet in sheets]
    means = [math.fsum(column) / len(column) for column in zip(*shares, strict=True)]
    found["mean"] = _share(means) | {"against_base": paired(means, own).as_json()}
    best = [1 - math.prod(1 - share for share in column) for column in zip(*shares, strict=True)]
    found["best_of_members"] = _share(best) | {"against_base": paired(best, own).as_json()}
    if (
        setting.samples >= len(sheets) > 1
        # the same number of tries: what many different members are worth beside one that tries again
    ):
        as_often = _pass_at(base, len(sheets))
        found["best_of_members"]["against_base_as_often"] = paired(best, as_often).as_json()
        found["best_of_members"]["base_as_often"] = _share(as_often)
    if (vote := _vote(sheets)) is not None:
        alone = [share for item, share in zip(base, own, strict=True) if item in vote]
        found["majority_vote"] = _share(list(vote.values())) | {
            "against_base": paired(list(vote.values()), alone).as_json()
        }
    return found


def _shares(sheet: Sheet) -> list[float]:
    """The share of right attempts, item by item."""
    return [sum(one.right for one in some) / len(some) for some in sheet.values()]


def _pass_at(sheet: Sheet, k: int) -> list[float]:
    return [pass_at_k(len(some), sum(one.right for one in some), k) for some in sheet.values()]


def _share(scores: Sequence[float]) -> Figures:
    """A mean over items with its interval: by the spread between them, or Wilson's where each is
    right or wrong as a whole, or all are alike."""
    if all(score in (0.0, 1.0) for score in scores) or len(set(scores)) == 1:
        return dict(Accuracy(math.fsum(scores), len(scores)).as_json())
    mean, low, high = mean_interval(scores)
    return {
        "accuracy": round(mean, 4),
        "n": len(scores),
        "interval": [round(max(low, 0.0), 4), round(min(high, 1.0), 4)],
    }


def _vote(sheets: Sequence[Sheet]) -> dict[str, float] | None:
    """By item: is the answer that most attempts gave right? None where answers cannot be compared."""
    found = {}
    for item in sheets[0]:
        attempts = [one for sheet in sheets for one in sheet[item]]
        if all(one.ballot is not None for one in attempts):
            found[item] = majority(attempts)
    return found or None


def majority(attempts: Sequence[Attempted]) -> float:
    """1 where the answer that was given most often is right. Where several were, the share of these
    that are: as a lot among them would have it."""
    votes = Counter(one.ballot for one in attempts if one.ballot)
    most = max(votes.values(), default=0)
    right = {one.ballot for one in attempts if one.right}
    first = [ballot for ballot, count in votes.items() if count == most]
    return sum(ballot in right for ballot in first) / len(first) if first else 0.0
