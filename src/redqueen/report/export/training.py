"""The curriculum for other trainers: an installable taskset for `verifiers`, rows and a reward
function for TRL's GRPO, a data set for Hugging Face. Replies are graded by our sandbox."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from redqueen.errors import ConfigError
from redqueen.report.export.folder import check_empty, choose_world, fill
from redqueen.report.export.problems import list_problems
from redqueen.report.run_view import Run, RunView, open_views
from redqueen.tasks import KINDS, load_kind
from redqueen.tasks.kind import load_problem
from redqueen.tasks.prompts import load_prompt_format

Trainer = Literal["verifiers", "trl", "datasets"]
_PROBLEMS = """SELECT problem AS key, kind, payload, gold, features FROM problems
    WHERE world = :world AND step > 0 ORDER BY step, problem"""

_PYPROJECT = """[project]
name = "{name}"
version = "0.1.0"
description = "Problems that the run {run} invented, graded by execution"
requires-python = ">=3.11"
dependencies = ["redqueen", "verifiers>=0.4"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""
_TASKSET = '''"""Problems that a run of Red Queen invented, graded in its sandbox."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import verifiers.v1 as vf

from redqueen.evaluate.rewards import grade_replies

KINDS = {kinds!r}


class RedQueenData(vf.TaskData):
    problem: str
    """As JSON, with its gold answer."""


class RedQueenTask(vf.Task[RedQueenData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        problems, replies = [self.data.problem], [trace.last_reply]
        (reward,) = await asyncio.to_thread(grade_replies, problems, replies, KINDS)
        return reward


class RedQueenTaskset(vf.Taskset[RedQueenTask, vf.TasksetConfig]):
    def load(self) -> Iterator[RedQueenTask]:
        with Path(__file__).with_name("problems.jsonl").open(encoding="utf-8") as file:
            for row in map(json.loads, file):
                system, *turns = row["prompt"]
                data = RedQueenData(
                    id=row["id"],
                    name=row["kind"],
                    prompt=turns,
                    system_prompt=system["content"],
                    problem=row["problem"],
                )
                yield RedQueenTask(data, self.config.task)
'''
_REWARD = '''"""The reward for TRL: 1 for a correct answer, 0 for any other."""

from redqueen.evaluate.rewards import grade_replies

KINDS = {kinds!r}


def correct(completions, problem, **columns):
    return grade_replies(problem, [completion[-1]["content"] for completion in completions], KINDS)
'''
_USE: dict[Trainer, str] = {
    "verifiers": "`pip install -e .`, then `vf-eval {name}` or any trainer that runs `verifiers`.",
    "trl": """```python
from datasets import load_dataset
from reward import correct
from trl import GRPOTrainer

rows = load_dataset("json", data_files="problems.jsonl", split="train")
trainer = GRPOTrainer(model="...", reward_funcs=correct, train_dataset=rows)
```""",
    "datasets": '`load_dataset("this-folder")`; `redqueen.evaluate.rewards.grade_replies` grades.',
}
_CARD = """---
task_categories: [text-generation]
tags: [synthetic, verifiable, redqueen]
configs:
- config_name: default
  data_files: problems.jsonl
---

# Problems of the run {run}

{count:,} problems that teachers on `{base}` invented, each verified. `prompt` has the messages that
a student is given, `problem` the problem with its gold answer as JSON, `solve_rate` how often the
student that met it was right.

{use}

The problems were written by models and read by no one. Answers that are programs run in the sandbox
of `redqueen`, which must be installed; it needs Linux.
"""


def export_training(run: Run, out: str | Path, form: Trainer, world: int | None = None) -> Path:
    """Write the problems of a run for a trainer; returns the folder."""
    if form not in get_args(Trainer):
        raise ConfigError(f"--as: one of {', '.join(get_args(Trainer))}; got {form}")
    folder = check_empty(Path(out))
    with open_views([run]) as views:
        chosen = views if world is None else [choose_world(views, world)]
        rows = [row for view in chosen for row in _rows(view)]
        first = chosen[0]
        name, base = first.about.get("name", "") or first.name, first.about.get("base", "")
    kinds = sorted({row["kind"] for row in rows} - set(KINDS))
    dashed = "redqueen-" + (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run")
    use = _USE[form].format(name=dashed) if form == "verifiers" else _USE[form]
    with fill(folder):
        data = folder
        if form == "verifiers":
            data = _write_package(folder, name, dashed, kinds)
        elif form == "trl":
            (folder / "reward.py").write_text(_REWARD.replace("{kinds!r}", repr(kinds)))
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (data / "problems.jsonl").write_text("".join(lines), encoding="utf-8")
        card = _CARD.format(run=name, base=base, count=len(rows), use=use)
        (folder / "README.md").write_text(card, encoding="utf-8")
    return folder


def _write_package(folder: Path, run: str, name: str, kinds: list[str]) -> Path:
    """All but the problems; returns the folder of the package."""
    package = name.replace("-", "_")
    data = folder / package
    data.mkdir()
    project = _PYPROJECT.format(name=name, package=package, run=json.dumps(run)[1:-1])
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    init = f'from {package}.taskset import RedQueenTaskset\n\n__all__ = ["RedQueenTaskset"]\n'
    (data / "__init__.py").write_text(init, encoding="utf-8")
    (data / "taskset.py").write_text(_TASKSET.replace("{kinds!r}", repr(kinds)), encoding="utf-8")
    return data


def _rows(view: RunView) -> list[dict[str, Any]]:
    rates = {row["problem"]: row["solve_rate"] for row in list_problems(view)}
    return [_row(dict(row), rates) for row in view.rows(_PROBLEMS) if row["key"] in rates]


def _row(stored: Mapping[str, Any], rates: Mapping[str, float | None]) -> dict[str, Any]:
    fields = {
        **{name: stored[name] for name in ("key", "kind")},
        **{name: json.loads(stored[name]) for name in ("payload", "gold", "features")},
        "author": None,
        "step": 0,
    }
    kind = load_kind(fields["kind"])
    prompt = load_prompt_format("chat").render(kind.ask_answer(load_problem(fields, kind)))
    messages = [{"role": "system", "content": prompt.system or ""}]
    for asked, replied in prompt.before:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": replied})
    messages.append({"role": "user", "content": prompt.text})
    return {
        "id": fields["key"],
        "kind": fields["kind"],
        "prompt": messages,
        "problem": json.dumps(fields, ensure_ascii=False),
        "solve_rate": rates[fields["key"]],
    }
