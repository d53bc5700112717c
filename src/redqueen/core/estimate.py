"""What a run will need, before anything is loaded: memory of every part, and the time of a step.

Memory is arithmetic on shapes, with the largest batches that the settings allow. Time is a roofline
with three measured constants (one H200, `redqueen bench engine` in the shapes of 0.5B and 7B): the
share of the memory's bandwidth that decoding reaches, what launching a layer costs however small it
is, and how often training moves what a layer keeps (0.5B alone: 63,000 tokens/s).
Memory agrees with what was measured in these shapes to a fifth; of time, lengths are what it knows
least.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redqueen.config.schema import Config

if TYPE_CHECKING:
    from redqueen.models.shape import BaseShape

_DECODE_EFFICIENCY = 0.63
_LAYER_S = 0.27e-3
_MATMUL_EFFICIENCY = 0.4
_ACTIVATION_MOVES = 21
_LOGITS_TOKENS = 2048
_RUNTIME_BYTES = 6e9
"""The CUDA context, captured graphs and fragmentation."""


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    memory: float
    """Bytes."""
    bandwidth: float
    """Bytes a second."""
    flops: float
    """Of bfloat16, a second."""


H200 = Gpu("H200", 140e9, 4.3e12, 790e12)


@dataclass(frozen=True, slots=True)
class StepSize:
    """The most that a step can be: every proposal valid. Of all worlds together, which share the
    engine."""

    proposals: int
    attempts: int
    replayed: int
    """Attempts at archived problems."""


def step_size(configs: Sequence[Config]) -> StepSize:
    worlds = [_world_size(config) for config in configs]
    return StepSize(
        sum(size.proposals for size in worlds),
        sum(size.attempts for size in worlds),
        sum(size.replayed for size in worlds),
    )


def _world_size(config: Config) -> StepSize:
    population = config.population
    posers = population.students if config.has_both_roles else population.teachers
    proposals = posers * len(config.tasks.kinds) * config.propose.prompts * config.propose.samples
    problems = proposals or population.students * config.fixed.problems
    attempts = problems * config.solve.attempts
    share = config.archive.replay_share if proposals else 0.0
    return StepSize(proposals, attempts, round(attempts * share / (1 - share)))


def memory(configs: Sequence[Config], shape: "BaseShape", itemsize: int = 2) -> dict[str, float]:
    """Bytes of each part, at the most."""
    config, size = configs[0], step_size(configs)
    engine, limits = config.engine, config.engine.limits
    own = shape.adapter_parameters(config.lora.rank, config.lora.targets)
    sequences = min(limits.max_num_seqs, max(size.proposals, size.attempts))
    prompt = config.propose.max_prompt_chars / 3 if size.proposals else 512
    longest = max(prompt + config.propose.max_tokens, 1024 + config.solve.max_tokens)
    tokens = limits.max_tokens_per_microbatch
    layer = _layer_bytes(shape, itemsize)
    kept = itemsize * shape.hidden if engine.gradient_checkpointing else layer
    prefill = itemsize * (4 * shape.hidden + 2 * shape.intermediate)
    return {
        "base": shape.parameters * itemsize,
        "adapters, gradients, optimizer": sum(config.slots for config in configs) * own * 4 * 4,
        "KV cache": sequences * longest * shape.layers * shape.kv_width * itemsize,
        "prefill": limits.max_prefill_tokens * prefill,
        "activations of a micro-batch": tokens * (shape.layers * kept + layer),
        "logits": min(_LOGITS_TOKENS, tokens) * shape.vocabulary * (itemsize + 3 * 4),
        "runtime": _RUNTIME_BYTES,
    }


def _layer_bytes(shape: "BaseShape", itemsize: int) -> int:
    """The inputs that a layer's backward pass needs for a token: norms in float32, the rest as the
    base is."""
    return itemsize * (12 * shape.hidden + 5 * shape.intermediate) + 12 * shape.hidden


def checkpoint_bytes(configs: Sequence[Config], shape: "BaseShape") -> int:
    """On the disk: weights and two moments of every member, in float32 unless it is said."""
    own = shape.adapter_parameters(configs[0].lora.rank, configs[0].lora.targets)
    ledger = configs[0].ledger
    each = (4 if ledger.checkpoint_dtype == "float32" else 2) + 8 * ledger.checkpoint_optimizer
    return sum(config.slots for config in configs) * own * each


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds."""

    propose: float
    solve: float
    update: float

    @property
    def total(self) -> float:
        return self.propose + self.solve + self.update


def step_time(
    configs: Sequence[Config],
    shape: "BaseShape",
    gpu: Gpu,
    length: float,
    devices: int = 1,
    itemsize: int = 2,
) -> StepTime:
    """Where completions use this share of their limits. Members are divided between devices."""
    config, size = configs[0], step_size(configs)
    proposals, attempts = size.proposals / devices, (size.attempts + size.replayed) / devices
    prompt = min(1024.0, config.propose.max_prompt_chars / 6)

    def sample(count: float, limit: int) -> float:
        if not count:
            return 0.0
        sequences = min(config.engine.limits.max_num_seqs, count)
        mean = length * limit
        live = sequences * (prompt + mean / 2) * shape.layers * shape.kv_width * itemsize
        decode = (shape.parameters * itemsize + live) / gpu.bandwidth / _DECODE_EFFICIENCY
        steps = max(count * mean / sequences, min(limit, 2 * mean))
        prefill = 2 * shape.parameters * count / 4 * prompt / gpu.flops / _MATMUL_EFFICIENCY
        return steps * (decode + shape.layers * _LAYER_S) + prefill

    # prompts are computed once for their completions; half of the groups have something to teach
    tokens = proposals * (length * config.propose.max_tokens + prompt / config.propose.samples)
    tokens += (attempts / 2) * (length * config.solve.max_tokens + prompt / config.solve.attempts)
    passes = 6 if config.engine.gradient_checkpointing else 4
    update = tokens * passes * shape.parameters / gpu.flops / _MATMUL_EFFICIENCY
    moved = _ACTIVATION_MOVES * passes / 4 * shape.layers * _layer_bytes(shape, itemsize)
    update += tokens * moved / gpu.bandwidth
    return StepTime(
        sample(proposals, config.propose.max_tokens),
        sample(attempts, config.solve.max_tokens),
        update,
    )
