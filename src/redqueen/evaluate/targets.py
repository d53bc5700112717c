"""What `redqueen eval` is pointed at: a base, an adapter on its base, or members of a run on
theirs.

Members sit side by side in the slots of one engine, so that all are asked in one call. Where there
are any, the base is one of them: a member as it is born, which adds nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.benchmarks.suite import Style
from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.core.run import ENGINE_FILE
from redqueen.engine.protocol import BaseInfo
from redqueen.engine.text_sampler import EngineTextSampler, TextCompletion, TextRequest
from redqueen.engine.torch.cache import kv_bytes_per_token
from redqueen.engine.torch.engine import TorchEngine
from redqueen.errors import ConfigError, DataError
from redqueen.evaluate.attempts import Question, Receive
from redqueen.evaluate.chosen import Chosen
from redqueen.ledger.durable import checksum
from redqueen.models.base import Base, Dtype, load_base
from redqueen.models.peft_io import base_of, load_adapter
from redqueen.rng import seed_for

if TYPE_CHECKING:
    from torch import Tensor

_ROWS_ON_A_CPU = 32
"""Rows side by side where nobody has set a number: memory for more could be missing, but for a
small model."""
_KEYS_ON_A_CPU = 2 * 2**30
"""Bytes that the keys and values of a small model's rows may take."""


def style_of(base: BaseInfo) -> Style:
    """A model with a chat template is talked to; others continue a text, Pawn among them: its
    template only joins messages."""
    return "chat" if base.has_chat_template and base.prompt_format == "chat" else "base"


@dataclass(frozen=True, slots=True)
class Target:
    """Members on one base, the first of which is the one in question where there are not more than
    two; the last is the base."""

    base: Base
    engine: TorchEngine
    members: tuple[str, ...]
    chosen: Chosen | None = None
    """Where they come from, if from a run."""
    adapter: str = ""
    """The checksum of an adapter's weights, where it is one."""

    @property
    def name(self) -> str:
        return self.chosen.name if self.chosen else self.members[0]

    @property
    def is_base(self) -> bool:
        """A base alone."""
        return len(self.members) == 1

    @property
    def is_population(self) -> bool:
        return self.chosen is not None and len(self.chosen.candidates) > 1

    @property
    def of(self) -> str:
        """What tells these members from others of the same names."""
        of = (
            f"{self.chosen.folder.resolve().name} of {self.chosen.created}, step {self.chosen.step}"
            if self.chosen
            else self.adapter
        )
        return f"{of} on {self.base.fingerprint}" if of else self.base.fingerprint

    @property
    def device(self) -> str:
        return self.base.device.type

    def reply(self, questions: Sequence[Question], temperature: float, receive: Receive) -> None:
        asks = [
            TextRequest(
                question.member,
                question.prompt,
                question.max_tokens,
                seed_for(0, *question.stream),
                item=number,
            )
            for number, question in enumerate(questions)
        ]

        def ended(some: Sequence[TextCompletion]) -> None:
            receive(
                [
                    (one.request.item, (one.text, one.rollout.finish_reason == "length"))
                    for one in some
                ]
            )

        engine = self.engine
        sampler = EngineTextSampler(engine, engine.tokenizer, engine.base.context)
        sampler.sample(asks, temperature, ended)


def is_adapter(source: str) -> bool:
    return (Path(source).expanduser() / "adapter_config.json").is_file()


def load_target(source: str, base: str | None, device: str, dtype: Dtype) -> Target:
    """A base by its name or place; a folder with adapter_config.json is an adapter, its base the
    one it names unless another is given."""
    if not is_adapter(source):
        loaded = load_base(source, device=device, dtype=dtype)
        return Target(
            loaded,
            TorchEngine(loaded, 0, EngineConfig(max_num_seqs=_rows(loaded))),
            (loaded.name,),
        )
    folder = Path(source).expanduser()
    adapter = load_adapter(folder)
    named, fingerprint = base_of(folder)
    loaded = _load(
        base or named,
        device,
        dtype,
        "" if base else "The adapter names that base; give another place of it with --base.",
    )
    loaded.check(fingerprint)
    engine = TorchEngine(
        loaded,
        2,
        EngineConfig(max_num_seqs=_rows(loaded)),
        LoraConfig(rank=adapter.rank, alpha=adapter.alpha, targets=adapter.targets),
    )
    # slot 1 is as created: B is zero, so it is the base
    engine.write(0, adapter, reset_optimizer=False)
    return Target(
        loaded,
        engine,
        (folder.name, f"base of {folder.name}"),
        adapter=checksum(folder / "adapter_model.safetensors"),
    )


def load_members(chosen: Chosen, base: str | None, device: str, dtype: Dtype) -> Target:
    """The chosen members in the first slots, and the base in the last one. Their weights are read
    first: a run that goes on lets old checkpoints go."""
    config = chosen.config
    weights = _read_rows(chosen)
    hint = "" if base else "The run was played on that base; give another place of it with --base."
    loaded = _load(base or config.base, device, config.dtype if dtype == "auto" else dtype, hint)
    loaded.check(chosen.weights)
    engine = TorchEngine(
        loaded,
        len(weights) + 1,
        config.engine.model_copy(update={"gradient_checkpointing": False}),
        config.lora,
    )
    assert engine.population is not None
    if weights.shape[1] != engine.parameters_each:
        raise DataError(
            f"the weights in {chosen.checkpoint.folder} are not of the base '{loaded.name}' with rank {config.lora.rank}"
        )
    engine.population.weights[: len(weights)] = weights.to(engine.population.device)
    engine.population.changed()
    return Target(loaded, engine, (*(one.name for one in chosen.candidates), "base"), chosen)


def _read_rows(chosen: Chosen) -> "Tensor":
    """The chosen members' rows of the engine's file, and no others."""
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(chosen.checkpoint.folder / ENGINE_FILE, framework="pt") as file:
            rows = file.get_slice("weights")
            return torch.cat(
                [rows[one.saved.slot : one.saved.slot + 1] for one in chosen.candidates]
            )
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"{chosen.checkpoint.folder} cannot be read: {error}. If the run goes on, a newer checkpoint is there now: try again."
        ) from error


def _load(named: str, device: str, dtype: Dtype, hint: str) -> Base:
    try:
        return load_base(named, device=device, dtype=dtype)
    except ConfigError as error:
        raise ConfigError(f"{error}\n{hint}".rstrip()) from error


def _rows(base: Base) -> int:
    """As many as memory is sure to hold, but on a CPU never less than some."""
    most = EngineConfig().max_num_seqs
    if base.device.type == "cuda":
        return most
    config: Any = base.model.config
    length = getattr(config, "max_position_embeddings", None) or 1 << 30
    return max(
        _ROWS_ON_A_CPU,
        min(most, _KEYS_ON_A_CPU // (length * kv_bytes_per_token(config, base.dtype.itemsize))),
    )
