"""How much reinforcement can teach a base: plain policy gradients on fresh deduction problems, with
reasoning forced, measured on held-out ones.

With reasoning forced, a student that merely reasons more often gains nothing here: what moves is
accuracy given reasoning. Each seed and learning rate is a slot of one engine, so that all are
sampled and trained in one pass. Answers to deduction are compared as literals, so nothing runs in a
sandbox.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import (
    Engine,
    EngineSpec,
    Loss,
    OptimizerSettings,
    TrainSample,
    create_engine,
)
from redqueen.engine.text_sampler import EngineTextSampler, TextCompletion, TextRequest
from redqueen.evaluate.statistics import mean, t_interval
from redqueen.pawn.documents import make_problem
from redqueen.pawn.heldout import excluded_keys
from redqueen.pawn.heldout_large import load_large
from redqueen.pawn.programs import is_reserved, sample_program
from redqueen.records import Attempt, Problem
from redqueen.rng import seed_for, stream
from redqueen.stages.reward.student import STUDENT_REWARDS
from redqueen.stages.update.advantages import ESTIMATORS, Sample, estimate_advantages
from redqueen.stages.update.losses import LOSSES, bind_loss
from redqueen.tasks import Malformed, load_kind
from redqueen.tasks.code.programs import DEDUCTION
from redqueen.tasks.prompts import PromptFormat, load_prompt_format

_excluded = cache(excluded_keys)


@dataclass(frozen=True, slots=True)
class Headroom:
    """Settings of the measurement."""

    base: str = "pawn"
    device: str = "auto"
    seeds: int = 6
    rates: tuple[float, ...] = (1e-3,)
    steps: int = 100
    problems: int = 256
    """Fresh ones for each slot in a step."""
    attempts: int = 8
    tiers: tuple[int, int] = (4, 7)
    items: int = 2000
    """Held-out problems of these tiers."""
    every: int = 25
    """Steps between two measurements."""
    max_tokens: int = 512
    rank: int = 8
    workers: int = 0
    """Processes that make problems; 0: one for each core."""


@dataclass(frozen=True, slots=True)
class Level:
    """Greedy answers with reasoning forced: the share of correct ones, by tier."""

    step: int
    slot: int
    by_tier: dict[int, float]

    @property
    def accuracy(self) -> float:
        return mean(list(self.by_tier.values()))


@dataclass(frozen=True, slots=True)
class Result:
    free: dict[int, dict[str, float | None]]
    """Of the base by tier, greedy: how often it `reasons` unasked, and the share `correct` when it
    does and when it does not (`correct_without`)."""
    base: Level
    levels: list[Level]
    sampled: dict[int, list[float]]
    """By slot, the share of correct attempts in each step, at temperature 1."""
    settings: Headroom

    def gains(self, rate: int, step: int) -> list[float]:
        """Over the base, one for each seed."""
        return [level.accuracy - self.base.accuracy for level in self._of(rate, step)]

    def to_json(self) -> dict[str, Any]:
        steps = sorted({level.step for level in self.levels})
        return {
            "free": self.free,
            "forced": self.base.by_tier | {"all": self.base.accuracy},
            "curves": [
                {
                    "rate": rate,
                    "step": step,
                    "gains": (own := self.gains(number, step)),
                    "gain": mean(own),
                    "interval": t_interval(own),
                    "by_tier": self._by_tier(number, step),
                }
                for number, rate in enumerate(self.settings.rates)
                for step in steps
            ],
            "sampled": self.sampled,
        }

    def _by_tier(self, rate: int, step: int) -> dict[int, float]:
        own = self._of(rate, step)
        return {tier: mean([level.by_tier[tier] for level in own]) for tier in self.base.by_tier}

    def _of(self, rate: int, step: int) -> list[Level]:
        seeds = self.settings.seeds
        return [one for one in self.levels if one.step == step and one.slot // seeds == rate]


OnStep = Callable[[int, Sequence[float], Sequence[Level]], None]
"""Told the step, the share of correct attempts of each slot in it, and what was measured after."""


def measure_headroom(
    settings: Headroom, on_step: OnStep = lambda step, rates, levels: None
) -> Result:
    slots = settings.seeds * len(settings.rates)
    limits = {
        "max_num_seqs": 4096,
        "max_prefill_tokens": 131_072,
        "max_tokens_per_microbatch": 131_072,
    }
    spec = EngineSpec(
        settings.base,
        slots,
        LoraConfig(rank=settings.rank, alpha=2.0 * settings.rank),
        EngineConfig(**limits) if settings.device != "cpu" else EngineConfig(),
        settings.device,
    )
    with ExitStack() as stack:
        engine = create_engine("torch", spec)
        stack.callback(engine.close)
        for slot in range(slots):
            engine.new(slot, seed_for(slot % settings.seeds, "headroom", "newborn"))
        examiner = _Examiner(settings, engine)
        free, base = examiner.measure_base()
        on_step(0, (), [base])
        levels: list[Level] = []
        sampled: dict[int, list[float]] = {slot: [] for slot in range(slots)}
        loss = bind_loss(LOSSES.choose("reinforce"))
        for step, problems in enumerate(_problems(settings, stack), 1):
            rates = _learn(settings, engine, examiner, loss, step, problems)
            for slot, rate in enumerate(rates):
                sampled[slot].append(rate)
            if step % settings.every == 0 or step == settings.steps:
                new = examiner.measure(step, range(slots))
                levels += new
                on_step(step, rates, new)
            else:
                on_step(step, rates, ())
    return Result(free, base, levels, sampled, settings)


def _learn(
    settings: Headroom,
    engine: Engine,
    examiner: "_Examiner",
    loss: Loss,
    step: int,
    problems: Sequence[Sequence[Problem]],
) -> list[float]:
    """One update of every slot; the share of correct attempts of each."""
    requests = [
        replace(asked, seed=seed_for(slot % settings.seeds, step, asked.item.key, number))
        for slot in range(engine.slots)
        for asked in [
            examiner.request(slot, problem) for problem in problems[slot % settings.seeds]
        ]
        for number in range(settings.attempts)
    ]
    completions = examiner.sampler.sample(requests, 1.0)
    pay = STUDENT_REWARDS.choose("verdict")
    earn = STUDENT_REWARDS[pay.type]
    samples, correct = [], [0.0] * engine.slots
    graded: dict[tuple[str, str], Attempt] = {}  # many completions are the same
    for completion in completions:
        key = completion.request.item.key, completion.text
        attempt = graded.get(key) or graded.setdefault(key, examiner.grade(completion))
        slot = completion.request.slot
        correct[slot] += attempt.verdict == "correct"
        group, reward = attempt.problem.key, earn(attempt, pay)
        samples.append(Sample(str(slot), group, "student", DEDUCTION, completion.rollout, reward))
    advantages = estimate_advantages(samples, ESTIMATORS.choose("reinforce_pp"))
    train = [
        TrainSample(
            int(sample.member),
            sample.rollout.prompt,
            sample.rollout.tokens,
            advantage,
            sample.rollout.logprobs,
        )
        for sample, advantage in zip(samples, advantages, strict=True)
    ]
    engine.accumulate(train, loss)
    engine.step(
        {
            slot: OptimizerSettings(learning_rate=settings.rates[slot // settings.seeds])
            for slot in range(engine.slots)
        }
    )
    return [count * engine.slots / len(completions) for count in correct]


class _Examiner:
    """Asks for answers and grades them."""

    def __init__(self, settings: Headroom, engine: Engine) -> None:
        self.settings, self.kind = settings, load_kind(DEDUCTION)
        self.prompt_format: PromptFormat = load_prompt_format(engine.base.prompt_format)
        context = engine.base.context
        self.sampler = EngineTextSampler(engine, engine.tokenizer, context)
        self.bare = EngineTextSampler(engine.bare(), engine.tokenizer, context)
        self.prefix = self.prompt_format.reasoning_prefix(DEDUCTION)
        low, high = settings.tiers
        self.items = [
            item
            for item in load_large()
            if item.problem.kind == DEDUCTION and low <= item.tier <= high
        ][: settings.items]

    def request(self, slot: int, problem: Problem, *, forced: bool = True) -> TextRequest:
        prompt = self.prompt_format.render(self.kind.ask_answer(problem))
        if forced:
            prompt = replace(prompt, prefix=self.prefix)
        return TextRequest(slot, prompt, self.settings.max_tokens, 0, item=problem)

    def grade(self, completion: TextCompletion) -> Attempt:
        problem: Problem = completion.request.item
        try:
            blocks = self.prompt_format.parse(completion.text, self.kind.answer_blocks)
            answer = self.kind.read_answer(blocks)
        except Malformed as error:
            return Attempt(problem, completion.text, "malformed", str(error))
        correct = self.kind.is_correct(problem, answer, None)
        return Attempt(problem, completion.text, "correct" if correct else "wrong")

    def is_correct(self, completion: TextCompletion) -> bool:
        return self.grade(completion).verdict == "correct"

    def measure(self, step: int, slots: Sequence[int]) -> list[Level]:
        requests = [self.request(slot, item.problem) for slot in slots for item in self.items]
        return self._levels(step, self.sampler.sample(requests, 0.0), slots)

    def measure_base(self) -> tuple[dict[int, dict[str, float | None]], Level]:
        requests = [self.request(0, item.problem, forced=False) for item in self.items]
        by_tier: dict[int, list[tuple[bool, bool]]] = {}
        for item, one in zip(self.items, self.bare.sample(requests, 0.0), strict=True):
            reasons = one.text.startswith(self.prefix)
            by_tier.setdefault(item.tier, []).append((reasons, self.is_correct(one)))
        free = {
            tier: {
                "reasons": mean([reasons for reasons, _ in own]),
                "correct": _share([right for reasons, right in own if reasons]),
                "correct_without": _share([right for reasons, right in own if not reasons]),
            }
            for tier, own in sorted(by_tier.items())
        }
        forced = [self.request(0, item.problem) for item in self.items]
        return free, self._levels(0, self.bare.sample(forced, 0.0), [0])[0]

    def _levels(
        self, step: int, completions: Sequence[TextCompletion], slots: Sequence[int]
    ) -> list[Level]:
        levels = []
        for number, slot in enumerate(slots):
            own = completions[number * len(self.items) : (number + 1) * len(self.items)]
            by_tier: dict[int, list[bool]] = {}
            for item, completion in zip(self.items, own, strict=True):
                by_tier.setdefault(item.tier, []).append(self.is_correct(completion))
            levels.append(
                Level(step, slot, {tier: mean(right) for tier, right in sorted(by_tier.items())})
            )
        return levels


def _share(right: Sequence[bool]) -> float | None:
    return mean(right) if right else None


def _problems(settings: Headroom, stack: ExitStack) -> Iterator[list[list[Problem]]]:
    """For each step the problems of each seed, made by other processes."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(settings.workers or os.cpu_count(), context)
    stack.callback(pool.shutdown, cancel_futures=True)
    make = partial(make_problems, settings.problems, settings.tiers)
    steps = [step for step in range(1, settings.steps + 1) for _ in range(settings.seeds)]
    made = pool.map(make, [*range(settings.seeds)] * settings.steps, steps)
    for _ in range(settings.steps):
        yield [next(made) for _ in range(settings.seeds)]


def make_problems(count: int, tiers: tuple[int, int], seed: int, step: int) -> list[Problem]:
    """Of no held-out suite."""
    rng = stream(seed, "headroom", step)
    excluded = _excluded()
    problems: dict[str, Problem] = {}
    while len(problems) < count:
        program = sample_program(rng, rng.randint(*tiers))
        if program.key not in excluded and not is_reserved(program.key):
            problem = make_problem(DEDUCTION, program)
            problems[problem.key] = problem
    return list(problems.values())
