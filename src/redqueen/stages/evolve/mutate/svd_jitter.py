"""M1, svd_jitter: the singular values are scaled and the singular directions rotated a little
inside their own spaces. On Delta.

Known of the paper: S' = S exp(eps z), Cayley rotations of random skew matrices, eps 0.1. How the
skew matrix is scaled is not known; ours turns every direction by about `turn` radians whatever the
rank. Nil components of Delta stay nil, and the turning leaves them out on B's side.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class SvdJitter(OperatorSettings):
    """PopuLoRA (arXiv 2605.16727); Cayley 1846 for rotations from skew matrices."""

    type: str = "svd_jitter"
    eps: float = Field(default=0.1, ge=0)
    """Spread of the singular values' logarithms."""
    turn: float = Field(default=0.1, ge=0)
    """Angle, in radians, by which a singular direction turns, about."""


def svd_jitter(parent: "Stack", settings: SvdJitter, rng: "OperatorRng") -> "Stack":
    """Singular values are scaled, and singular directions rotated within their own spaces."""
    from redqueen.stages.evolve.lowrank import cayley_rotation

    svd = parent.svd()
    live = svd.live[:, :, None]
    values = svd.values * (settings.eps * rng.normal(parent.names, svd.values)).exp()
    left = cayley_rotation(rng.normal(parent.names, svd.span.gram_a), settings.turn)
    right = cayley_rotation(
        rng.normal(parent.names, svd.span.gram_a) * live * live.mT, settings.turn
    )
    return replace(
        svd, left=svd.left @ left, carried=values[:, :, None] * (right @ svd.right)
    ).child()
