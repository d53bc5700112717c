"""What `redqueen eval` is pointed at: a base, or an adapter on its base. Runs and members of runs will be further kinds of target.

Members sit side by side in the slots of one engine, so that all are asked in one call.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redqueen.engine.config import EngineConfig
from redqueen.engine.torch_engine import TorchEngine
from redqueen.errors import ConfigError
from redqueen.evaluate.attempts import Question
from redqueen.evaluate.suite import Style
from redqueen.model.base import Base, Dtype, load_base
from redqueen.model.peft_io import load_adapter
from redqueen.scribe import Ask, ModelScribe
from redqueen.streams import seed_for


@dataclass(frozen=True, slots=True)
class Target:
    """Members on one base, the first of which is the one in question."""

    base: Base
    engine: TorchEngine
    members: tuple[str, ...]

    @property
    def style(self) -> Style:
        """A model with a chat template is talked to; others continue a text, Pawn among them: its template only joins messages."""
        return "chat" if self.base.tokenizer.chat_template and self.base.pack == "chat" else "base"

    @property
    def batch(self) -> int:
        """As many as the engine takes at once; on a CPU fewer, for a kill loses a batch."""
        return self.engine.config.rows_in_flight if self.base.device.type == "cuda" else 32

    def replies(self, questions: Sequence[Question], temperature: float) -> list[tuple[str, bool]]:
        asks = [Ask(question.member, question.prompt, question.max_tokens, seed_for(0, *question.stream)) for question in questions]
        return [(written.text, written.writing.ended == "length") for written in ModelScribe(self.engine, self.base).write(asks, temperature)]


def is_adapter(source: str) -> bool:
    return (Path(source).expanduser() / "adapter_config.json").is_file()


def load_target(source: str, base: str | None, device: str, dtype: Dtype) -> Target:
    """A base by its name or place; a folder with adapter_config.json is an adapter, its base the one it names unless another is given."""
    if not is_adapter(source):
        loaded = load_base(source, device=device, dtype=dtype)
        return Target(loaded, TorchEngine(loaded), (loaded.name,))
    folder = Path(source).expanduser()
    try:
        config = json.loads((folder / "adapter_config.json").read_text())
        rank, alpha, targets = int(config["r"]), float(config["lora_alpha"]), config.get("target_modules") or []
        named = base or str(config["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder / 'adapter_config.json'} is not that of a LoRA adapter: {error}") from error
    if not isinstance(targets, list):
        raise ConfigError(f"{folder}: target_modules must be a list of names, such as q_proj; got {targets!r}")
    try:
        loaded = load_base(named, device=device, dtype=dtype)
    except ConfigError as error:
        hint = "" if base else "\nThe adapter names that base; give another place of it with --base."
        raise ConfigError(f"{error}{hint}") from error
    engine = TorchEngine(loaded, slots=2, config=EngineConfig(rank=rank, alpha=alpha, targets=tuple(targets)))
    assert engine.population is not None
    engine.write(0, load_adapter(engine.population, folder), reset_optimizer=False)  # slot 1 is as born: B is zero, so it is the base
    return Target(loaded, engine, (folder.name, f"base of {folder.name}"))
