"""One of each: what an outside package may supply to a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Self

from redqueen.benchmarks.suite import CORRECT, Graders, Item, PromptStyle, Verdict
from redqueen.config.registry import Choice
from redqueen.config.sandbox import SandboxConfig
from redqueen.config.stages import RateConfig
from redqueen.core.state import Game, Judged, Played
from redqueen.core.world import Evidence
from redqueen.records import Attempt, Member, Pairing, Problem, Rejection
from redqueen.sandbox import Job, Outcome
from redqueen.stages.evolve.select import Selected, Standing
from redqueen.stages.update.advantages import Sample
from redqueen.tasks.prompts import Prompt

USED: set[str] = set()
"""Which of these a run has called."""


class Steep(Choice):
    """Settings of the teacher's reward."""

    top: float = 1.0


def teacher_reward(judged: Judged, settings: Steep) -> float:
    USED.add("teacher reward")
    rejected = isinstance(judged.verdict, Rejection)
    return -1.0 if rejected else settings.top * (1 - judged.solve_rate)


teacher_reward.settings = Steep  # type: ignore[attr-defined]


def student_reward(attempt: Attempt, settings: Mapping[str, Any]) -> float:
    USED.add("student reward")
    return 1.0 if attempt.verdict == "correct" else 0.0


def estimator(samples: Sequence[Sample], settings: Mapping[str, Any]) -> list[float]:
    USED.add("estimator")
    mean = sum(sample.reward for sample in samples) / len(samples)
    return [sample.reward - mean for sample in samples]


def loss(batch: Any, settings: Any) -> Any:
    USED.add("loss")
    return -batch.advantages * batch.logprobs


def scheme(
    teachers: Sequence[Member],
    students: Sequence[Member],
    step: int,
    rng: Random,
    config: RateConfig,
    settings: Mapping[str, Any],
) -> list[tuple[Member, Member]]:
    USED.add("match scheme")
    return list(zip(teachers, students, strict=True))


def outcome(pairing: Pairing, played: Played, settings: Mapping[str, Any]) -> list[Game]:
    USED.add("rating outcome")
    solved, rates = [rate for rate in played.solve_rates if rate], played.solve_rates
    return [Game(len(solved) / len(rates), 2 * len(solved) > len(rates))]


def fitness(member: Member, evidence: Evidence, settings: Mapping[str, Any]) -> float:
    USED.add("fitness")
    return member.rating.mu


def teacher_fitness(
    member: Member, evidence: Evidence, settings: Mapping[str, Any]
) -> float | None:
    USED.add("teacher fitness")
    total, count = evidence.rewards[member.id]
    return total / count


def selection(
    standings: Sequence[Standing], count: int, settings: Mapping[str, Any], rng: Random
) -> Selected:
    USED.add("selection")
    order = sorted(standings, key=lambda standing: -standing.fitness)
    survivors = order[: len(order) - count]
    return Selected(tuple(order[len(survivors) :]), ((survivors[0],),) * count)


def mutation(parent: Any, settings: Mapping[str, Any], rng: Any) -> Any:
    USED.add("mutation")
    return type(parent)(parent.names, parent.a, parent.b * settings["shrink"])


def policy(problem: Problem, solve_rate: float, settings: Mapping[str, Any]) -> bool:
    USED.add("archive policy")
    return solve_rate > 0


class Recorder:
    """A tracker that writes lines."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        USED.add("tracker")
        self.file = folder / "recorder.jsonl"

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps({"step": step, **metrics}) + "\n")

    def close(self) -> None:
        pass


class NoSandbox:
    """For kinds that execute nothing."""

    def __init__(self, config: SandboxConfig) -> None:
        USED.add("sandbox")

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        assert not jobs, "nothing should be executed"
        return []

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class TenSums:
    """A suite."""

    name, max_tokens, note = "ten-sums", 64, ""

    def prompt_version(self, style: PromptStyle) -> str:
        return "1"

    def items(self, data: Path | None, limit: int | None) -> list[Item]:
        return [Item(str(n), {"a": n, "b": n * n}) for n in range(1, 11)][:limit]

    def prompt(self, item: Item, style: PromptStyle) -> Prompt:
        text = f">>student sums\n>>sum\n{item.fields['a']} + {item.fields['b']}\n>>answer\n"
        return Prompt(text, None, (">>end",))

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: PromptStyle, graders: Graders
    ) -> list[Verdict]:
        USED.add("suite")
        totals = [item.fields["a"] + item.fields["b"] for item in items]
        return [
            CORRECT if f"\n{total}\n" in reply else Verdict(False, "wrong")
            for total, reply in zip(totals, replies, strict=True)
        ]

    def vote_key(self, item: Item, reply: str, style: PromptStyle) -> str | None:
        return reply
