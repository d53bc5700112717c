"""Settings of the engine."""

from pydantic import Field

from redqueen.config.section import Section


class EngineConfig(Section):
    rank: int = Field(default=8, ge=1)
    """Rank of the adapters."""
    alpha: float = Field(default=16.0, gt=0)
    """Strength of the adapters: what they add is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ()
    """Last names of the projections to adapt, such as q_proj; empty: all linear layers of the
    decoder."""
    rows_in_flight: int = Field(default=256, ge=1)
    """Rows that are sampled side by side; others wait. More is faster until memory is full."""
    steps_between_looks: int = Field(default=8, ge=1)
    """Tokens written between two looks at which rows have ended."""
    prefill_tokens: int = Field(default=16_384, ge=1)
    """Prompt tokens that go through the model together."""
    train_tokens: int = Field(default=8192, ge=1)
    """Tokens that are trained on together; more micro-batches follow until all rows are done."""
    share_prompts: bool = True
    """Compute a prompt once for all completions of it in training, too."""
    gradient_checkpointing: bool = False
    """Keep less in memory in training, and compute it twice."""
