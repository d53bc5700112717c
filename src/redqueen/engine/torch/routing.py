"""Which rows of a batch are served by which adapter slot."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from redqueen.engine.torch.population import Population

_MIN_BLOCK_TOKENS = 8
"""Smaller blocks are padded instead: copying their adapter costs more than the padding."""


def put(values: Tensor, device: torch.device) -> Tensor:
    """Copy to the device; to a GPU without waiting for what it is doing."""
    if device.type == "cuda":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


@dataclass(frozen=True, slots=True)
class Routing:
    """Rows of one slot stand together and are processed as blocks, [blocks, rows * tokens, n], each
    multiplied by its slot's adapter in one batched product."""

    slots: Tensor | None
    """[blocks]: the adapter slot of each. None if blocks map to consecutive slots from `first` on:
    weights are then sliced instead of gathered."""
    blocks: int
    first: int = 0
    index: Tensor | None = None
    """[blocks * largest block]: for blocks of different sizes, the row at each place; a short block
    repeats its last row. None if all are of one size."""
    places: Tensor | None = None
    """[rows]: the inverse, the place of each row."""
    owners: Tensor | None = None
    """If slots have several blocks each: the slots, each once."""
    sums: Tensor | None = None
    """With these, [owners, blocks]: 1 where a block belongs to the owner. A product with it adds up
    the gradients of each owner's blocks, always in the same order."""
    gathered: dict[int, Tensor] | None = None
    """A cache of gathered weights by data pointer, for passes between which no weight changes."""

    @staticmethod
    def of(slots: Sequence[int], population: "Population", tokens: int = 1) -> "Routing":
        """For rows of `tokens` tokens, given the slot of each."""
        runs = [(slot, len(list(run))) for slot, run in groupby(slots)]
        order, counts = [slot for slot, _ in runs], [count for _, count in runs]
        assert len(set(order)) == len(order), "rows of one slot must stand together"
        device, first = population.device, order[0]
        consecutive = order == list(range(first, first + len(order)))
        chosen = None if consecutive else put(torch.tensor(order), device)
        if len(set(counts)) == 1:
            return Routing(chosen, len(order), first)
        size = math.gcd(*counts)
        if size * tokens >= max(_MIN_BLOCK_TOKENS, population.rank):
            # Blocks of one size, several for slots with more rows: copies adapters, not rows.
            number = torch.tensor(
                [n for n, count in enumerate(counts) for _ in range(count // size)]
            )
            owners = torch.tensor(order)
            sums = torch.nn.functional.one_hot(number, len(order)).float().T.contiguous()
            return Routing(
                put(owners[number], device),
                len(number),
                owners=put(owners, device),
                sums=put(sums, device),
            )
        largest = max(counts)
        index, places, row = [], [], 0
        for block, count in enumerate(counts):
            index += [row + min(place, count - 1) for place in range(largest)]
            places += [block * largest + place for place in range(count)]
            row += count
        return Routing(
            chosen,
            len(order),
            first,
            put(torch.tensor(index), device),
            put(torch.tensor(places), device),
        )

    @staticmethod
    def of_runs(slots: Sequence[int]) -> "Routing":
        """For decoding on a CPU: equal blocks, with a cache of gathered weights. A slot may have
        several runs of rows."""
        runs = [(slot, len(list(run))) for slot, run in groupby(slots)]
        size = math.gcd(*(count for _, count in runs))
        owners = [slot for slot, count in runs for _ in range(count // size)]
        if owners == list(range(owners[0], owners[0] + len(owners))):
            return Routing(None, len(owners), owners[0])
        return Routing(torch.tensor(owners), len(owners), gathered={})

    def of_blocks(self, matrix: Tensor) -> Tensor:
        """From [slots, ...] to [blocks, ...]."""
        if self.slots is None:
            return matrix[self.first : self.first + self.blocks]
        if self.gathered is None:
            return matrix[self.slots]
        if matrix.data_ptr() not in self.gathered:
            self.gathered[matrix.data_ptr()] = matrix[self.slots]
        return self.gathered[matrix.data_ptr()]

    def add(self, matrix: Tensor, values: Tensor) -> None:
        """Add [blocks, ...] to [slots, ...]. No slot is added to twice in one operation, so that
        sums are deterministic on a GPU too."""
        owners = self.slots if self.owners is None else self.owners
        assert owners is not None
        values = values.float()
        if self.sums is not None:
            values = (self.sums @ values.flatten(1)).view(-1, *values.shape[1:])
        matrix.index_add_(0, owners, values)

    def gather(self, x: Tensor) -> Tensor:
        """From [rows, tokens, n] to [blocks, rows * tokens, n]."""
        if self.index is not None:
            x = x.index_select(0, self.index)
        return x.reshape(self.blocks, -1, x.shape[-1])

    def scatter(self, x: Tensor, tokens: int) -> Tensor:
        """The inverse of `gather`."""
        x = x.reshape(-1, tokens, x.shape[-1])
        return x if self.places is None else x.index_select(0, self.places)

    def mask_repeated(self, x: Tensor, tokens: int) -> Tensor:
        """[blocks, rows * tokens, n] with zeros where a short block repeats its last row."""
        if self.index is None or self.places is None:
            return x
        mask = torch.zeros(self.index.numel(), device=x.device, dtype=x.dtype)
        mask[self.places] = 1
        return x * mask.repeat_interleave(tokens).view(self.blocks, -1, 1)
