"""What an engine has done, and where its seconds went."""

import math
from dataclasses import dataclass, fields, replace
from typing import Protocol, Self, runtime_checkable


@dataclass(slots=True)
class Usage:
    sampled_tokens: int = 0
    trained_tokens: int = 0
    sample_s: float = 0.0
    prefill_s: float = 0.0
    """Of the sampling seconds: computing prompts. On a GPU, as its own clock has it."""
    deliver_s: float = 0.0
    """Of the sampling seconds: handing over finished completions, and what is done with them."""
    filled_s: float = 0.0
    """Sampling seconds times the share of sequence slots that were busy."""
    train_s: float = 0.0
    micro_batches: int = 0
    out_of_memory: int = 0
    """Times that sampling went on with less at a time."""
    memory_gb: float = math.nan
    """The most at a time."""

    def add(self, other: "Usage") -> None:
        known = [gb for gb in (self.memory_gb, other.memory_gb) if not math.isnan(gb)]
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))
        self.memory_gb = max(known, default=math.nan)

    def take(self) -> Self:
        """All of it; nothing is left."""
        taken = replace(self)
        for part in fields(self):
            setattr(self, part.name, part.default)
        return taken

    def metrics(self) -> dict[str, float]:
        """By name. What an engine does not know is left out."""
        values: dict[str, float] = {}
        if self.sample_s:
            decode_s = self.sample_s - self.prefill_s - self.deliver_s
            values |= {
                "time/sample/prefill_s": self.prefill_s,
                "time/sample/decode_s": max(0.0, decode_s),
                "time/sample/deliver_s": self.deliver_s,
                "time/sample/fill": self.filled_s / self.sample_s,
                "time/sample/tokens_per_s": self.sampled_tokens / self.sample_s,
            }
        if self.train_s:
            values |= {
                "time/update/accumulate_s": self.train_s,
                "time/update/micro_batches": self.micro_batches,
                "time/update/tokens_per_s": self.trained_tokens / self.train_s,
            }
        if self.out_of_memory:
            values["time/sample/out_of_memory"] = self.out_of_memory
        return {name: float(value) for name, value in values.items() if not math.isnan(value)}


@runtime_checkable
class Measured(Protocol):
    """An engine that says where its time goes."""

    def metrics(self) -> dict[str, float]:
        """Since the last call of this, by names such as `time/sample/prefill_s`."""
        ...
