"""M5, neftune: uniform noise on A alone, of one size for all entries. On the raw factors.

The noise does not shrink with A: at the paper's constant it is larger than a newborn's A. Not in
the default mix.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class Neftune(OperatorSettings):
    """NEFTune, Jain et al. 2023 (arXiv 2310.05914), where the noise is on embeddings; as a
    mutation, PopuLoRA (arXiv 2605.16727)."""

    type: str = "neftune"
    noise_alpha: float = Field(default=10.0, ge=0)
    """NEFTune's alpha: entries of A move by at most this over the square root of A's number of
    entries."""


def neftune(parent: "Stack", settings: Neftune, rng: "OperatorRng") -> "Stack":
    """Uniform noise on A alone, of one size for all entries."""
    largest = settings.noise_alpha / parent.a[0].numel() ** 0.5
    return replace(
        parent,
        a=rng.uniform(parent.names, parent.a).mul_(2 * largest).sub_(largest).add_(parent.a),
        b=parent.b.clone(),
    )
