"""How far adapters are apart in weight space."""

from collections.abc import Iterable, Sequence
from functools import reduce

import torch
from torch import Tensor

from redqueen.models.adapter import Adapter, LoraPair


def adapter_distances(adapters: Sequence[Adapter]) -> list[list[float]]:
    """[adapters][adapters]: Frobenius distances between their updates scale * A B."""
    pairs = (
        LoraPair(
            torch.stack([adapter.projections[name].a for adapter in adapters]),
            torch.stack([adapter.projections[name].b for adapter in adapters]),
        )
        for name in adapters[0].projections
    )
    distances: list[list[float]] = update_distances(pairs, adapters[0].scale).tolist()
    return distances


def update_distances(projections: Iterable[LoraPair], scale: float) -> Tensor:
    """[slots, slots], from A [slots, in, rank] and B [slots, rank, out] of every projection. The
    products are never formed: <A B, C D> is the sum over (A^T C) * (B D^T), which are as small as
    the rank."""
    inner = reduce(torch.add, (_inner(a, b) for a, b in projections)) * scale**2
    norms = inner.diagonal()
    return (norms[:, None] + norms[None, :] - 2 * inner).clamp(min=0).sqrt()


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """[slots, slots]: <A_p B_p, A_q B_q> for all p and q, in float64."""
    slots, inside, rank = a.shape
    a = a.transpose(0, 1).reshape(inside, slots * rank)
    b = b.reshape(slots * rank, -1)
    product = (a.T @ a) * (b @ b.T)
    return product.view(slots, rank, slots, rank).sum((1, 3), dtype=torch.float64)
