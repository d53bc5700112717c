"""Ancestry of the members, and which operators produced members that lasted."""

from typing import Any

from redqueen.report.run_view import RunView, mean, round_digits, slot_name

Members = list[dict[str, Any]]


def members(view: RunView) -> Members:
    """Every member there ever was, in the order of birth."""
    return [
        {
            **row,
            "slot": slot_name(row["member"]),
            "first_mu": round_digits(row["first_mu"]),
            "mu": round_digits(row["mu"]),
            "sigma": round_digits(row["sigma"]),
        }
        for row in view.run.lineage(view.world)
    ]


def operator_credit(members: Members, last: int) -> list[dict[str, Any]]:
    """By operator: its children, how long they lived (so far), what they gained, and how often they
    became parents."""
    parents = [parent for member in members for parent in member["parents"]]
    credit = []
    for operator in sorted({member["operator"] for member in members} - {"new"}):
        children = [member for member in members if member["operator"] == operator]
        lives = [
            (last if child["died"] is None else child["died"]) - child["born"] for child in children
        ]
        gains = [child["mu"] - child["first_mu"] for child in children]
        credit.append(
            {
                "operator": operator,
                "children": len(children),
                "alive": sum(child["died"] is None for child in children),
                "steps_lived": round_digits(mean(lives), 3),
                "rating_gain": round_digits(mean(gains), 3),
                "times_parent": sum(parents.count(child["member"]) for child in children),
            }
        )
    return sorted(credit, key=lambda row: -row["steps_lived"])


def early_deaths(members: Members, every: int) -> tuple[int, int]:
    """Children that died at the first replacement after their birth, and all children that died;
    without those whose place the next merge of all took."""
    merged = {
        (member["slot"], member["born"])
        for member in members
        if member["operator"].startswith("merge ")
    }
    dead = [
        member
        for member in members
        if member["died"] is not None
        and member["born"] > 0
        and (member["slot"], member["died"]) not in merged
    ]
    return sum(member["died"] - member["born"] <= every for member in dead), len(dead)
