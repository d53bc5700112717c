"""Tables of `redqueen eval`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from redqueen.evaluate.replies import describe_sampling
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.summary import summarize_model

if TYPE_CHECKING:
    from redqueen.evaluate.proposals import ProposalStats

Row = dict[str, Any]
"""Scores as `EvalResult.to_json` has them."""


def model_table(rows: dict[str, Row], title: str) -> Table:
    """One model: a row for each suite."""
    table = Table(title=title, title_justify="left")
    compared = any("against_base" in row for row in rows.values())
    k = max((int(k) for row in rows.values() for k in row.get("pass_at", {})), default=0)
    columns = ["suite", "items", "% correct (95 %)", *_pass_column(k), "truncated"]
    for name in columns + (["base", "difference (95 %)", "p"] if compared else []):
        table.add_column(name, justify="left" if name == "suite" else "right")
    for name, row in rows.items():
        cells = [name, str(row["n"]), percent(row), *_pass_cell(row, k), str(row["truncated"])]
        if compared:
            cells += [percent(row["base"]), *_difference(row)]
        table.add_row(*cells)
    return table


def tier_table(result: EvalResult) -> Table:
    """One model: a row for each tier, a column for each kind."""
    samples = result.config.samples
    malformed = sum(reply.reason.startswith("malformed") for reply in result.replies)
    title = (
        f"{result.config.suite}: % correct, {result.config.sampling} (95 % interval); "
        f"{malformed} of {len(result.replies)} malformed"
    )
    (replies,) = result.by_model.values()
    if samples > 1:
        pass_at = summarize_model(replies, samples)["pass_at"][str(samples)]
        title += f"; pass@{samples} {100 * pass_at:.1f} %"
    kinds = list(dict.fromkeys(item.kind for item in result.items))

    def cell(tier: int | None, kind: str | None) -> str:
        chosen = {
            item.id: replies[item.id]
            for item in result.items
            if tier in (None, item.tier) and kind in (None, item.kind)
        }
        return percent(summarize_model(chosen, samples)) if chosen else "-"

    table = Table(title=title, title_justify="left")
    for name in ("tier", *kinds, "all"):
        table.add_column(name, justify="right")
    for tier in sorted({item.tier for item in result.items}):
        table.add_row(str(tier), *(cell(tier, kind) for kind in (*kinds, None)))
    table.add_section()
    table.add_row("all", *(cell(None, kind) for kind in (*kinds, None)))
    return table


def population_table(suite: str, row: Row, members: Sequence[str]) -> Table:
    """A row for the base, for each of these members, and for what each population does together."""
    k = max((int(k) for k in row["base"].get("pass_at", {})), default=0)
    title = f"{suite}: {row['n']} items, {describe_sampling(row['samples'], row['temperature'])}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("% correct (95 %)", *_pass_column(k), "against base (95 %)", "p", "truncated"):
        table.add_column(name, justify="right")

    def add(name: str, scores: Row) -> None:
        cells = [name, percent(scores), *_pass_cell(scores, k), *_difference(scores)]
        table.add_row(*cells, str(scores.get("truncated", "")))

    add("base", row["base"])
    for name in members:
        add(name, row["members"][name])
    for population in row["populations"]:
        table.add_section()
        several = len(row["populations"]) > 1
        where = f" of {population['arm']} ({population['world']})" if several else ""
        size, best = len(population["members"]), population["best_of_members"]
        add(f"mean of {size} members{where}", population["mean"])
        if vote := population.get("majority_vote"):
            partly = f", {vote['n']} items" if vote["n"] < row["n"] else ""
            add(f"majority vote{where}{partly}", vote)
        add(f"best of members{where}", best)
        if "base_as_often" in best:
            add(f"best of {size} tries of the base", best["base_as_often"])
    return table


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
        f"{100 * difference['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})",
        f"{difference['p']:.3f}",
    ]
