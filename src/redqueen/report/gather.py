"""Everything a report shows of a run, as plain data: numbers and texts, no layout."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from redqueen.config.schema import Config
from redqueen.core.fork import flatten
from redqueen.ledger.lock import is_held
from redqueen.ledger.store import digest
from redqueen.report import curriculum, curves, lineage, scores
from redqueen.report.compute import SAMPLED
from redqueen.report.departures import mark_departures
from redqueen.report.drift import drift
from redqueen.report.engagement import measure_race, race_figures
from redqueen.report.findings import list_answers, list_findings, next_steps
from redqueen.report.games import games
from redqueen.report.people import people
from redqueen.report.run_view import Run, RunView, open_views
from redqueen.report.sample import MAX_CHARS, sample_proposals
from redqueen.report.selection import selection
from redqueen.report.specialists import specialists
from redqueen.sandbox import Sandbox


def gather_runs(
    runs: Sequence[Run], max_chars: int = MAX_CHARS, sandbox: Sandbox | None = None
) -> list[dict[str, Any]]:
    """The figures of every world of every run, with problems of `max_chars` characters in total.
    With a sandbox, reasoning is compared with execution."""
    with open_views(runs) as views:
        gathered = [gather(view, max_chars // len(views)) for view in views]
        # it takes a pass over the whole ledger: once a run, and not at every step of a live one
        done = {view.folder for view, own in zip(views, gathered, strict=True) if not own["active"]}
        digests = {folder: digest(folder) for folder in done}
        for view, figures in zip(views, gathered, strict=True):
            figures["digest"] = digests.get(view.folder, "")
        if sandbox is not None:
            for view, figures in zip(views, gathered, strict=True):
                mark_departures(view, figures["problems"]["items"], sandbox)
        return gathered


def gather(view: RunView, max_chars: int = MAX_CHARS) -> dict[str, Any]:
    counts = curriculum.count_proposals(view)
    members = lineage.members(view)
    lines = curves.metrics(view)
    wanted = view.about.get("steps", "")
    every = view.setting("evolve.every", 0) or 0
    figures: dict[str, Any] = {
        "name": view.name,
        "arm": view.arm,
        "seed": view.seed,
        "about": {
            **{name: view.about.get(name, "") for name in ("base", "version", "created")},
            "machine": _machine(view),
        },
        "settings": _settings(view),
        "recipe": view.about.get("config", "") if view.arm == "run" else "",
        "origin": json.loads(view.about.get("origin", "null")),
        # A run writes its report while it still holds its lock.
        "active": not view.about.get("ended") and is_held(view.folder),
        "digest": "",
        "steps_done": view.last,
        "steps_wanted": int(wanted) if wanted.isdecimal() else None,
        "verified_again": json.loads(view.about.get("verified_again", "null")),
        "ended": view.about.get(f"ended/{view.world}") or view.about.get("ended", ""),
        "steps": view.windows.ends,
        "window": view.windows.size,
        "has_teachers": any(member["role"] != "student" for member in members),
        "counts": _counts(view, counts),
        "metrics": lines,
        "complexity_index": curves.complexity_index(lines),
        "ratings": curves.ratings(view),
        "race": race_figures(measure_race(view)),
        "selection": selection(view),
        "games": games(view),
        "matrix": curves.solve_matrix(view),
        "timings": curves.timings(view),
        "pace": curves.pace(view),
        "placements": curves.placements(view),
        "updates": curves.updates(view),
        "members": members,
        "operators": lineage.operator_credit(members, view.last),
        "evolve_every": every,
        "early_deaths": lineage.early_deaths(members, every),
        "difficulty": curriculum.difficulty(view, counts),
        "rejections": curriculum.rejections(view, counts),
        "novelty": curriculum.novelty(view),
        "templates": curriculum.templates(view),
        "drift": drift(view),
        "suites": scores.suites(view),
        "crossplay": scores.crossplay(view),
        "students_by_kind": scores.by_kind(view, counts, "student"),
        "specialists": specialists(view),
        "teachers_by_kind": scores.by_kind(view, counts, "teacher"),
        "people": people(view),
        "problems": sample_proposals(view, max_chars),
    }
    figures["answers"] = [asdict(answer) for answer in list_answers(figures)]
    figures["findings"] = [asdict(finding) for finding in list_findings(figures)]
    figures["next_steps"] = next_steps(figures)
    return figures


def _counts(view: RunView, counts: list[curriculum.ProposalCount]) -> dict[str, int]:
    pairings = view.row(
        """SELECT coalesce(sum(attempts), 0) AS attempts, coalesce(sum(correct), 0) AS correct,
            count(winner) AS rated, coalesce(sum(winner = 'student'), 0) AS student_won
        FROM pairings WHERE world = :world"""
    )
    (problems,) = view.row("SELECT count(*) FROM problems WHERE world = :world")
    (sampled,) = view.row(
        f"""SELECT coalesce(sum(value), 0) FROM metrics
        WHERE world = :world AND name IN {SAMPLED}"""
    )
    return {
        **dict(pairings),
        "proposals": sum(one.count for one in counts),
        "truncated": sum(one.truncated for one in counts),
        "problems": problems,
        "tokens_sampled": int(sampled),
    }


def _settings(view: RunView) -> dict[str, list[str]]:
    """Every setting of the world by its path: its value, and the default where it is another."""
    defaults = flatten(Config().model_dump(mode="json"))
    settings = {}
    for path, value in flatten(view.settings).items():
        known = path in defaults and defaults[path] != value
        settings[path] = [json.dumps(value), json.dumps(defaults[path]) if known else ""]
    return settings


def _machine(view: RunView) -> str:
    try:
        return str(json.loads(view.about.get("machine", "{}")).get("device", ""))
    except (ValueError, AttributeError):
        return view.about.get("machine", "")
