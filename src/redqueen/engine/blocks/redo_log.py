"""How a block is got back: what the last checkpoint holds, and the calls since then that have
changed it, a few megabytes of samples. Made again in their order, they give the same bits.

It belongs to blocks, not to workers: a block that moves to another worker takes the same way as one
whose worker has died.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from redqueen.engine.blocks.worker import Call

Names = Mapping[int, Mapping[int, str]]
"""Names of members by block and place."""


class RedoLog:
    def __init__(self) -> None:
        self.bytes = 0
        """Of arrays that calls carry."""
        self._loads: dict[int, Call] = {}
        self._calls: dict[int, list[Call]] = {}

    def add(self, block: int, call: Call) -> None:
        self._calls.setdefault(block, []).append(call)
        self.bytes += count_bytes(call.arguments)

    def checkpointed(self, folder: Path, names: Names) -> None:
        """What was done until now is in this folder."""
        self._loads = {block: Call("load", (folder, own)) for block, own in names.items() if own}
        self._calls.clear()
        self.bytes = 0

    def restoring(self, block: int) -> list[Call]:
        """What brings a worker that knows nothing of the block to where it is."""
        load = [self._loads[block]] if block in self._loads else []
        return [Call("forget"), *load, *self._calls.get(block, ())]


def count_bytes(value: Any) -> int:
    """Of all arrays in it."""
    if (size := getattr(value, "nbytes", None)) is not None:
        return int(size)
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, (tuple, list)):
        parts = value
    elif is_dataclass(value):
        parts = (getattr(value, field.name) for field in fields(value))
    return sum(map(count_bytes, parts))
