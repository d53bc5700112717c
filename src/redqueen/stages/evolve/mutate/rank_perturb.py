"""M6, rank_perturb: the weakest components are drawn anew, in random directions of the whole space,
at the strength they had. On Delta.

Only the name is known of the paper's operator; this rule is ours. It costs the parent next to
nothing and opens a direction that its A does not have. Not in the default mix.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class RankPerturb(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727), by name; the rule is ours."""

    type: str = "rank_perturb"
    components: int = Field(default=1, ge=0)
    """How many of the weakest are drawn anew, in each projection; at most the rank."""


def rank_perturb(parent: "Stack", settings: RankPerturb, rng: "OperatorRng") -> "Stack":
    """The weakest components are replaced by random directions, as strong as before."""
    svd, kept = parent.svd(), max(0, parent.rank - settings.components)
    child, size = svd.child(), svd.span.size.to(parent.a)
    strength = svd.values[:, kept:].to(parent.a) / size[:, 0]
    inward, outward = (
        rng.normal(parent.names, child.a[:, :, kept:]),
        rng.normal(parent.names, child.b[:, kept:]),
    )
    child.a[:, :, kept:] = inward * size / inward.norm(dim=1, keepdim=True)
    child.b[:, kept:] = outward * strength[:, :, None] / outward.norm(dim=2, keepdim=True)
    return child
