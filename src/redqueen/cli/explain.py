"""`redqueen explain`: do models answer as they reason, and do they reason as the program runs?"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from redqueen.cli.console import VisibleConsole, note, print_table
from redqueen.cli.options import Json, MovedBase
from redqueen.errors import ConfigError
from redqueen.evaluate.explain import Explained
from redqueen.evaluate.explain import explain as explain_target
from redqueen.evaluate.runner import load_task, open_graders

_HEAD = ("model", "correct", "agrees", "if so", "if not", "from", "follows", "ignores", "control")


def explain(
    target: Annotated[str, typer.Argument(help="A base, an adapter, a run, or RUN/S2.")],
    member: Annotated[
        list[str] | None,
        typer.Option(help="A member, students, soup, chosen; may be repeated. Else the students."),
    ] = None,
    suite: Annotated[str, typer.Option(help="Whose problems are asked.")] = "heldout-quick",
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many items of it.")] = None,
    world: Annotated[int | None, typer.Option(min=0, help="Of a run with several.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    base: MovedBase = None,
    as_json: Json = False,
) -> None:
    """Compare reasoning with execution, on problems whose steps are known. Then models go on from
    reasoning with one wrong value: who follows it answers by its reasoning, who ignores it does
    not. Sampled greedily; nothing is written.
    """
    from redqueen.evaluate.run_members import find_run
    from redqueen.evaluate.targets import open_target

    task = load_task(suite, None, limit)
    found = find_run(target)
    members = member or (["students"] if found is not None and not found[1] else [])
    opened = open_target(target, members, world, base=base, device=device)
    try:
        if not any(
            opened.prompt_format.reasoning_prefix(kind) for kind in {i.kind for i in task.items}
        ):
            raise ConfigError(f"the prompt format of {target} has no reasoning for {suite}")
        with open_graders(opened.sandbox, unsafe=opened.unsafe) as graders:
            explained = explain_target(
                opened,
                task.items,
                graders.sandbox,
                task.suite.max_tokens,
                note,
            )
    finally:
        opened.close()
    if as_json:
        print(json.dumps([one.to_json() for one in explained]))
    else:
        _show(VisibleConsole(), explained, Path(target).name)


def _show(console: Console, explained: list[Explained], name: str) -> None:
    first = explained[0]
    table = Table(title=f"{name}: reasoning against execution, % of {first.problems} problems")
    for number, title in enumerate(_HEAD):
        table.add_column(title, justify="right" if number else "left")
    for one in explained:
        shares = (
            one.correct,
            one.agrees,
            one.correct_if_agrees,
            one.correct_if_departs,
            one.departs_at,
            one.follows,
            one.ignores,
            one.control,
        )
        table.add_row(one.model, *("-" if x is None else f"{100 * x:.0f}" for x in shares))
    print_table(table, console)
    console.print(
        "agrees: reasoning that never contradicts execution; if so, if not: correct answers with "
        "and without it; from: how far into the reasoning it first departs.\n"
        f"follows, ignores: of {first.probes} beginnings with one wrong value, the answer that "
        "leads to, and still the gold answer; control: the gold answer after the same beginning "
        "without it.",
    )
