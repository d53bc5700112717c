"""slerp: half way (or any way) along the arc between both Deltas, projection by projection. On
Delta.

Directions go along the arc, lengths along the line. Where there is no arc (parallel, opposite, or a
parent that is zero) the mean is linear.
"""

from typing import TYPE_CHECKING

from pydantic import Field

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


_NO_ARC = 1e-4
"""Sine of an angle at which the arc and the line are the same to float32."""


class Slerp(OperatorSettings):
    """Shoemake 1985, Animating rotation with quaternion curves."""

    type: str = "slerp"
    share: float = Field(default=0.5, ge=0, le=1)
    """How far to go from the first parent to the second."""


def slerp(first: "Stack", second: "Stack", settings: Slerp, rng: "OperatorRng") -> "Stack":
    """A point on the arc between both parents, projection by projection."""
    from redqueen.stages.evolve.lowrank import Span

    span, share = Span(first, second), settings.share
    products = span.inner_products()
    one, other = products[:, 0, 0].sqrt(), products[:, 1, 1].sqrt()
    cosine = (products[:, 0, 1] / (one * other)).nan_to_num(1.0).clamp(-1, 1)
    angle, sine = cosine.acos(), (1 - cosine.square()).sqrt()
    length = (1 - share) * one + share * other
    straight = (sine < _NO_ARC) | (one * other == 0)
    weights = [
        (length * (part * angle).sin() / (sine * norm))
        .nan_to_num()
        .where(~straight, angle.new_tensor(part))
        for part, norm in ((1 - share, one), (share, other))
    ]
    return span.svd(span.weighted(*weights)).child()
