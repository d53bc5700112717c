"""What `redqueen bench serve` has tenants do, and the same work done by PEFT, one adapter after
another."""

from dataclasses import dataclass, replace
from random import Random

from redqueen.cli.console import note

_PEFT_ADAPTERS, _PEFT_TOKENS = 2, 16
"""That are measured of PEFT, and tokens with which its batch size is chosen."""


@dataclass(frozen=True, slots=True)
class Work:
    """Of one step, of all tenants together."""

    completions: int
    prompt_tokens: int
    tokens: int
    attempts: int
    steps: int
    warmup: int = 1


@dataclass(frozen=True, slots=True)
class OneByOne:
    """PEFT, one adapter after another. Each costs the same, so that some are measured for all."""

    adapters: int
    measured: int
    batch: int
    """Completions that `generate()` makes at a time: the fastest of some."""
    seconds: float
    """Of all adapters and steps, from one step of those that were measured."""


def one_by_one(base: str, count: int, work: Work, rank: int, device: str) -> OneByOne:
    from redqueen.cli.bench.peft import PeftBaseline
    from redqueen.cli.bench.workload import time_call
    from redqueen.config.engine import LoraConfig
    from redqueen.engine.protocol import SampleRequest, TrainSample
    from redqueen.models.base import pick_device

    measured, where = min(count, _PEFT_ADAPTERS), pick_device(device)
    note(f"PEFT: {measured} of {count} adapters")
    baseline = PeftBaseline(base, where, LoraConfig(rank=rank), measured)
    rng = Random(0)
    requests = [
        SampleRequest(prompt, work.tokens, slot)
        for slot in range(measured)
        for prompt in prompts_of(rng, work, count)
        for _ in range(work.attempts)
    ]
    answer = tuple(rng.randrange(3, 300) for _ in range(work.tokens))
    samples = [TrainSample(one.slot, one.prompt, answer, 1.0) for one in requests]
    # With the smallest size, whole completions would take minutes.
    baseline.choose_sample_batch_size(
        [replace(one, max_tokens=_PEFT_TOKENS) for one in requests if one.slot == 0]
    )
    baseline.choose_train_batch_size(samples)

    def step() -> None:
        baseline.generate(requests)
        baseline.train(samples)

    seconds = time_call(step, where) * work.steps * count / measured
    return OneByOne(count, measured, baseline.sample_batch_size, seconds)


def prompts_of(rng: Random, work: Work, count: int) -> list[tuple[int, ...]]:
    """Of one of so many tenants, for a step."""
    return [
        tuple(rng.randrange(3, 300) for _ in range(work.prompt_tokens))
        for _ in range(max(1, work.completions // count // work.attempts))
    ]
