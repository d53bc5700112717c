"""Assigns sequence slots to adapters in blocks, and reassigns blocks whose adapter has no requests
left.

On a GPU the adapter of a block is a number in a tensor that CUDA graphs read, so it can change
between two steps at no cost. On a CPU the weights of each block are copied once, and again after
a reassignment.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

_MIN_BLOCK, _MAX_BLOCK = 8, 64
_BLOCKS_PER_ADAPTER = 4
"""What `block_size` aims at: a block can be reassigned only once its sequences have ended or fit
into the adapter's other blocks, so an adapter needs several."""


def block_size(adapters: int, seq_slots: int) -> int:
    """Sequence slots in a block: large blocks are faster to serve, small ones are free sooner."""
    size = _MIN_BLOCK
    while size < _MAX_BLOCK and seq_slots >= 2 * size * _BLOCKS_PER_ADAPTER * adapters:
        size *= 2
    return size


def allocate_blocks(requests: Mapping[int, int], seq_slots: int, size: int) -> list[int]:
    """The adapter of each block, in proportion to the number of requests of every adapter.

    The number of blocks is a power of two, so that few shapes of decode batches serve all calls.
    """
    needed = sum(-(-count // size) for count in requests.values())
    available = max(1, seq_slots // size)
    blocks = min(_next_power_of_two(needed), 1 << (available.bit_length() - 1))
    allocated = dict.fromkeys(requests, 0)
    # One block for every adapter first; then the next goes to the adapter that would have the most
    # requests per block.
    total = sum(requests.values())
    heap: list[tuple[float, int]] = [
        (-total - count, adapter) for adapter, count in requests.items()
    ]
    heapq.heapify(heap)
    for _ in range(blocks):
        _, adapter = heap[0]
        allocated[adapter] += 1
        heapq.heapreplace(heap, (-requests[adapter] / (allocated[adapter] + 1), adapter))
    return [adapter for adapter, count in allocated.items() for _ in range(count)]


def allocate_evenly(requests: Mapping[int, int], seq_slots: int) -> tuple[int, int]:
    """The same number of sequence slots for every adapter, which is the fastest layout on a CPU;
    and the block size, 0 where no request waits or rounding to blocks would lose too many slots."""
    size, most = block_size(len(requests), seq_slots), max(requests.values())
    each = min(most, max(1, seq_slots // len(requests)))
    in_blocks = each // size * size
    if len(requests) == 1 or each == most or in_blocks < max(2 * size, 0.9 * each):
        return each, 0
    return in_blocks, size


def pack_blocks(sequences: Mapping[int, int], size: int) -> list[int]:
    """The adapter of each block for the fewest blocks, a power of two, that hold all sequences."""
    blocks = [adapter for adapter, count in sequences.items() for _ in range(-(-count // size))]
    return blocks + blocks[-1:] * (_next_power_of_two(len(blocks)) - len(blocks))


def find_spare_blocks(
    owners: Sequence[int], sequences: Sequence[int], size: int, idle: Collection[int]
) -> list[int]:
    """Blocks that idle adapters can give up: those with the fewest sequences, as many as can be
    emptied into the adapter's other blocks. `owners` and `sequences` are per block."""
    spare = []
    for adapter in idle:
        own = sorted(
            (block for block, owner in enumerate(owners) if owner == adapter),
            key=lambda block: (sequences[block], block),
        )
        spare += own[: sum(size - sequences[block] for block in own) // size]
    return spare


def reassign_blocks(
    owners: Sequence[int], spare: Sequence[int], waiting: Mapping[int, int], size: int
) -> dict[int, int]:
    """The new adapter of spare blocks: each goes to the adapter with the most waiting requests per
    sequence slot, until every adapter has slots for what it has waiting."""
    blocks = Counter(owners)
    seq_slots = {adapter: size * blocks[adapter] for adapter in waiting}
    left = {adapter: count for adapter, count in waiting.items() if count > 0}
    reassigned: dict[int, int] = {}
    for block in spare:
        if not left:
            break
        adapter = max(left, key=lambda key: (left[key] / (seq_slots[key] + size), -key))
        reassigned[block] = adapter
        seq_slots[adapter] += size
        left[adapter] -= size
        if left[adapter] <= 0:
            del left[adapter]
    return reassigned


def _next_power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()
