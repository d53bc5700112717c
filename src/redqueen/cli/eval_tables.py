"""Tables of `redqueen eval`."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from redqueen.evaluate.replies import BASE, FORCED, ByItem, describe_sampling
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.summary import summarize_model

if TYPE_CHECKING:
    from redqueen.evaluate.proposals import ProposalStats

Row = dict[str, Any]
"""Scores as `EvalResult.to_json` has them."""


def model_table(rows: dict[str, Row], title: str) -> Table:
    """One model: a row for each suite, and one for the base with its reasoning forced."""
    compared = any("against_base" in row for row in rows.values())
    k = max((int(k) for row in rows.values() for k in row.get("pass_at", {})), default=0)
    reasons = any("reasoned" in row for row in rows.values())
    table = _new_table(title, rows.values())
    cut = _was_truncated(rows.values())
    columns = ["suite", "items", "% correct (95 %)", *_pass_column(k), *cut]
    columns += [_REASONING] if reasons else []
    for name in columns + (["base", "difference (95 %)", "p"] if compared else []):
        table.add_column(name, justify="left" if name == "suite" else "right")

    def add(name: str, row: Row, base: Row | None) -> None:
        cells = [name, str(row["n"]), percent(row), *_pass_cell(row, k)]
        cells += [str(row["truncated"])] if cut else []
        cells += _reasoning(row) if reasons else []
        if compared:
            cells += [percent(base) if base else "", *_difference(row)]
        table.add_row(*cells)

    for name, row in rows.items():
        add(name, row, row.get("base"))
        if forced := row.get("base_forced"):
            add(f"  {FORCED}", forced, row.get("base"))
    return table


def tier_table(result: EvalResult) -> Table:
    """One base: a row for each tier, a column for each kind."""
    own = [reply for replies in result.by_model[BASE].values() for reply in replies]
    malformed = sum(reply.reason.startswith("malformed") for reply in own)
    title = (
        f"{result.config.suite}: % correct, {result.config.sampling} (95 % interval); "
        f"{malformed} of {len(own)} malformed"
    )
    samples = result.config.samples
    if samples > 1:
        pass_at = summarize_model(result.by_model[BASE])["pass_at"][str(samples)]
        title += f"; pass@{samples} {100 * pass_at:.1f} %"
    kinds = list(dict.fromkeys(item.kind for item in result.items))

    def cell(replies: ByItem, tier: int | None, kind: str | None) -> str:
        chosen = {
            item.id: replies[item.id]
            for item in result.items
            if tier in (None, item.tier) and kind in (None, item.kind)
        }
        return percent(summarize_model(chosen)) if chosen else "-"

    table = Table(title=title, title_justify="left")
    for name in ("tier", *kinds, "all"):
        table.add_column(name, justify="right")
    base = result.by_model[BASE]
    for tier in sorted({item.tier for item in result.items}):
        table.add_row(str(tier), *(cell(base, tier, kind) for kind in (*kinds, None)))
    table.add_section()
    for name, replies in result.by_model.items():
        label = "all" if name == BASE else name
        table.add_row(label, *(cell(replies, None, kind) for kind in (*kinds, None)))
    if caption := _reasoning_caption(result.to_json()):
        table.caption = caption
    return table


def population_table(suite: str, row: Row, members: Sequence[str]) -> Table:
    """A row for the base, for each of these members, and for what each population hands over."""
    k = max((int(k) for k in row["base"].get("pass_at", {})), default=0)
    title = f"{suite}: {row['n']} items, {describe_sampling(row['samples'], row['temperature'])}"
    reasons = "reasoned" in row["base"]
    table = _new_table(title, [row["base"]])
    table.add_column("")
    cut = _was_truncated([row["base"], *row["members"].values()])
    columns = ["% correct (95 %)", *_pass_column(k), "against base", "p", *cut]
    for name in columns + ([_REASONING] if reasons else []):
        table.add_column(name, justify="right")

    def add(name: str, scores: Row) -> None:
        cells = [name, percent(scores), *_pass_cell(scores, k), *_difference(scores)]
        cells += [str(scores.get("truncated", ""))] if cut else []
        table.add_row(*cells, *(_reasoning(scores) if reasons else []))

    add("base", row["base"])
    if "base_forced" in row:
        add(FORCED, row["base_forced"])
    for name in members:
        add(name, row["members"][name])
    for population in row["populations"]:
        table.add_section()
        several = len(row["populations"]) > 1
        where = f" of {population['arm']} ({population['world']})" if several else ""
        add(f"mean of {len(population['members'])} members{where}", population["mean"])
        for name in ("soup", "chosen"):
            if product := population.get(name):
                of = f", {product['model']}" if name == "chosen" else ""
                add(f"{name}{where}{of}", product)
        if vote := population.get("majority_vote"):
            partly = f", {vote['n']} items" if vote["n"] < row["n"] else ""
            _add_with_base(add, f"vote of {vote['votes']}", f"{where}{partly}", vote)
        union = population["union_pass"]
        _add_with_base(add, f"union pass@{union['k']}", where, union)
    return table


def _add_with_base(add: Callable[[str, Row], None], name: str, where: str, scores: Row) -> None:
    """A row, and one for the base with as many votes or attempts."""
    add(f"{name}{where}", scores)
    if base := scores.get("base"):
        add(f"  the base: {name}", base)


_REASONING = "reasoned"


def _reasoning(row: Row) -> list[str]:
    """How often replies begin with reasoning, and how often they are correct with it and
    without."""
    if "reasoned" not in row:
        return [""]
    share, given, without = _reasoning_parts(row)
    return [f"{share} ({given}, {without})"]


def _reasoning_parts(row: Row) -> list[str]:
    parts = (row["reasoned"][name] for name in ("share", "accuracy_with", "accuracy_without"))
    return [f"{100 * part['accuracy']:.0f}" if part["n"] else "-" for part in parts]


def _reasoning_caption(row: Row) -> str:
    if "reasoned" not in row:
        return ""
    share, given, without = _reasoning_parts(row)
    return (
        f"{share} % of {_reasoning_answers([row])} begin with reasoning; "
        f"correct: {given} % with it, {without} without"
    )


def _reasoning_answers(rows: Iterable[Row]) -> str:
    """Whose share it is: other task kinds have no way to begin with reasoning."""
    kinds = dict.fromkeys(kind for row in rows for kind in row.get("reasoned", {}).get("kinds", ()))
    return f"{', '.join(filter(None, kinds))} answers".strip()


def _new_table(title: str, rows: Iterable[Row]) -> Table:
    """Without lines between columns: names, intervals and reasoning fit into 80 columns."""
    rows = [row for row in rows if "reasoned" in row]
    caption = (
        f"reasoned: % of the {_reasoning_answers(rows)} that begin with reasoning "
        "(% correct with it, without)"
    )
    return Table(
        title=title, title_justify="left", caption=caption if rows else None,
        caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip


def _was_truncated(rows: Iterable[Row]) -> list[str]:
    """A column only where a reply was cut off."""
    return ["truncated"] if any(row.get("truncated") for row in rows) else []


def proposals_table(stats: "dict[str, ProposalStats]") -> Table:
    table = Table(title="proposals at temperature 1: % (95 % interval)", title_justify="left")
    for name in ("kind", "valid", "unique among valid", "rejected"):
        table.add_column(name)
    for kind, row in stats.items():
        rejected = ", ".join(f"{count} {reason}" for reason, count in row.rejected.items())
        cells = percent(row.valid.to_json()), percent(row.unique.to_json())
        table.add_row(kind, *cells, rejected or "none")
    return table


def percent(row: Row) -> str:
    """A share with its interval."""
    if not row["n"]:
        return "-"
    low, high = row["interval"]
    return f"{100 * row['accuracy']:.1f} ({100 * low:.0f}-{100 * high:.0f})"


def _pass_column(k: int) -> list[str]:
    return [f"% pass@{k}"] if k else []


def _pass_cell(row: Row, k: int) -> list[str]:
    if not k:
        return []
    return [f"{100 * row['pass_at'][str(k)]:.1f}" if "pass_at" in row else ""]


def _difference(row: Row) -> list[str]:
    """To the base, with its p."""
    if "against_base" not in row:
        return ["", ""]
    difference = row["against_base"]
    low, high = difference["interval"]
    return [
        f"{100 * difference['difference']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]",
        f"{difference['p']:.3f}",
    ]
