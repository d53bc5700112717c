"""The engine on torch: samples from and trains a population of adapters on one base, on a CPU or a
GPU."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import (
    Completion,
    OnFinish,
    SampleRequest,
    SamplingParams,
    TrainSample,
    TrainSettings,
    TrainStats,
)
from redqueen.engine.torch.cache import kv_bytes_per_token
from redqueen.engine.torch.decode_batch import DecodeBatchPool
from redqueen.engine.torch.decode_loop import DecodeLoop, SampleStats, max_sequence_length
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.learner import train
from redqueen.engine.torch.optimizer import PopulationAdamW
from redqueen.engine.torch.population import Adapter, Population
from redqueen.errors import ConfigError
from redqueen.models.base import Base


@contextmanager
def _memory(setting: str) -> Iterator[None]:
    """Within: where the GPU's memory ends, the error says which setting to lower."""
    try:
        yield
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
            f"this batch does not fit into the GPU's memory ({used:.0f} GB were in use{held}). Lower {setting}."
        ) from error


class TorchEngine:
    """A base with so many slots for members; with none, the bare base, which can be sampled from
    but not trained."""

    def __init__(
        self,
        base: Base,
        slots: int = 0,
        config: EngineConfig | None = None,
        lora: LoraConfig | None = None,
        seed: int = 0,
    ) -> None:
        self.base, self.config = base, config or EngineConfig()
        self.lora = lora or LoraConfig()
        self.population = (
            Population(base, slots, self.lora.rank, self.lora.alpha, self.lora.targets, seed)
            if slots
            else None
        )
        self.optimizer = PopulationAdamW(self.population) if self.population else None
        self.forward = Forward(base, self.population)
        self.decode_batches = DecodeBatchPool(self.forward)
        if self.config.gradient_checkpointing:
            base.model.gradient_checkpointing_enable({"use_reentrant": False})
            # transformers looks at this; the models it loads here have no dropout
            base.model.train()
        self.generated: SampleStats | None = None
        """Of the last call of `generate`."""

    @property
    def slots(self) -> int:
        return 0 if self.population is None else self.population.slots

    @property
    def parameters_each(self) -> int:
        """Weights of one member."""
        return 0 if self.population is None else self.population.parameters_each

    def generate(
        self,
        rows: Sequence[SampleRequest],
        sampling: SamplingParams,
        on_finish: OnFinish = lambda found: None,
    ) -> list[Completion]:
        """One completion for each row, in order. Now and then `ended` is told which rows have come
        to their end."""
        if not rows:
            return []
        self._check_slots(row.slot for row in rows)
        self._check_fits(rows)
        config = self.config
        with _memory("engine.max_num_seqs or engine.max_prefill_tokens"), torch.inference_mode():
            loop = DecodeLoop(
                self.forward,
                self.decode_batches,
                rows,
                sampling,
                config.max_num_seqs,
                config.decode_steps_per_sync,
                config.max_prefill_tokens,
            )
            completions, self.generated = loop.run(on_finish)
        return completions

    def train(self, rows: Sequence[TrainSample], settings: TrainSettings) -> TrainStats:
        """Optimizer steps for every slot that has rows."""
        if self.optimizer is None:
            raise ConfigError("this engine has no members to train: make it with slots")
        self._check_slots(row.slot for row in rows)
        with _memory("engine.max_tokens_per_microbatch, or set engine.gradient_checkpointing"):
            return train(
                self.forward,
                self.optimizer,
                rows,
                settings,
                self.config.max_tokens_per_microbatch,
                self.config.share_prompts,
            )

    def read(self, slot: int) -> Adapter:
        return self._members().read(slot)

    def write(self, slot: int, weights: Adapter, *, reset_optimizer: bool) -> None:
        self._members().write(slot, weights)
        if reset_optimizer and self.optimizer is not None:
            self.optimizer.reset(slot)

    def state(self) -> dict[str, Tensor]:
        """All that a resume needs, to the bit."""
        members = self._members()
        assert self.optimizer is not None
        return {
            "weights": members.weights.cpu().clone(),
            **{name: value.cpu().clone() for name, value in self.optimizer.state().items()},
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        members = self._members()
        assert self.optimizer is not None
        own = {"weights": members.weights, **self.optimizer.state()}
        for name, value in own.items():
            if name not in state or state[name].shape != value.shape:
                raise ConfigError(
                    f"the saved state does not fit this engine: '{name}' differs (another base, rank or number of slots)"
                )
            value.copy_(state[name])
        members.changed()

    def save(self, path: Path) -> None:
        """The state as a file."""
        save_file(self.state(), path)

    def load(self, path: Path) -> None:
        self.restore(load_file(path))

    def save_weights(self, path: Path) -> None:
        """All members' weights, without what only training needs."""
        save_file({"weights": self._members().weights.cpu()}, path)

    def load_weights(self, path: Path) -> None:
        weights, members = load_file(path)["weights"], self._members()
        if weights.shape != members.weights.shape:
            raise ConfigError(
                f"{path} does not fit this engine: another base, rank or number of slots"
            )
        members.weights.copy_(weights)
        members.changed()

    def newborn(self, slot: int, seed: int) -> None:
        """A new member takes the slot: it is the base, until it learns."""
        self._members().reset(slot, seed)
        assert self.optimizer is not None
        self.optimizer.reset(slot)

    def distances(self, first: int, count: int) -> list[list[float]]:
        """How far the members in so many slots from the first one on are apart, as products B A."""
        return self._members().distances(first, count).tolist()

    def _members(self) -> Population:
        if self.population is None:
            raise ConfigError("this engine has no members: make it with slots")
        return self.population

    def _check_slots(self, slots: Iterable[int]) -> None:
        top = max(self.slots, 1)
        for slot in slots:
            if not 0 <= slot < top:
                raise ConfigError(f"there is no slot {slot}: this engine has {self.slots}, from 0")

    def _check_fits(self, rows: Sequence[SampleRequest]) -> None:
        """Refuse what cannot fit, before it is tried. What is done never depends on it."""
        if self.base.device.type != "cuda":
            return
        length = max_sequence_length(rows, self.base.device)
        sequences = min(self.config.max_num_seqs, len(rows))
        each = length * kv_bytes_per_token(self.forward.config, self.base.dtype.itemsize)
        needed = sequences * each
        total = torch.cuda.mem_get_info(self.base.device)[1]
        if needed > 0.9 * total:
            raise ConfigError(
                f"{sequences} sequences of up to {length} tokens need {needed / 1e9:.0f} GB of KV cache; "
                f"the GPU has {total / 1e9:.0f} GB. "
                "Lower engine.max_num_seqs or the longest completion."
            )
