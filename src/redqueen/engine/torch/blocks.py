"""Lanes in blocks of one slot each: how many a slot begins with, and who takes over a block that
its slot has no more use for.

On a GPU a block's slot is a number in a tensor that recorded steps read, so that it can change
between two steps at no cost. On a CPU the weights of each block are copied once for as long as no
block changes hands.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

_SMALLEST, _LARGEST = 8, 64
_EACH = 4
"""Blocks that a slot should have: a block changes hands only when all of its lanes are free, or
their rows have room in others."""


def block_size(slots: int, lanes: int) -> int:
    """Lanes of a block: large ones are served faster, small ones change hands sooner."""
    size = _SMALLEST
    while size < _LARGEST and lanes >= 2 * size * _EACH * slots:
        size *= 2
    return size


def deal(rows: Mapping[int, int], lanes: int, size: int) -> list[int]:
    """The slot of each block, by how many rows every slot has. Their number is a power of two: few
    sorts of decoders serve all calls."""
    wanted = sum(-(-count // size) for count in rows.values())
    room = max(1, lanes // size)
    blocks = min(_power(wanted), 1 << (room.bit_length() - 1))
    given = dict.fromkeys(rows, 0)
    # first one for everybody; then who has the most rows for each block it would have is next
    everything = sum(rows.values())
    waiting: list[tuple[float, int]] = [(-everything - count, slot) for slot, count in rows.items()]
    heapq.heapify(waiting)
    for _ in range(blocks):
        _, slot = waiting[0]
        given[slot] += 1
        heapq.heapreplace(waiting, (-rows[slot] / (given[slot] + 1), slot))
    return [slot for slot, count in given.items() for _ in range(count)]


def evenly(rows: Mapping[int, int], lanes: int) -> tuple[int, int]:
    """As many lanes for every slot, which a CPU serves faster; and how many change hands together,
    0 where nobody waits or too many would be lost."""
    size, most = block_size(len(rows), lanes), max(rows.values())
    each = min(most, max(1, lanes // len(rows)))
    whole = each // size * size
    return (
        (each, 0)
        if len(rows) == 1 or each == most or whole < max(2 * size, 0.9 * each)
        else (whole, size)
    )


def packed(rows: Mapping[int, int], size: int) -> list[int]:
    """The slot of each block, so that all rows have a lane: as few blocks as go, and a power of
    two."""
    blocks = [slot for slot, count in rows.items() for _ in range(-(-count // size))]
    return blocks + blocks[-1:] * (_power(len(blocks)) - len(blocks))


def emptiest(
    slots: Sequence[int], rows: Sequence[int], size: int, idle: Collection[int]
) -> list[int]:
    """Blocks that idle slots can do without, given how many rows each block has: those with the
    fewest, as many as others have room for."""
    found = []
    for slot in idle:
        own = sorted(
            (block for block, owner in enumerate(slots) if owner == slot),
            key=lambda block: (rows[block], block),
        )
        found += own[: sum(size - rows[block] for block in own) // size]
    return found


def handed_over(
    slots: Sequence[int], idle: Sequence[int], waiting: Mapping[int, int], size: int
) -> dict[int, int]:
    """Which of the idle blocks goes to which slot: to those that have the most waiting rows for
    each lane, a block for so many rows at most."""
    blocks = Counter(slots)
    lanes = {slot: size * blocks[slot] for slot in waiting}
    left = {slot: count for slot, count in waiting.items() if count > 0}
    found: dict[int, int] = {}
    for block in idle:
        if not left:
            break
        slot = max(left, key=lambda slot: (left[slot] / (lanes[slot] + size), -slot))
        found[block] = slot
        lanes[slot] += size
        left[slot] -= size
        if left[slot] <= 0:
            del left[slot]
    return found


def _power(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()
