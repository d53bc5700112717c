"""What students wrote, for other trainers: correct attempts for supervised fine-tuning, or pairs of
a correct and a wrong one for preference training (DPO and its kin). The columns are TRL's."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from redqueen.errors import ConfigError
from redqueen.models.bundled import BUNDLED
from redqueen.report.escape import escape_controls
from redqueen.report.export.folder import check_empty, choose_world, fill
from redqueen.report.export.questions import (
    card_license,
    license_of,
    list_questions,
    note_left_out,
    nothing_to_learn,
)
from redqueen.report.run_view import Run, RunView, open_views

AttemptsFor = Literal["sft", "preference"]
_ATTEMPTS = """SELECT problem, student, step, text, verdict FROM attempts
    WHERE world = :world AND verdict <> 'voided' AND finish_reason = 'stop'
    ORDER BY step, proposal, attempt"""
_CARD = """---
license: {license}
task_categories: [text-generation]
tags: [synthetic, verifiable, redqueen, {tag}]
configs:
- config_name: default
  data_files: attempts.jsonl
---

# Attempts of the run {run}

{count:,} rows. {what} The attempts are of students on `{base}`, at problems that teachers invented,
graded by execution or an exact solver. `solve_rate` says how often the problem was solved,
`difficulty` is one minus that. {left_out}

`load_dataset("json", data_files="attempts.jsonl", split="train")` gives rows for TRL's {trainer}.

The texts were written by models and read by no one.
"""
_WHAT: dict[AttemptsFor, tuple[str, str]] = {
    "sft": (
        "Each is a question (`prompt`) and a correct reply (`completion`), as messages; a reply "
        "that was given twice is there once.",
        "SFTTrainer",
    ),
    "preference": (
        "Each is a question (`prompt`), a correct reply (`chosen`) and one that is not "
        "(`rejected`), as messages, by students at the same problem.",
        "DPOTrainer",
    ),
}
_LEFT_OUT = "Problems that every attempt solved, or none, are left out."


def export_attempts(
    run: Run,
    out: str | Path,
    form: AttemptsFor,
    world: int | None = None,
    *,
    license_id: str | None = None,
    everything: bool = False,
) -> Path:
    """Write the attempts of a run; returns the folder. `everything` keeps problems that every
    attempt solved."""
    if form not in get_args(AttemptsFor):
        raise ConfigError(f"--as: one of {', '.join(get_args(AttemptsFor))}; got {form}")
    folder = check_empty(Path(out))
    with open_views([run]) as views:
        chosen = views if world is None else [choose_world(views, world)]
        own_license = license_of(chosen[0], license_id)
        make = _sft_rows if form == "sft" else _pairs
        rows = [row for view in chosen for row in make(view, own_license, everything)]
        name, base = chosen[0].name, chosen[0].about.get("base", "")
        if not rows:
            raise ConfigError(nothing_to_learn(everything))
        if not everything:
            note_left_out(chosen)
    what, trainer = _WHAT[form]
    card = _CARD.format(
        run=name, base=base, count=len(rows), what=what, trainer=trainer, tag=form,
        license=card_license(own_license), left_out="" if everything else _LEFT_OUT,
    )  # fmt: skip
    with fill(folder):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / "attempts.jsonl").write_text("".join(lines), encoding="utf-8")
        (folder / "README.md").write_text(escape_controls(card), encoding="utf-8")
    return folder


def _sft_rows(view: RunView, license_id: str, everything: bool) -> Iterator[dict[str, Any]]:
    for question, correct, _ in _by_problem(view, license_id, everything):
        for text, attempt in {attempt["text"]: attempt for attempt in correct}.items():
            about = {name: attempt[name] for name in ("student", "step")}
            yield {**question, "completion": _reply(text), **about}


def _pairs(view: RunView, license_id: str, everything: bool) -> Iterator[dict[str, Any]]:
    for question, correct, wrong in _by_problem(view, license_id, everything):
        good = dict.fromkeys(attempt["text"] for attempt in correct)
        bad = dict.fromkeys(attempt["text"] for attempt in wrong)
        for chosen, rejected in zip(good, bad, strict=False):
            yield {**question, "chosen": _reply(chosen), "rejected": _reply(rejected)}


def _by_problem(view: RunView, license_id: str, everything: bool) -> Iterator[Any]:
    """Of each problem its question, in the format that the students were asked in, the correct
    attempts, and the others."""
    by_problem: dict[str, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for row in view.rows(_ATTEMPTS):
        by_problem[row["problem"]][row["verdict"] != "correct"].append(row)
    own = view.setting("tasks.prompt_format", "auto")
    if own == "auto":
        own = "compact" if view.about.get("base") in BUNDLED else "chat"
    for question in list_questions(view, license_id, everything=everything, form=own):
        del question["problem"]
        yield question, *by_problem[question["id"]]


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
