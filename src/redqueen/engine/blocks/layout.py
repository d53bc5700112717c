"""Which slots make up which block."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeVar

from redqueen.engine.protocol import EngineSpec
from redqueen.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a block is computed."""

    block: int
    first_slot: int
    slots: int
    worker: int
    """Its number."""
    host: str
    device: str
    """Type of the GPU or processor: different ones round differently."""


@dataclass(frozen=True)
class BlockLayout:
    sizes: tuple[int, ...]
    """Slots of each block; they stand one after another."""

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first slot of each block."""
        return (0, *accumulate(self.sizes[:-1]))

    @property
    def slots(self) -> int:
        return sum(self.sizes)

    @staticmethod
    def of(spec: EngineSpec, default: Literal["world", "all"] = "world") -> "BlockLayout":
        """As `engine.block` says; `default` is what `auto` means to an engine."""
        block = default if spec.config.block == "auto" else spec.config.block
        if block == "world":
            return BlockLayout(spec.worlds or (spec.slots,))
        size = spec.slots if block == "all" else block
        whole, rest = divmod(spec.slots, size) if size else (1, 0)
        return BlockLayout((size,) * whole + ((rest,) if rest else ()))

    @property
    def largest(self) -> int:
        return max(self.sizes)

    def find(self, slot: int) -> tuple[int, int]:
        """A slot's block, and its place there."""
        if not 0 <= slot < self.slots:
            raise ConfigError(f"there is no slot {slot}: this engine has {self.slots}, from 0")
        block = bisect_right(self.firsts, slot) - 1
        return block, slot - self.firsts[block]

    def split(self, items: Iterable[T], slot: Callable[[T], int]) -> dict[int, list[T]]:
        """Items by block, each block's in order."""
        blocks: dict[int, list[T]] = {}
        for item in items:
            blocks.setdefault(self.find(slot(item))[0], []).append(item)
        return dict(sorted(blocks.items()))

    def split_names(self, names: Mapping[int, str]) -> dict[int, dict[int, str]]:
        """Names of slots by block and place."""
        return {
            block: {slot - self.firsts[block]: names[slot] for slot in slots}
            for block, slots in self.split(names, lambda slot: slot).items()
        }
