"""What the tests of a comparison say, in plain words: which arm is above which, and whether that is
more than chance. Where nothing was tested, nothing is said."""

from collections.abc import Iterator, Sequence
from typing import Any

_UNDECLARED = ("mean student", "soup")
"""Outcomes of a suite that are summed up where none is declared."""
_ALPHA = 0.05


def verdicts(rows: Sequence[dict[str, Any]], first: str, match: str) -> list[str]:
    """A sentence for each tested outcome that is declared, else for the main scores of each suite,
    and for each arm, beside the `first`. `match`: how the arms are matched."""
    declared = [row for row in rows if row.get("declared")]
    chosen = declared or [row for row in rows if row["name"].rpartition(": ")[2] in _UNDECLARED]
    return [
        f"{row['name']}, {match}: {sentence}"
        for row in chosen
        for sentence in _sentences(row, first)
    ]


def _sentences(row: dict[str, Any], first: str) -> Iterator[str]:
    for cell in row["arms"]:
        if cell["p"] is None or cell["difference_interval"] is None:
            continue
        gap, (low, high), arm = cell["difference"], cell["difference_interval"], cell["arm"]
        is_share = ": " in row["name"]
        if low <= 0 <= high:
            size = _size(gap, low, high, is_share)
            yield f"no difference shown between {arm} and {first} ({size}, which includes zero)."
            continue
        above, below = (arm, first) if gap > 0 else (first, arm)
        size = _size(*((gap, low, high) if gap > 0 else (-gap, -high, -low)), is_share)
        yield f"{above} is above {below} by {size}, clear of zero{_proviso(row, cell)}."


def _proviso(row: dict[str, Any], cell: dict[str, Any]) -> str:
    if not row.get("declared"):
        return "; exploratory, as no outcome was declared"
    holm = cell["p_holm"]
    if holm is not None and holm >= _ALPHA:
        return f", but not once adjusted for all declared outcomes (Holm's p {holm:.2g})"
    return ""


def _size(gap: float, low: float, high: float, is_share: bool) -> str:
    """Scores of a suite are shares, and differ by points of a hundred."""
    if is_share:
        return f"{100 * gap:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{gap:+.4g} [{low:+.4g}, {high:+.4g}]"
