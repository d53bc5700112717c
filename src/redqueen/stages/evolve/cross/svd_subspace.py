"""X3, svd_subspace: the leading singular triples of the first parent, and triples of the second in
the places that are left. On Delta.

Whether the second gives its leading triples or those of the same places is not clear from the
paper. By default the latter: then a parent crossed with itself is itself.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class SvdSubspace(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727)."""

    type: str = "svd_subspace"
    leading: int = Field(default=0, ge=0)
    """Triples of the first parent; 0: drawn for each child, from 1 to rank - 1."""
    rest: Literal["tail", "leading"] = "tail"
    """Which triples of the second parent follow: those of the same places, or its strongest."""


def svd_subspace(
    first: "Stack", second: "Stack", settings: SvdSubspace, rng: "OperatorRng"
) -> "Stack":
    """The leading singular triples of the fitter parent, the other places from the second."""
    from redqueen.stages.evolve.lowrank import side_by_side

    rank = first.rank
    count = min(settings.leading or 1 + int(rng.once("svd_subspace") * (rank - 1)), rank)
    start = count if settings.rest == "tail" else 0
    return side_by_side(
        first.svd().part(0, count).child(), second.svd().part(start, start + rank - count).child()
    )
