"""The engine on torch: samples from and trains a population of adapters on one base, on a CPU or a
GPU."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.worker import Inline
from redqueen.engine.protocol import (
    Adapter,
    Completion,
    Engine,
    EngineSpec,
    Loss,
    OnFinish,
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    StepStats,
    Tokenizer,
    TrainSample,
    TrainStats,
)
from redqueen.engine.saving import EXACT
from redqueen.engine.torch.cache import kv_bytes_per_token
from redqueen.engine.torch.cores import CORES, set_threads
from redqueen.engine.torch.decode_batch import DecodeBatchPool
from redqueen.engine.torch.decode_loop import DecodeLoop, max_sequence_length
from redqueen.engine.torch.describe import describe
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.learner import accumulate
from redqueen.engine.torch.members import MemberSnapshot, copy_to_host, optimizer_file
from redqueen.engine.torch.memory import (
    PrefillTooLarge,
    explain_device,
    halve_microbatch,
    halve_sampling,
    peak_memory_gb,
    until_it_fits,
)
from redqueen.engine.torch.optimizer import PopulationAdamW
from redqueen.engine.torch.population import Population
from redqueen.engine.torch.sample_stats import SampleStats
from redqueen.engine.usage import Usage
from redqueen.errors import ConfigError
from redqueen.models.base import Base, load_base
from redqueen.models.peft_io import load_adapter

_CPU_KV_CACHE_BYTES = 2 << 30
_CPU_MIN_SEQS = 32
_GPU_KV_FRAC = 0.9


class TorchEngine:
    """One device: a base model with slots for adapters. Without slots it is the bare base, which
    can be sampled from but not trained."""

    def __init__(
        self,
        base: Base,
        slots: int = 0,
        config: EngineConfig | None = None,
        lora: LoraConfig | None = None,
        seed: int = 0,
    ) -> None:
        self.loaded, self.config = base, config or EngineConfig()
        self.base = describe(base)
        lora = lora or LoraConfig()
        self.population = (
            Population(base, slots, lora.rank, lora.alpha, lora.targets, seed) if slots else None
        )
        self.optimizer = PopulationAdamW(self.population) if self.population else None
        self.forward = Forward(base, self.population)
        self.decode_batches = DecodeBatchPool(self.forward)
        if self.config.gradient_checkpointing:
            base.model.gradient_checkpointing_enable({"use_reentrant": False})
            # transformers checkpoints in training mode only; the bases have no dropout
            base.model.train()
        self.limits = self.config.limits
        """They fall where memory ends, and stay there."""
        self.generated: SampleStats | None = None
        """Of the last call of `sample`."""
        self.usage, self.saving = Usage(), EXACT

    @classmethod
    def create(cls, spec: EngineSpec) -> Engine:
        """One engine of all slots; with several blocks, one of a block's, in which they take
        turns."""
        set_threads(spec.config.threads)
        base = load_base(spec.base, device=spec.device, dtype=spec.dtype)
        base.check(spec.fingerprint)
        # On one GPU a call of everything is fastest; on a CPU, nothing is lost by turns.
        layout = BlockLayout.of(spec, "all" if base.device.type == "cuda" else "world")
        engine = cls(base, layout.largest, spec.config, spec.lora, spec.seed)
        engine.saving = spec.saving
        if len(layout.sizes) < 2:
            return engine
        return BlockEngine(layout, [Inline(engine)], base, saving=spec.saving)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.loaded

    @property
    def slots(self) -> int:
        return 0 if self.population is None else self.population.slots

    @property
    def parameters_each(self) -> int:
        return 0 if self.population is None else self.population.parameters_each

    def sample(
        self,
        requests: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish = lambda finished: None,
    ) -> list[Completion]:
        if not requests:
            return []
        self._check_slots(request.slot for request in requests)
        completions: dict[int, Completion] = {}

        def attempt() -> None:
            # what was handed over before memory ended is not sampled again
            left = [number for number in range(len(requests)) if number not in completions]

            def receive(finished: Sequence[tuple[int, Completion]]) -> None:
                numbered = [(left[place], completion) for place, completion in finished]
                completions.update(numbered)
                on_finish(numbered)

            if left:
                self._decode([requests[number] for number in left], sampling, receive)

        def shrink(error: RuntimeError) -> bool:
            smaller = halve_sampling(self.limits, requests, isinstance(error, PrefillTooLarge))
            self.decode_batches = DecodeBatchPool(self.forward)  # those that are kept are as large
            self.limits = smaller or self.limits
            self.usage.out_of_memory += smaller is not None
            return smaller is not None

        length = max(len(request.prompt) + request.max_tokens for request in requests)
        with self._cores(), torch.inference_mode():
            until_it_fits(
                attempt,
                shrink,
                "propose.max_tokens, solve.max_tokens or propose.max_prompt_chars: a sequence of "
                f"{length:,} tokens does not fit alone",
            )
        return [completions[number] for number in range(len(requests))]

    def _decode(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams, on_finish: OnFinish
    ) -> None:
        loop = DecodeLoop(
            self.forward,
            self.decode_batches,
            requests,
            sampling,
            self._max_num_seqs(requests),
            self.config.decode_steps_per_sync,
            self.limits.max_prefill_tokens,
        )
        _, self.generated = loop.run(on_finish)
        self.usage.add(replace(self.generated.usage, memory_gb=self.memory_gb))

    def bare(self) -> "TorchEngine":
        bare = TorchEngine(self.loaded, 0, self.config)
        bare.usage = self.usage
        return bare

    def accumulate(self, samples: Sequence[TrainSample], loss: Loss, kl: float = 0.0) -> TrainStats:
        self._check_slots(sample.slot for sample in samples)
        members, samples = self._members(), [s for s in samples if s.has_gradient]
        # A backward pass that fails has added some layers' gradients already.
        before = members.grads.to("cpu", copy=True) if members.grads.any() else None
        out_of_memory = 0

        def attempt() -> TrainStats:
            return accumulate(
                self.forward,
                members,
                samples,
                loss,
                kl,
                self.limits.max_tokens_per_microbatch,
                self.config.share_prompts,
            )

        def shrink(error: RuntimeError) -> bool:
            nonlocal out_of_memory
            smaller = halve_microbatch(self.limits, samples)
            if smaller is None and not self.decode_batches.kept:
                return False
            if smaller is None:  # the last resort: capturing them again takes seconds
                self.decode_batches = DecodeBatchPool(self.forward)
            self.limits = smaller or self.limits
            members.grads.zero_() if before is None else members.grads.copy_(before)
            out_of_memory += 1
            return True

        longest = max((len(s.prompt) + len(s.completion) for s in samples), default=0)
        with self._cores():
            stats = until_it_fits(
                attempt,
                shrink,
                f"solve.max_tokens and propose.max_tokens (a sample of {longest:,} tokens does not "
                "fit alone), or set engine.gradient_checkpointing=true",
            )
        spent = Usage(
            trained_tokens=stats.tokens, train_s=stats.seconds, micro_batches=stats.micro_batches
        )
        self.usage.add(replace(spent, memory_gb=self.memory_gb))
        return replace(stats, out_of_memory=out_of_memory)

    def step(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        self._check_slots(slots)
        self._members()
        assert self.optimizer is not None
        with self._cores(), explain_device():
            return self.optimizer.step(slots)

    def new(self, slot: int, seed: int) -> None:
        self._check_slots([slot])
        self._members().reset(slot, seed)
        assert self.optimizer is not None
        self.optimizer.reset(slot)

    def read(self, slot: int) -> Adapter:
        with explain_device():
            return self._members().read(slot)

    def write(self, slot: int, adapter: Adapter, *, reset_optimizer: bool) -> None:
        self._members().write(slot, adapter)
        if reset_optimizer and self.optimizer is not None:
            self.optimizer.reset(slot)

    def copy_optimizer(self, source: int, target: int) -> None:
        if self.optimizer is not None:
            self.optimizer.copy(source, target)

    def distances(self, first: int, count: int) -> list[list[float]]:
        with self._cores():
            return self._members().distances(first, count).tolist()

    def save(self, folder: Path, names: Mapping[int, str]) -> list[Path]:
        return self.snapshot(names)(folder)

    def snapshot(self, names: Mapping[int, str]) -> MemberSnapshot:
        with explain_device():
            state = self._state() if self.saving.optimizer else {"weights": self._members().weights}
            own = copy_to_host({name: v for name, v in state.items() if name != "grads"})
        rows, dtype = self._members().rows, getattr(torch, self.saving.dtype)
        return MemberSnapshot(self.loaded, rows, own.pop("weights").to(dtype), own, dict(names))

    def load(self, folder: Path, names: Mapping[int, str]) -> None:
        for slot, name in names.items():
            self.write(slot, load_adapter(folder / "adapters" / name), reset_optimizer=True)
            file = optimizer_file(folder, name)
            if not file.exists() and not self.saving.optimizer:
                continue
            try:
                self.write_optimizer(slot, load_file(file))
            except (KeyError, RuntimeError) as error:
                raise ConfigError(
                    f"{file} does not fit this engine: {error} (another base, rank or population)"
                ) from error

    def checkpointed(self, folder: Path) -> None:
        """Nothing is restored from it: this engine is lost only with the run."""

    def read_optimizer(self, slot: int) -> dict[str, Tensor]:
        """A slot's moments and step count, on the CPU."""
        assert self.optimizer is not None
        return {key: value[slot].cpu().clone() for key, value in self.optimizer.state().items()}

    def write_optimizer(self, slot: int, state: Mapping[str, Tensor]) -> None:
        assert self.optimizer is not None
        for key, value in self.optimizer.state().items():
            if state[key].shape != value[slot].shape:
                raise KeyError(key)
            value[slot] = state[key].to(value.device)

    def state(self) -> dict[str, Tensor]:
        """Everything that training changes, gradients too, on the CPU: what a block that is not in
        its turn consists of."""
        return {name: value.cpu().clone() for name, value in self._state().items()}

    def restore(self, state: Mapping[str, Tensor] | None) -> None:
        """Without a state: as if there had been no block before; every adapter is zero."""
        for name, value in self._state().items():
            value.zero_() if state is None else value.copy_(state[name])
        self._members().changed()

    def _state(self) -> dict[str, Tensor]:
        members = self._members()
        assert self.optimizer is not None
        own = {"weights": members.weights, "grads": members.grads}
        return {**own, **self.optimizer.state()}

    def metrics(self) -> dict[str, float]:
        return self.usage.take().metrics()

    @property
    def memory_gb(self) -> float:
        return peak_memory_gb(self.loaded.device)

    def close(self) -> None:
        """Free the key-value caches."""
        self.decode_batches = DecodeBatchPool(self.forward)

    def _cores(self) -> AbstractContextManager[None]:
        """Within: threads run where other programs leave room. Beside a GPU none does the work."""
        return nullcontext() if self.loaded.device.type == "cuda" else CORES.hold()

    def _members(self) -> Population:
        if self.population is None:
            raise ConfigError("this engine has no members: make it with slots")
        return self.population

    def _check_slots(self, slots: Iterable[int]) -> None:
        for slot in slots if self.population is not None else ():
            if not 0 <= slot < self.slots:
                raise ConfigError(f"there is no slot {slot}: this engine has {self.slots}, from 0")

    def _max_num_seqs(self, requests: Sequence[SampleRequest]) -> int:
        """The limit, but no more than have room: on a CPU in a modest KV cache, but for a few."""
        device = self.loaded.device
        per_token = kv_bytes_per_token(self.forward.config, self.loaded.dtype.itemsize)
        length = max_sequence_length(requests, device)
        if device.type == "cpu":
            fitting = max(_CPU_MIN_SEQS, _CPU_KV_CACHE_BYTES // (length * per_token))
            return min(self.limits.max_num_seqs, fitting)
        total = torch.cuda.mem_get_info(device)[1]
        fitting = int(_GPU_KV_FRAC * total) // (length * per_token)
        if not fitting:
            raise ConfigError(
                f"a sequence of up to {length} tokens needs {length * per_token / 1e9:.0f} GB of "
                f"KV cache; the GPU has {total / 1e9:.0f} GB. Lower the longest completion."
            )
        return min(self.limits.max_num_seqs, fitting)
