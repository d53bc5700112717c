"""A comparison as Markdown, for terminals and documents."""

from collections.abc import Sequence
from typing import Any, Literal

from redqueen.report.compare import MATCHES, Interval, plain_name

Unit = Literal["share", "points", "number"]
_RATES = ("solve rate", "valid proposals")


def to_markdown(comparison: dict[str, Any]) -> str:
    """The tables as Markdown: means with intervals, and differences to the first arm."""
    arms = [one["arm"] for one in comparison["arms"]]
    parts = ["# Comparison", "", "| arm | seeds | adapters |", "|---|---|---|"]
    parts += [
        f"| {_escape(one['arm'])} | {', '.join(map(str, one['seeds']))} | {one['members']} |"
        for one in comparison["arms"]
    ]
    if settings := comparison["settings"]:
        parts += ["", "Settings that differ:", "", f"| | {' | '.join(map(_escape, arms))} |"]
        parts += ["|" + "---|" * (len(arms) + 1)]
        parts += [
            f"| {path} | {' | '.join(_escape(own[arm]) for arm in arms)} |"
            for path, own in settings.items()
        ]
    if comparison["verdicts"]:
        parts += ["", "## Verdict", "", *(f"- {_escape(one)}" for one in comparison["verdicts"])]
    parts += ["", _escape(comparison["method"])]
    if comparison["left_out"]:
        parts += ["", "Like is compared with like:", ""]
        parts += [f"- {_escape(note)}" for note in comparison["left_out"]]
    columns = ["", *map(_escape, arms), *(f"{_escape(arm)}: difference" for arm in arms[1:])]
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, table in comparison["tables"].items():
        declared = [row for row in table["outcomes"] if row.get("declared")]
        others = [row for row in table["outcomes"] if not row.get("declared")]
        parts += ["", f"## {name[0].upper()}{name[1:]}", "", MATCHES[name], "", *head]
        parts += [_markdown_row(row, arms) for row in declared]
        parts += ["| *exploratory* |" + " |" * (len(columns) - 1)] if declared else []
        parts += [_markdown_row(row, arms) for row in [*others, *table["compute"]]]
        measured = {row["name"] for row in declared} | {plain_name(row["name"]) for row in declared}
        if missing := [name for name in comparison["declared"] if name not in measured]:
            parts += ["", f"Declared and not measured: {_escape(', '.join(missing))}."]
    if comparison["curves"]:
        parts += ["", "## Curves", "", "By trained tokens, over all adapters of a run."]
    for curve in comparison["curves"]:
        parts += ["", f"### {_escape(curve['name'])}", "", *head]
        parts += [
            _markdown_row(
                {"name": f"{point['tokens']:.3g} tokens", "arms": point["arms"]},
                arms,
                curve["name"],
            )
            for point in curve["points"]
        ]
    return "\n".join(parts) + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _markdown_row(row: dict[str, Any], arms: Sequence[str], outcome: str = "") -> str:
    """`outcome`: what the row is about, where its name does not say so."""
    cells, unit = {one["arm"]: one for one in row["arms"]}, unit_of(outcome or row["name"])
    texts = [
        _estimate(cells[arm]["mean"], cells[arm]["interval"], unit) if arm in cells else "–"
        for arm in arms
    ]
    for arm in arms[1:]:
        cell = cells.get(arm)
        if cell is None or cell["difference"] is None:
            texts.append("–")
            continue
        p = "" if cell["p"] is None else f", p {cell['p']:.2g}"
        p += "" if cell["p_holm"] is None else f" (Holm {cell['p_holm']:.2g})"
        apart: Unit = "number" if unit == "number" else "points"
        gap = _estimate(cell["difference"], cell["difference_interval"], apart, sign="+")
        texts.append(f"{gap}{p}{' †' if cell['p'] is not None and not cell['pairs'] else ''}")
    return f"| {_escape(row['name'])} | " + " | ".join(texts) + " |"


def _estimate(value: float, interval: Interval | None, unit: Unit, sign: str = "") -> str:
    def show(one: float) -> str:
        return f"{one:{sign}.4g}" if unit == "number" else f"{100 * one:{sign}.1f}"

    text = show(value) + {"share": " %", "points": " points", "number": ""}[unit]
    return text if interval is None else f"{text} [{show(interval[0])}, {show(interval[1])}]"


def unit_of(outcome: str) -> Unit:
    """Scores and rates are shares; they differ by points."""
    if outcome.endswith(": gain over the base"):
        return "points"
    return "share" if ": " in outcome or outcome in _RATES else "number"
