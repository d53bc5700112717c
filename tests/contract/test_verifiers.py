"""The export for `verifiers`, in `verifiers` itself: loaded by its loader, scored by its tasks."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from redqueen.report.export.training import export_training
from tests.science.test_domains import DOMAINS
from tests.scripted import play, scripted_run

pytest.importorskip("verifiers.v1", reason="needs `verifiers`, which is not a dependency")


def score(task: Any, reply: str) -> float:
    """What `verifiers` makes of a reply: the sum of a trace's rewards."""
    import verifiers.v1 as vf
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import TraceTask

    about = TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    message = vf.AssistantMessage(content=reply)
    agent = vf.AgentInfo(config=vf.AgentConfig(), name="student", trainable=False)
    trace = vf.Trace(task=about, agent=agent, nodes=[MessageNode(message=message, sampled=True)])
    asyncio.run(task.score(trace))
    return float(trace.reward)


@pytest.mark.slow
@pytest.mark.parametrize("domain", sorted(DOMAINS))
def test_verifiers_loads_the_export_and_pays_for_gold_alone(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import verifiers.v1 as vf
    from verifiers.v1.utils.loaders import load_taskset

    teachers, students, kinds, sandbox = DOMAINS[domain]
    settings = ["steps=1", f"tasks.kinds={kinds}", "archive.seeds=examples"]
    with scripted_run(tmp_path / f"of {domain}", sandbox, teachers, students, settings) as run:
        play(run)
    out = export_training(tmp_path / f"of {domain}", tmp_path / "out", "verifiers", everything=True)
    monkeypatch.syspath_prepend(out)
    tasks = list(load_taskset(vf.TasksetConfig(id=f"redqueen-of-{domain}")))
    (data,) = out.rglob("problems.jsonl")
    exported = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    assert [task.data.id for task in tasks] == [row["id"] for row in exported]
    for task, row in zip(tasks, exported, strict=True):
        assert score(task, f"<think>\n</think>\n<answer>\n{row['answer']}\n</answer>") == 1
        assert asyncio.run(task.validate(None)) is True
        for wrong in ("", "no", "<answer>\n{}\n</answer>", "<answer>SELECT 0</answer>"):
            assert score(task, wrong) == 0
        shown = [task.data.system_prompt, *(message.content for message in task.data.prompt)]
        assert shown == [message["content"] for message in row["prompt"]]
