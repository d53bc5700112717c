"""Random numbers for operators: every projection has a stream of its own, so that its numbers do
not depend on the other projections, on how they are stacked, or on the device.

They are generated on the CPU, by as many threads as are useful, and moved to the factors.
"""

import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch
from torch import Tensor

from redqueen.rng import seed_for, stream

_LOWEST = -(2**63)
_WORTH_THREADS = 2**16


@cache
def _threads() -> ThreadPoolExecutor:
    """Shared by all children."""
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1), "redqueen-random")


class OperatorRng:
    """The random numbers of one child."""

    def __init__(self, seed: int, names: Sequence[str]) -> None:
        self.seed, self.names = seed, tuple(names)
        self._generators: dict[str, torch.Generator] = {}

    def once(self, label: str) -> float:
        """A number between 0 and 1 for the whole child; the same whenever it is asked for."""
        return stream(self.seed, "once", label).random()

    def chosen(self, label: str, frac: float) -> frozenset[str]:
        """A share of all projections, at least one unless the share is zero; the same whenever it
        is asked for."""
        count = max(1, round(frac * len(self.names))) if frac > 0 else 0
        rng: random.Random = stream(self.seed, "chosen", label)
        return frozenset(rng.sample(sorted(self.names), count))

    def normal(self, names: Sequence[str], like: Tensor) -> Tensor:
        """Standard normal numbers for a stack [n, ...] of these projections."""
        numbers = torch.empty(like.shape)
        self._fill(
            names,
            numbers.numel(),
            lambda place, generator: numbers[place].normal_(generator=generator),
        )
        return numbers.to(like.device, like.dtype)

    def uniform(self, names: Sequence[str], like: Tensor) -> Tensor:
        """Numbers between 0 and 1, in steps of 2^-16: masks need no finer ones, and four come from
        one draw."""
        each = like[0].numel()
        words = torch.empty(len(names), -(-each // 4), dtype=torch.int64)
        self._fill(
            names,
            words.numel(),
            lambda place, generator: words[place].random_(_LOWEST, None, generator=generator),
        )
        sixteen = words.view(torch.int16)[:, :each].to(like.device)
        return sixteen.to(like.dtype).add_(2**15 + 0.5).mul_(2**-16).view(like.shape)

    def _fill(
        self, names: Sequence[str], entries: int, fill: Callable[[int, torch.Generator], object]
    ) -> None:
        generators = [
            self._generators.setdefault(
                name, torch.Generator().manual_seed(seed_for(self.seed, "projection", name))
            )
            for name in names
        ]
        # where there is little to draw, threads cost more than they save
        list(
            (_threads().map if entries > _WORTH_THREADS else map)(
                fill, range(len(names)), generators
            )
        )
