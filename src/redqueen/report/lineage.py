"""Who descends from whom, which operators made members that lasted, and how alike members are."""

import json
from typing import Any

from redqueen.report.run_view import Side, mean, rounded


def members(side: Side) -> list[dict[str, Any]]:
    """Every member there ever was, in the order of births: parents, operator, life, and its rating
    at both ends."""
    query = """SELECT b.member, b.role, b.slot, b.step AS born, b.parents, b.operator, b.settings, b.mu AS first, d.step AS died, d.reason,
            coalesce(d.mu, r.mu, b.mu) AS mu, coalesce(d.sigma, r.sigma, b.sigma) AS sigma
        FROM births b LEFT JOIN deaths d ON d.world = b.world AND d.member = b.member
        LEFT JOIN ratings r ON r.world = b.world AND r.member = b.member AND r.step = :last
        WHERE b.world = :world ORDER BY b.step, b.slot, b.member"""
    found = [dict(row) for row in side.rows(query, last=side.last)]
    for one in found:
        one["parents"], one["settings"] = json.loads(one["parents"]), json.loads(one["settings"])
        one["place"] = side.places[one["member"]]
        one |= {name: rounded(one[name]) for name in ("first", "mu", "sigma")}
    return found


def operator_credit(found: list[dict[str, Any]], last: int) -> list[dict[str, Any]]:
    """For each operator: its children, how long they lived (those alive: so far), what they gained,
    and how often they became parents."""
    chosen = [parent for one in found for parent in one["parents"]]
    credit = []
    for operator in sorted({one["operator"] for one in found} - {"new"}):
        mine = [one for one in found if one["operator"] == operator]
        credit.append(
            {
                "operator": operator,
                "children": len(mine),
                "alive": sum(one["died"] is None for one in mine),
                "steps_lived": rounded(
                    mean(
                        [
                            (last if one["died"] is None else one["died"]) - one["born"]
                            for one in mine
                        ]
                    ),
                    3,
                ),
                "rating_gain": rounded(mean([one["mu"] - one["first"] for one in mine]), 3),
                "times_parent": sum(chosen.count(one["member"]) for one in mine),
            }
        )
    return sorted(credit, key=lambda one: -one["steps_lived"])


def culled_young(found: list[dict[str, Any]], every: int) -> tuple[int, int]:
    """Deaths of children at the first replacement after their birth, and deaths of children in all."""
    dead = [one for one in found if one["died"] is not None and one["born"] > 0]
    return sum(one["died"] - one["born"] <= every for one in dead), len(dead)
