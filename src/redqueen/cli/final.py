"""What a run prints at its end: its members, and what the students gained over the base."""

import math
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from redqueen.cli.console import VisibleConsole, print_table
from redqueen.core.run import Run
from redqueen.core.world import World
from redqueen.errors import plural
from redqueen.evaluate.replies import BASE, BASE_VOTE, CHOSEN, FORCED, NOT_MEMBERS, SOUP, VOTE
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.statistics import mean, paired_difference, t_interval
from redqueen.report.run_view import open_views

Scores = dict[str, list[float]]
"""By member, or by what is no member: item by item, 1 where it is correct."""


def show_final(
    run: Run,
    measured: tuple[EvalResult, EvalResult | None] | None,
    steps: int,
    steps_s: float,
) -> None:
    """`steps` were played now, in so many seconds."""
    console = VisibleConsole(soft_wrap=True)
    result, vote = measured or (None, None)
    if len(run.worlds) == 1:
        with open_views([run]) as (view,):
            fitness = {row["member"]: row["fitness"] for row in view.rows(_FITNESS)}
        scores = result.world_scores(0) if result else {}
        _one_world(console, run.worlds[0], scores, run.config.evaluate.suite, fitness)
        if vote:
            _vote(console, vote)
    elif result:
        _many_worlds(console, run, result, vote)
    console.print(
        f"{plural(steps, 'step')} in {steps_s:.0f} s. Everything is in {run.folder}: "
        "run.sqlite (the ledger), checkpoints/",
    )


def show_next(run: Run) -> None:
    """What to open, and what to try."""
    folder, further = shlex.quote(str(run.folder)), 2 * run.step
    students = run.worlds[0].students
    lines = {
        f"report {folder}": "the page of all worlds",
        f"compare {folder}": "the arms side by side, with tests",
    }
    if len(run.worlds) == 1:
        # the mean of the students is what a run hands over: one that is chosen does worse
        several = len(students) > 1
        name = SOUP if several else students[0].id
        option = "--soup" if several else f"--member {name}"
        lines = {
            f"eval {folder}/{name} --suite heldout": "what was learned, on more problems",
            f"export {folder} {option} --out {name}": "the same as a PEFT adapter",
            f"export {folder} --problems --as trl --out problems": "problems to train on elsewhere",
        }
    lines |= {
        f"resume {folder} --steps {further}": "play on",
        f"fork {folder} --set steps={further} --set seed=1": "play on with other settings",
        f"digest {folder}": "one hash, equal for runs with equal records",
    }
    console = VisibleConsole(soft_wrap=True)
    page = run.folder / "report.html"
    opened = f"Open {page} in a browser. " if page.exists() else ""
    console.print(f"{opened}What to try next:")
    width = max(map(len, lines))
    for command, why in lines.items():
        console.print(f"  redqueen {command:{width}}  {why}")


def suite_label(suite: str) -> str:
    """The column heading of a suite."""
    return suite if suite and not suite.startswith("heldout") else "held-out"


_FITNESS = "SELECT member, fitness FROM fitness WHERE world = :world ORDER BY step"


def _one_world(
    console: Console, world: World, scores: Scores, suite: str, fitness: Mapping[str, float]
) -> None:
    """The fittest first. A member born since the last ranking has no fitness."""
    table = Table(title="members", title_justify="left")
    for column in ("member", "role", "rating", "±", "fitness", suite_label(suite)):
        table.add_column(column, justify="left" if column in ("member", "role") else "right")
    for member in sorted(
        world.members,
        key=lambda member: (member.role, -fitness.get(member.id, -math.inf), -member.rating.bound),
    ):
        score = f"{100 * mean(scores[member.id]):.1f} %" if member.id in scores else ""
        rating = member.rating
        table.add_row(
            member.id + (" (chosen)" if member.id == world.chosen else ""),
            member.role,
            f"{rating.mu:.1f}",
            f"{rating.sigma:.1f}",
            f"{fitness[member.id]:+.2f}" if member.id in fitness else "",
            score,
        )
    print_table(table, console)
    if BASE in scores and len(scores) > 1:
        _differences(console, scores, suite)


def _differences(console: Console, scores: Scores, suite: str) -> None:
    base, students = scores[BASE], _students(scores)
    weakest = min(students, key=lambda name: mean(students[name]), default="")
    console.print(
        f"{suite}: the base solves {100 * mean(base):.1f} % of {len(base)} problems (greedy). "
        "Difference to it, with 95 % intervals:"
    )
    chosen = next((name for name in students if students[name] is scores.get(CHOSEN)), "")
    lines: dict[str, Sequence[float]] = {
        "students on average": list(map(mean, zip(*students.values(), strict=True))),
        f"weakest student, {weakest}": students.get(weakest, ()),
        f"student chosen by the run, {chosen}": scores.get(CHOSEN, ()),
        "soup of the students": scores.get(SOUP, ()) if len(students) != 1 else (),
        # a base that always reasons is not changed by it
        FORCED: forced if (forced := scores.get(FORCED, ())) != base else (),
    }
    width = max(len(name) for name, own in lines.items() if own)
    for name, own in lines.items():
        if own:
            console.print(f"  {name:{width}} {paired_difference(own, base)}")


def _students(scores: Scores) -> Scores:
    return {name: items for name, items in scores.items() if name not in NOT_MEMBERS}


def _vote(console: Console, result: EvalResult) -> None:
    scores = result.vote_scores(0)
    if BASE_VOTE not in scores:
        return
    count, votes, others = result.config.samples, scores[VOTE], scores[BASE_VOTE]
    console.print(
        f"Majority of {count} votes at temperature {result.config.temperature:g}, on the "
        f"{len(votes)} problems whose answers can be compared: students {100 * mean(votes):.1f} %, "
        f"base {100 * mean(others):.1f} %, difference {paired_difference(votes, others)}"
    )


def _many_worlds(console: Console, run: Run, result: EvalResult, vote: EvalResult | None) -> None:
    """A row for each arm: means over its worlds, one per seed, with 95 % t intervals."""
    columns = ("students on average", "weakest student", SOUP, CHOSEN, VOTE)
    by_arm: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    references = result.world_scores(run.worlds[0].number)
    for world in run.worlds:
        scores = result.world_scores(world.number)
        students = [mean(items) for items in _students(scores).values()]
        own = {}
        if students:
            own = {"students on average": mean(students), "weakest student": min(students)}
        own |= {name: mean(scores[name]) for name in (SOUP, CHOSEN) if name in scores}
        if vote and (votes := vote.vote_scores(world.number)):
            own[VOTE] = mean(votes[VOTE])
        for name, value in own.items():
            by_arm[world.arm][name].append(value)
    known = {name: mean(references[name]) for name in (BASE, FORCED) if name in references}
    if vote and (votes := vote.vote_scores(run.worlds[0].number)):
        known |= {name: mean(own) for name, own in votes.items() if name == BASE_VOTE}
    title = ", ".join(f"{name} {100 * value:.1f} %" for name, value in known.items())
    table = Table(
        title=f"{run.config.evaluate.suite}: % correct, mean over seeds (95 % t interval); {title}",
        title_justify="left",
    )
    for column in ("arm", "seeds", *columns):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for arm, values in by_arm.items():
        seeds = str(max(map(len, values.values()), default=0))
        table.add_row(arm, seeds, *(_over_seeds(values[name]) for name in columns))
    print_table(table, console)


def _over_seeds(values: list[float]) -> str:
    if not values:
        return "-"
    interval = t_interval(values)
    spread = f" ({100 * interval[0]:.1f}-{100 * interval[1]:.1f})" if interval else ""
    return f"{100 * mean(values):.1f}{spread}"
