"""The engine on torch: samples from and trains a population of adapters on one base, on a CPU or a
GPU."""

import math
import resource
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.worker import Inline
from redqueen.engine.protocol import (
    Adapter,
    BaseInfo,
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
from redqueen.engine.torch.cache import kv_bytes_per_token
from redqueen.engine.torch.cores import CORES
from redqueen.engine.torch.decode_batch import DecodeBatchPool
from redqueen.engine.torch.decode_loop import DecodeLoop, SampleStats, max_sequence_length
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.learner import accumulate
from redqueen.engine.torch.optimizer import PopulationAdamW
from redqueen.engine.torch.population import Population
from redqueen.errors import ConfigError, EngineError
from redqueen.models.base import Base, load_base
from redqueen.models.peft_io import load_adapter, save_adapter

_CPU_KV_CACHE_BYTES = 2 << 30
_CPU_MIN_SEQS = 32


@contextmanager
def _device(setting: str = "the number of members") -> Iterator[None]:
    """Within: a lost GPU is a message, and an out-of-memory error says which setting to lower."""
    try:
        yield
    except torch.AcceleratorError as error:
        why = str(error).partition("\n")[0]
        raise EngineError(
            f"the GPU failed: {why}. `nvidia-smi` and the kernel's log may say more."
        ) from error
    except torch.cuda.OutOfMemoryError as error:
        free, total = torch.cuda.mem_get_info()
        others = total - free - torch.cuda.memory_reserved()
        held = (
            f"; other programs hold {others / 1e9:.0f} of its {total / 1e9:.0f} GB"
            if others > total / 10
            else ""
        )
        used = torch.cuda.max_memory_allocated() / 1e9
        raise ConfigError(
            f"this batch does not fit into the GPU's memory ({used:.0f} GB were in use{held}). "
            f"Lower {setting}."
        ) from error


class TorchEngine:
    """A base model with slots for adapters. Without slots it is the bare base, which can be sampled
    from but not trained."""

    def __init__(
        self,
        base: Base,
        slots: int = 0,
        config: EngineConfig | None = None,
        lora: LoraConfig | None = None,
        seed: int = 0,
    ) -> None:
        self.loaded, self.config = base, config or EngineConfig()
        self.base = _describe(base)
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
        self.generated: SampleStats | None = None
        """Of the last call of `sample`."""

    @classmethod
    def create(cls, spec: EngineSpec) -> Engine:
        """One engine of all slots; with several blocks, one of a block's, in which they take
        turns."""
        if spec.config.threads:
            torch.set_num_threads(spec.config.threads)
        base = load_base(spec.base, device=spec.device, dtype=spec.dtype)
        base.check(spec.fingerprint)
        # On one GPU a call of everything is fastest; on a CPU, nothing is lost by turns.
        layout = BlockLayout.of(spec, "all" if base.device.type == "cuda" else "world")
        engine = cls(base, layout.largest, spec.config, spec.lora, spec.seed)
        if len(layout.sizes) < 2:
            return engine
        return BlockEngine(layout, [Inline(engine)], base)

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
        self._check_fits(requests)
        config = self.config
        device = _device("engine.max_num_seqs or engine.max_prefill_tokens")
        with self._cores(), device, torch.inference_mode():
            loop = DecodeLoop(
                self.forward,
                self.decode_batches,
                requests,
                sampling,
                self._max_num_seqs(requests),
                config.decode_steps_per_sync,
                config.max_prefill_tokens,
            )
            completions, self.generated = loop.run(on_finish)
        return completions

    def bare(self) -> "TorchEngine":
        return TorchEngine(self.loaded, 0, self.config)

    def accumulate(self, samples: Sequence[TrainSample], loss: Loss, kl: float = 0.0) -> TrainStats:
        self._check_slots(sample.slot for sample in samples)
        device = _device("engine.max_tokens_per_microbatch, or set engine.gradient_checkpointing")
        with self._cores(), device:
            return accumulate(
                self.forward,
                self._members(),
                samples,
                loss,
                kl,
                self.config.max_tokens_per_microbatch,
                self.config.share_prompts,
            )

    def step(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
        self._check_slots(slots)
        self._members()
        assert self.optimizer is not None
        with self._cores(), _device():
            return self.optimizer.step(slots)

    def new(self, slot: int, seed: int) -> None:
        self._check_slots([slot])
        self._members().reset(slot, seed)
        assert self.optimizer is not None
        self.optimizer.reset(slot)

    def read(self, slot: int) -> Adapter:
        with _device():
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
        base, files = self.loaded, list[Path]()
        place = str(base.model.config.name_or_path or base.name)
        for slot, name in names.items():
            adapter, own = self.read(slot), folder / "adapters" / name
            files += save_adapter(adapter, own, base=place, fingerprint=base.fingerprint)
            files.append(folder / "optimizer" / f"{name}.safetensors")
            files[-1].parent.mkdir(parents=True, exist_ok=True)
            save_file(self.read_optimizer(slot), files[-1])
            shutil.copymode(files[-2], files[-1])  # safetensors lets nobody else read it
        return [path.relative_to(folder) for path in files]

    def load(self, folder: Path, names: Mapping[int, str]) -> None:
        for slot, name in names.items():
            self.write(slot, load_adapter(folder / "adapters" / name), reset_optimizer=True)
            file = folder / "optimizer" / f"{name}.safetensors"
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

    @property
    def fill(self) -> float:
        return 1 - self.generated.idle_frac if self.generated else math.nan

    @property
    def memory_gb(self) -> float:
        device = self.loaded.device
        if device.type == "cuda":
            return torch.cuda.max_memory_allocated(device) / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9

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
        if self.population is None:
            return
        for slot in slots:
            if not 0 <= slot < self.slots:
                raise ConfigError(f"there is no slot {slot}: this engine has {self.slots}, from 0")

    def _max_num_seqs(self, requests: Sequence[SampleRequest]) -> int:
        """The setting; on a CPU no more than fit into a modest KV cache, but for a few."""
        device, most = self.loaded.device, self.config.max_num_seqs
        if device.type == "cuda":
            return most
        per_token = kv_bytes_per_token(self.forward.config, self.loaded.dtype.itemsize)
        fitting = _CPU_KV_CACHE_BYTES // (max_sequence_length(requests, device) * per_token)
        return min(most, max(_CPU_MIN_SEQS, fitting))

    def _check_fits(self, requests: Sequence[SampleRequest]) -> None:
        """Refuse what cannot fit before trying it."""
        device = self.loaded.device
        if device.type != "cuda":
            return
        length = max_sequence_length(requests, device)
        sequences = min(self.config.max_num_seqs, len(requests))
        per_token = kv_bytes_per_token(self.forward.config, self.loaded.dtype.itemsize)
        needed = sequences * length * per_token
        total = torch.cuda.mem_get_info(device)[1]
        if needed > 0.9 * total:
            raise ConfigError(
                f"{sequences} sequences of up to {length} tokens need {needed / 1e9:.0f} GB of KV "
                f"cache; the GPU has {total / 1e9:.0f} GB. "
                "Lower engine.max_num_seqs or the longest completion."
            )


def _describe(base: Base) -> BaseInfo:
    on_gpu = base.device.type == "cuda"
    return BaseInfo(
        name=base.name,
        fingerprint=base.fingerprint,
        parameters=base.parameters,
        dtype=str(base.dtype).removeprefix("torch."),
        device=str(base.device),
        hardware=torch.cuda.get_device_name(base.device)
        if on_gpu
        else f"CPU, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads",
        prompt_format=base.prompt_format,
        has_chat_template=bool(base.tokenizer.chat_template),
        context=getattr(base.model.config, "max_position_embeddings", None) or 1 << 30,
    )
