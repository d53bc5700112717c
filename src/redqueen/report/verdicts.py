"""What the tests of a comparison say, in plain words: which arm is above which, and whether that is
more than chance. Where nothing was tested, nothing is said."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

_UNDECLARED = ("mean student", "soup")
"""Outcomes of a suite that are summed up where none is declared."""
_ALPHA = 0.05


def verdicts(rows: Sequence[dict[str, Any]], first: str, match: str) -> list[str]:
    """A sentence for each tested outcome that is declared, else for the main scores of each suite:
    the arms beside the `first`. `match`: how the arms are matched."""
    return [
        f"{row['name']}, {match}: {sentence}"
        for row in _chosen(rows)
        for sentence in _sentences(row, first)
    ]


def verdict_table(rows: Sequence[dict[str, Any]], match: str) -> list[dict[str, Any]]:
    """The same as a row for each outcome: how the arms are matched, and by arm the difference to
    the first, in points where it is of a score, and whether it is above, below, or neither;
    `adjusted` where that holds after Holm's adjustment."""
    table = []
    for row in _chosen(rows):
        cells = {
            cell["arm"]: {
                "text": _size(row, cell["difference"], *cell["difference_interval"]).replace(
                    " points", ""
                ),
                "place": _place(cell),
                "adjusted": cell["p_holm"] is None or cell["p_holm"] < _ALPHA,
            }
            for cell in _tested(row)
        }
        if cells:
            table.append({"outcome": row["name"], "match": match, "arms": cells})
    return table


def _chosen(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    declared = [row for row in rows if row.get("declared")]
    return declared or [row for row in rows if row["name"].rpartition(": ")[2] in _UNDECLARED]


def _tested(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        cell
        for cell in row["arms"]
        if cell["p"] is not None and cell["difference_interval"] is not None
    ]


def _place(cell: dict[str, Any]) -> Literal["above", "below", "equal"]:
    low, high = cell["difference_interval"]
    return "above" if low > 0 else "below" if high < 0 else "equal"


def _sentences(row: dict[str, Any], first: str) -> Iterator[str]:
    """One for a single arm beside the first; of several arms one that sorts them."""
    cells = _tested(row)
    if len(cells) > 1:
        yield _sorted(row, cells, first)
        return
    for cell in cells:
        gap, (low, high), arm = cell["difference"], cell["difference_interval"], cell["arm"]
        if low <= 0 <= high:
            size = _size(row, gap, low, high)
            yield f"no difference shown between {arm} and {first} ({size}, which includes zero)."
            continue
        above, below = (arm, first) if gap > 0 else (first, arm)
        size = _size(row, *((gap, low, high) if gap > 0 else (-gap, -high, -low)))
        yield f"{above} is above {below} by {size}, clear of zero{_proviso(row, cell)}."


def _sorted(row: dict[str, Any], cells: Sequence[dict[str, Any]], first: str) -> str:
    """Which arms are clear of the first, on which side, and which are not."""
    groups: dict[str, list[str]] = {"above": [], "below": [], "equal": []}
    for cell in cells:
        place, holm = _place(cell), cell["p_holm"]
        unsure = place != "equal" and holm is not None and holm >= _ALPHA
        note = f" (not once adjusted: Holm's p {holm:.2g})" if unsure else ""
        size = _size(row, cell["difference"], *cell["difference_interval"])
        groups[place].append(f"{cell['arm']} {size}{note}")
    parts = [
        f"above {first}: {'; '.join(groups['above']) or 'none'}.",
        f"Below: {'; '.join(groups['below']) or 'none'}.",
    ]
    if groups["equal"]:
        parts.append(f"No difference shown: {'; '.join(groups['equal'])}.")
    if not row.get("declared"):
        parts.append("Exploratory, as no outcome was declared.")
    return " ".join(parts)


def _proviso(row: dict[str, Any], cell: dict[str, Any]) -> str:
    if not row.get("declared"):
        return "; exploratory, as no outcome was declared"
    holm = cell["p_holm"]
    if holm is not None and holm >= _ALPHA:
        return f", but not once adjusted for all declared outcomes (Holm's p {holm:.2g})"
    return ""


def _size(row: dict[str, Any], gap: float, low: float, high: float) -> str:
    """Scores of a suite are shares, and differ by points of a hundred."""
    if ": " in row["name"]:
        return f"{100 * gap:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{gap:+.4g} [{low:+.4g}, {high:+.4g}]"
