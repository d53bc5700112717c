"""Projections that have their input in common, such as those of queries, keys and values: what can
be done once for all of them.

Without gradients A is applied once for all. On a GPU with Triton the base's weights of sisters are
views of one matrix, with A of every slot as more rows below them, so that the base and A are one
product for all sisters, and B is one kernel.
"""

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

if TYPE_CHECKING:
    from redqueen.engine.torch.adapter_kernels import Low, Seconds
    from redqueen.engine.torch.population import Population
    from redqueen.engine.torch.routing import Routing

_MOST_COLUMNS = 1024
"""So many columns more cost the base's product less than a launch would: A of all slots goes with
it, whatever slot a row has."""
_MOST_SISTERS = 3
_HIGHEST_RANK = 128
"""What the kernels' memory on the chip is enough for."""
_COUNTERS = 1024


def has_kernels(device: torch.device) -> bool:
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


class Sisters:
    """Projections that are applied to the same input, one after the other. What is found for one is
    kept for the others."""

    def __init__(
        self, population: "Population", names: Sequence[str], linears: Sequence[nn.Linear]
    ) -> None:
        self.population, self.names, self.rank = population, list(names), population.rank
        self.widths = [one.out_features for one in linears]
        self.columns, self.low_columns = sum(self.widths), len(names) * population.rank
        alike = len(names) <= _MOST_SISTERS and len({one.bias is None for one in linears}) == 1
        self.fused = has_kernels(population.device) and alike and self.rank <= _HIGHEST_RANK
        """Without gradients all of them are one product and one kernel."""
        firsts = torch.cat([population.views(population.used, name)[0] for name in self.names], 2)
        self.a = self._fuse(linears).copy_(firsts) if self.fused else firsts
        """A[slot, in, r of each sister]."""
        self.last: tuple[Tensor, Routing | None, Tensor | list[Tensor]] | None = None

    def _fuse(self, linears: Sequence[nn.Linear]) -> Tensor:
        """The base's weights move into one matrix and stay what they are. Returns the place for A
        in it."""
        like, slots = linears[0].weight.data, self.population.slots
        self.weight = like.new_zeros(self.columns + slots * self.low_columns, like.shape[1])
        self.bias = None if linears[0].bias is None else like.new_zeros(len(self.weight))
        end = 0
        for one in linears:
            start, end = end, end + one.out_features
            self.weight[start:end] = one.weight.data
            one.weight.data = self.weight[start:end]
            if self.bias is not None:
                self.bias[start:end] = one.bias.data
                one.bias.data = self.bias[start:end]
        self.counters = torch.zeros(_COUNTERS, dtype=torch.int32, device=like.device)
        """For the kernel of A, where several programs share a sum."""
        return self.weight[self.columns :].view(slots, self.low_columns, -1).transpose(1, 2)

    def refresh(self) -> None:
        """The weights have changed."""
        for number, name in enumerate(self.names):
            self.a[:, :, number * self.rank : (number + 1) * self.rank] = self.population.views(
                self.population.used, name
            )[0]

    def low(self, x: Tensor, routing: "Routing", number: int) -> Tensor:
        """The input, by blocks, after A of one of them."""
        if self._new(x, routing, number):
            # where A lies as rows of the matrix, it is gathered as such
            a = routing.of_blocks(self.a.mT).mT if self.fused else routing.of_blocks(self.a)
            self.last = x, routing, torch.bmm(routing.gather(x), a)
        low = self._kept(number)
        assert isinstance(low, Tensor)
        return low[:, :, number * self.rank : (number + 1) * self.rank]

    def serves(self, x: Tensor, routing: "Routing | None") -> bool:
        """Whether this pass goes through one product for all."""
        return (
            self.fused
            and not torch.is_grad_enabled()
            and x.dim() == 3
            and (routing is None or routing.index is None)
        )

    def value(self, x: Tensor, routing: "Routing | None", number: int) -> Tensor:
        """What one of them makes of [rows, tokens, in], where they are served together."""
        if self._new(x, routing, number):
            self.last = x, routing, self._values(x.flatten(0, 1), routing)
        return self._kept(number)[number].view(*x.shape[:2], -1)

    def _new(self, x: Tensor, routing: "Routing | None", number: int) -> bool:
        return (
            number == 0 or self.last is None or self.last[0] is not x or self.last[1] is not routing
        )

    def _kept(self, number: int) -> Tensor | list[Tensor]:
        assert self.last is not None
        found = self.last[2]
        if number == len(self.names) - 1:
            self.last = None
        return found

    def _values(self, x: Tensor, routing: "Routing | None") -> list[Tensor]:
        plain, low = self._products(x, routing)
        if routing is None or low is None:
            return list(plain.split(self.widths, 1))
        from redqueen.engine.torch.adapter_kernels import expand

        return expand(plain, low, self._seconds(), routing)

    def gated(self, x: Tensor, routing: "Routing | None") -> Tensor:
        """Of a gate and its sister: SiLU of the one times the other."""
        from redqueen.engine.torch.adapter_kernels import gated

        plain, low = self._products(x.flatten(0, 1), routing)
        return gated(plain, low, None if low is None else self._seconds(), routing).view(
            *x.shape[:2], -1
        )

    def _products(self, x: Tensor, routing: "Routing | None") -> "tuple[Tensor, Low | None]":
        """What the base makes of the rows for all sisters, and the rows after A."""
        if routing is None:
            return self._product(x, self.columns), None
        from redqueen.engine.torch.adapter_kernels import Low, shrink

        slots = (
            self.population.slots if routing.slots is not None else routing.first + routing.blocks
        )
        if slots * self.low_columns <= _MOST_COLUMNS:
            plain = self._product(x, self.columns + slots * self.low_columns)
            return plain, Low(plain[:, self.columns :], self.low_columns)
        return self._product(x, self.columns), Low(
            shrink(x.contiguous(), self.a.transpose(1, 2), routing, self.counters)
        )

    def _product(self, x: Tensor, columns: int) -> Tensor:
        return linear(x, self.weight[:columns], None if self.bias is None else self.bias[:columns])

    def _seconds(self) -> "Seconds":
        from redqueen.engine.torch.adapter_kernels import Seconds

        population = self.population
        starts = [
            start + inside * self.rank
            for start, inside, _ in (population.layout[name] for name in self.names)
        ]
        return Seconds(population.used, starts, self.widths, self.rank, population.scale)
