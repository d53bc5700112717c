"""A member's weights as one flat row: where the factors of each projection lie in it."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from redqueen.errors import ConfigError, unknown
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.models.base import Base


class Layout:
    def __init__(self, base: Base, rank: int, alpha: float, targets: Sequence[str] = ()) -> None:
        """For adapters on the linear layers of the decoder: all of them, or those with the given
        last names."""
        self.rank, self.alpha = rank, alpha
        self.linears = _find_linears(base, targets)
        self.places: dict[str, tuple[int, int, int]] = {}
        """By projection: where it begins in a row, and its sizes in and out."""
        self.size = 0
        for name, linear in self.linears.items():
            self.places[name] = self.size, linear.in_features, linear.out_features
            self.size += rank * (linear.in_features + linear.out_features)

    def views(self, matrix: Tensor, name: str) -> LoraPair:
        """A [rows, in, rank] and B [rows, rank, out] of a projection, in [rows, size]."""
        start, inside, outside = self.places[name]
        middle, end = start + inside * self.rank, start + self.rank * (inside + outside)
        return LoraPair(
            matrix[:, start:middle].unflatten(1, (inside, self.rank)),
            matrix[:, middle:end].unflatten(1, (self.rank, outside)),
        )

    def to_adapter(self, row: Tensor) -> Adapter:
        """From [size]."""
        projections = {}
        for name in self.places:
            a, b = self.views(row[None], name)
            projections[name] = LoraPair(a[0].clone(), b[0].clone())
        return Adapter(projections, self.rank, self.alpha)

    def to_row(self, adapter: Adapter) -> Tensor:
        """To [size]. An adapter with another alpha is rescaled."""
        if odd := sorted(set(adapter.projections) ^ set(self.places)):
            raise ConfigError(
                f"the adapter is not of this population: it differs in {', '.join(odd[:4])}"
                + (" ..." if len(odd) > 4 else "")
            )
        rescale = adapter.scale / (self.alpha / self.rank)
        row = torch.empty(self.size)
        for name, pair in adapter.projections.items():
            a, b = (view[0] for view in self.views(row[None], name))
            if (pair.a.shape, pair.b.shape) != (a.shape, b.shape):
                raise ConfigError(
                    f"the adapter's weights for {name} have the shapes {tuple(pair.a.shape)} and "
                    f"{tuple(pair.b.shape)}, expected {tuple(a.shape)} and {tuple(b.shape)}: "
                    "another base, or another rank"
                )
            a.copy_(pair.a)
            b.copy_(pair.b if rescale == 1 else pair.b * rescale)
        return row


def _find_linears(base: Base, targets: Sequence[str]) -> dict[str, nn.Linear]:
    head = base.model.get_output_embeddings()
    linears = {
        name: module
        for name, module in base.model.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    }
    last_names = {name.rpartition(".")[2] for name in linears}
    for target in targets:
        if target not in last_names:
            raise ConfigError(unknown("projection", target, last_names))
    return {
        name: linear
        for name, linear in linears.items()
        if not targets or name.rpartition(".")[2] in targets
    }
