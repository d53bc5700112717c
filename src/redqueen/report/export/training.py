"""The curriculum for other trainers: an installable taskset for `verifiers`, rows and a reward
function for TRL's GRPO, a data set for Hugging Face. Replies are graded by our sandbox."""

import json
import re
from pathlib import Path
from typing import Literal, get_args

from redqueen.errors import ConfigError
from redqueen.report.export.folder import check_empty, choose_world, fill
from redqueen.report.export.model_cards import LEFT_OUT
from redqueen.report.export.questions import (
    card_license,
    license_of,
    list_questions,
    note_left_out,
    nothing_to_learn,
)
from redqueen.report.run_view import Run, open_views
from redqueen.tasks import KINDS

Trainer = Literal["verifiers", "trl", "datasets"]
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
    answer: str
    """A correct one; there may be others."""


class RedQueenTask(vf.Task[RedQueenData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return await self.grade(trace.last_reply)

    async def validate(self, runtime: vf.Runtime) -> bool:
        return await self.grade(f"<answer>{self.data.answer}</answer>") == 1

    async def grade(self, reply: str) -> float:
        problems = [self.data.problem]
        (reward,) = await asyncio.to_thread(grade_replies, problems, [reply], KINDS)
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
                    answer=row["answer"],
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
    "verifiers": """With `redqueen` and `verifiers` 0.4 installed:

```sh
pip install -e .
vf-validate {name} --runtime.type subprocess  # pays for each correct answer, and for no empty one
vf-eval {name} --env.agent.harness.id null --env.agent.runtime.type subprocess --no-push \\
    --client.base-url http://localhost:8000/v1 --client.api-key-var OPENAI_API_KEY -m MODEL
```

or any trainer that runs `verifiers`. A reply is one message: the harness `null` asks for it without
tools, and the runtime `subprocess` asks from this machine.""",
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
license: {license}
task_categories: [text-generation]
tags: [synthetic, verifiable, redqueen]
configs:
- config_name: default
  data_files: problems.jsonl
---

# Problems of the run {run}

{count:,} problems that teachers on `{base}` invented, each verified.{left_out} `prompt` has the
messages that a student is given, `answer` a correct answer (there may be others), `problem` the
problem with its gold answer as JSON, `solve_rate` how often attempts were correct, `difficulty` one
minus that, `difficulty_rating` the skill that would solve it half of the time, as a TrueSkill
rating.

{use}

The problems were written by models and read by no one. Answers that are programs run in the sandbox
of `redqueen`, which must be installed; it needs Linux.
"""


def export_training(
    run: Run,
    out: str | Path,
    form: Trainer,
    world: int | None = None,
    *,
    license_id: str | None = None,
    everything: bool = False,
) -> Path:
    """Write the problems of a run for a trainer; returns the folder. `everything` keeps those that
    every attempt solved, or none."""
    if form not in get_args(Trainer):
        raise ConfigError(f"--as: one of {', '.join(get_args(Trainer))}; got {form}")
    folder = check_empty(Path(out))
    with open_views([run]) as views:
        chosen = views if world is None else [choose_world(views, world)]
        first = chosen[0]
        own_license = license_of(first, license_id)
        rows = [
            row
            for view in chosen
            for row in list_questions(view, own_license, everything=everything)
        ]
        name, base = first.about.get("name", "") or first.name, first.about.get("base", "")
        if not rows:
            raise ConfigError(nothing_to_learn(everything))
        if not everything:
            note_left_out(chosen)
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
        card = _CARD.format(
            run=name,
            base=base,
            count=len(rows),
            use=use,
            license=card_license(own_license),
            left_out="" if everything else f" {LEFT_OUT}",
        )
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
