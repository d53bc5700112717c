"""What a child's weights have of its parents': by projection, and by singular direction."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from redqueen.models.adapter import Adapter, LoraPair

_NIL = 1e-6
_FROM_PARENT = 0.5
"""A singular direction is a parent's if that parent has at least this share of it."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Of one projection, with Delta = A B the update that an adapter adds to it."""

    projection: str
    size: float
    """Of the child's Delta: its Frobenius norm."""
    cosines: tuple[float, ...]
    """Between the Deltas of the child and of each parent."""
    weights: tuple[float, ...]
    """The child as a sum of its parents, by least squares."""
    explained: float
    """Share of the child's squared size that this sum has."""
    directions: tuple[int, ...]
    """Of the child's singular directions: how many each parent has, and last those of its own."""


def overlap(child: Adapter, parents: Sequence[Adapter]) -> list[Overlap]:
    """In the order of the projections."""
    return [
        _overlap(name, pair, [parent.projections[name] for parent in parents])
        for name, pair in child.projections.items()
    ]


def _overlap(name: str, child: LoraPair, parents: Sequence[LoraPair]) -> Overlap:
    products = torch.tensor([_product(child, parent) for parent in parents], dtype=torch.float64)
    gram = torch.tensor(
        [[_product(one, other) for other in parents] for one in parents], dtype=torch.float64
    )
    square = _product(child, child)
    sizes = gram.diagonal().clamp(min=0).sqrt()
    size = max(square, 0.0) ** 0.5
    cosines = products / (sizes * size).clamp(min=1e-300)
    weights = torch.linalg.pinv(gram, rtol=1e-9) @ products
    explained = float(weights @ products) / square if square > 0 else 0.0
    return Overlap(
        name,
        size,
        tuple(float(value) for value in cosines),
        tuple(float(value) for value in weights),
        min(1.0, max(0.0, explained)),
        _directions(child, parents),
    )


def _product(one: LoraPair, other: LoraPair) -> float:
    """Of two Deltas as vectors, without making either."""
    a = one.a.double().mT @ other.a.double()  # [rank, rank]
    b = one.b.double() @ other.b.double().mT
    return float((a * b).sum())


def _directions(child: LoraPair, parents: Sequence[LoraPair]) -> tuple[int, ...]:
    left, values, right = _svd(child)
    live = values > _NIL * values.max() if len(values) else values > 0
    shares = torch.stack([_shares(left, values, right, parent) for parent in parents])
    best, whose = shares[:, live].max(0)
    counts = [
        int(((whose == place) & (best >= _FROM_PARENT)).sum()) for place in range(len(parents))
    ]
    return (*counts, int(live.sum()) - sum(counts))


def _shares(left: Tensor, values: Tensor, right: Tensor, parent: LoraPair) -> Tensor:
    """Of each direction u s v the share that a parent has of it: u Delta v / s."""
    inner = (left.mT @ parent.a.double()) @ (parent.b.double() @ right.mT)
    return inner.diagonal() / values.clamp(min=1e-300)


def _svd(pair: LoraPair) -> tuple[Tensor, Tensor, Tensor]:
    """Of A B, through the triangles of its two factors."""
    q_a, r_a = torch.linalg.qr(pair.a.double())
    q_b, r_b = torch.linalg.qr(pair.b.double().mT)
    left, values, right = torch.linalg.svd(r_a @ r_b.mT)
    return q_a @ left, values, right @ q_b.mT
