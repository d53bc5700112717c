"""Settings of the engine, and the shape of the adapters."""

from typing import Annotated

from pydantic import Field

from redqueen.config.registry import name_from
from redqueen.config.section import Section


class LoraConfig(Section):
    rank: int = Field(default=8, ge=1)
    """Rank of the adapters."""
    alpha: float = Field(default=16.0, gt=0)
    """Scale of the adapters: their output is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ()
    """Last names of the projections to adapt, such as q_proj; empty: all linear layers of the
    decoder."""


class EngineConfig(Section):
    type: Annotated[str, name_from("engine")] = "torch"
    """Which engine: `torch`, or the import path of a class of your own."""
    max_num_seqs: int = Field(default=256, ge=1)
    """Sequences decoded at a time; the others wait. More is faster until memory is full."""
    decode_steps_per_sync: int = Field(default=8, ge=1)
    """Tokens decoded between two checks for finished sequences."""
    max_prefill_tokens: int = Field(default=16_384, ge=1)
    """Prompt tokens in one prefill batch."""
    max_tokens_per_microbatch: int = Field(default=8192, ge=1)
    """Tokens in one training micro-batch."""
    share_prompts: bool = True
    """Compute a prompt once for all completions of it in training, too."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass instead of keeping them."""
