"""Settings of the engine, and the shape of the adapters."""

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, NonNegativeInt, PositiveInt

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


class Limits(NamedTuple):
    """How much is computed at a time, at the most."""

    max_num_seqs: int = 256
    max_prefill_tokens: int = 16_384
    max_tokens_per_microbatch: int = 8192


UNFITTED = Limits()
"""Where nothing is known of a GPU."""


class EngineConfig(Section):
    type: Annotated[str, name_from("engine")] = "torch"
    """Which engine: `torch` (one device), `processes` (one process a device of this machine), `ray`
    (one actor a GPU of many machines), or the import path of a class of your own."""
    block: Literal["auto", "world", "all"] | PositiveInt = "auto"
    """Slots that are computed together: those of a `world`, `all`, or so many. A slot's last bits
    depend on its block, and on nothing else of the run. auto: a world; all on one GPU."""
    workers: int = Field(default=0, ge=0)
    """Workers of `processes` and `ray`; no more than blocks. 0: one for each device, on a CPU one
    for as many cores as a worker has threads."""
    devices: tuple[NonNegativeInt, ...] = ()
    """GPUs for `processes`, by number; empty: all."""
    threads: int = Field(default=0, ge=0, le=1024)
    """Threads that compute a block on a CPU, which decides how sums are rounded. 0: torch's choice;
    1 in workers."""
    address: str = "local"
    """Of the Ray cluster: `local` starts one on this machine, `auto` joins the one it is in, or
    host:port."""
    hang_timeout_s: float = Field(default=900.0, gt=0)
    """A worker from which nothing has come for so long in a call is replaced."""
    max_num_seqs: Literal["auto"] | PositiveInt = UNFITTED.max_num_seqs
    """Sequences decoded at a time; the others wait. More is faster until memory is full. auto: what
    fits into the GPU, decided once for a run and kept in its ledger."""
    decode_steps_per_sync: int = Field(default=8, ge=1)
    """Tokens decoded between two checks for finished sequences."""
    max_prefill_tokens: Literal["auto"] | PositiveInt = UNFITTED.max_prefill_tokens
    """Prompt tokens in one prefill batch, or auto."""
    max_tokens_per_microbatch: Literal["auto"] | PositiveInt = UNFITTED.max_tokens_per_microbatch
    """Tokens in one training micro-batch, or auto."""
    share_prompts: bool = True
    """Compute a prompt once for all completions of it in training, too."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass instead of keeping them."""

    @property
    def limits(self) -> Limits:
        """With what holds without a GPU for those that are to fit by themselves."""
        given = {name: getattr(self, name) for name in Limits._fields}
        return UNFITTED._replace(**{name: n for name, n in given.items() if n != "auto"})

    @property
    def unfitted(self) -> list[str]:
        """The limits that are to fit by themselves."""
        return [name for name in Limits._fields if getattr(self, name) == "auto"]

    def with_limits(self, limits: Limits) -> "EngineConfig":
        """With these instead of `auto`."""
        return self.model_copy(update={name: getattr(limits, name) for name in self.unfitted})


def placement_defaults() -> dict[str, Any]:
    """Settings that say where blocks are computed, as they are by default."""
    names = ("type", "workers", "devices", "address", "hang_timeout_s")
    return {name: EngineConfig.model_fields[name].default for name in names}
