"""Continuous batching over many adapters: which request sits in which sequence slot, and which
adapter each sequence slot belongs to.

The scheduler decides and keeps the books; it computes nothing and knows no tensors. The decode loop
(decode_loop.py) carries out what it returns and reports which sequences have finished. Decisions
follow from the requests, the settings and the finish order alone.

Every adapter has sequence slots of its own, and a request waits until its adapter has a free one.
When an adapter has nothing left to wait for, its slots go to others in whole blocks
(slot_blocks.py). When nothing waits at all, the batch is compacted to the slots still in use.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redqueen.engine.protocol import SampleRequest
from redqueen.engine.torch.prefill_queue import (
    Entry,
    PromptGroup,
    build_queues,
    split_into_prefill_batches,
    take_groups,
)
from redqueen.engine.torch.slot_blocks import (
    allocate_blocks,
    allocate_evenly,
    block_size,
    find_spare_blocks,
    pack_blocks,
    reassign_blocks,
)

SeqSlots = NDArray[np.int64]

_ADMIT_FREE_FRAC = 1 / 8
"""Requests enter once this share of the sequence slots is free: a prefill for fewer costs more than
the idle slots do."""
_PREFETCH_FRAC = 0.5
"""Prompts are prefetched for this share of an adapter's sequence slots, again once a quarter of
them is left."""
_COMPACT_FRAC = 0.8
"""The batch is compacted once no more than this share of the sequence slots is in use."""
_FLAT_SEQ_SLOTS = 64
"""Below this many sequences, decode time is flat: it is bound by launch overhead."""
_EVEN_OVERHEAD = 1.2
"""Slots for every sequence that runs that an even layout may have: even blocks are faster."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Sequences that go on in other sequence slots."""

    source: SeqSlots
    target: SeqSlots


@dataclass(frozen=True, slots=True)
class Admission:
    """What to carry out before the next decode steps, in this order."""

    moves: Moves | None
    reassigned: bool
    """Whether `slot_adapters` has changed."""
    batches: list[list[Entry]]
    """Requests that start, by the prefill batch of their prompts. Where the prompts of a batch have
    no prefill output yet, they are to be prefilled together first."""


class Scheduler:
    """Assigns the requests of one call to sequence slots."""

    def __init__(
        self,
        requests: Sequence[SampleRequest],
        max_num_seqs: int,
        max_prefill_tokens: int,
        in_blocks: bool,
    ) -> None:
        """`in_blocks`: sequence slots by the number of requests of each adapter, in blocks whose
        number is a power of two, as suits CUDA graphs; otherwise as many for each."""
        self.max_prefill_tokens, self.in_blocks = max_prefill_tokens, in_blocks
        self.queues = build_queues(requests)
        counts = {
            adapter: sum(len(group.waiting) for group in groups)
            for adapter, groups in self.queues.items()
        }
        self.block: int
        """Sequence slots that are reassigned together; 0: none are."""
        if in_blocks:
            self.block = block_size(len(counts), max_num_seqs)
            owners = allocate_blocks(counts, max_num_seqs, self.block)
            self._lay_out(_repeat(owners, self.block))
        else:
            each, self.block = allocate_evenly(counts, max_num_seqs)
            self._lay_out(_repeat(list(counts), each))

    def _lay_out(self, slot_adapters: list[int]) -> None:
        self.slot_adapters = slot_adapters
        """The adapter of each sequence slot."""
        self.slot_requests: SeqSlots = np.full(len(slot_adapters), -1)
        """The request in each sequence slot, -1 where it is free."""
        self._list_free()

    def _list_free(self) -> None:
        self.free: dict[int, list[int]] = {adapter: [] for adapter in self.queues}
        """Free sequence slots of each adapter."""
        self.seq_slots_of = dict.fromkeys(self.queues, 0)
        """How many sequence slots each adapter has."""
        for seq_slot, (adapter, request) in enumerate(
            zip(self.slot_adapters, self.slot_requests.tolist(), strict=True)
        ):
            self.seq_slots_of[adapter] += 1
            if request < 0:
                self.free[adapter].append(seq_slot)

    @property
    def num_free(self) -> int:
        return sum(map(len, self.free.values()))

    @property
    def num_running(self) -> int:
        return len(self.slot_requests) - self.num_free

    @property
    def has_waiting(self) -> bool:
        return any(self.queues.values())

    @property
    def done(self) -> bool:
        return not self.has_waiting and not self.num_running

    # requests enter

    def admit(self) -> Admission | None:
        """Fill free sequence slots with waiting requests, where enough are free."""
        if not self.has_waiting or self.num_free < len(self.slot_requests) * _ADMIT_FREE_FRAC:
            return None
        reassigned = self._find_reassignment() if self.block else {}
        moves = self._empty_blocks(reassigned) if reassigned else None
        if reassigned:
            owners = self.slot_adapters[:: self.block]
            self.slot_adapters = _repeat(
                [reassigned.get(block, owner) for block, owner in enumerate(owners)], self.block
            )
            self._list_free()
        return Admission(moves, bool(reassigned), self._batch_by_prefill(self._fill_free_slots()))

    def _fill_free_slots(self) -> list[Entry]:
        entries = []
        for adapter, groups in self.queues.items():
            free = self.free[adapter] = sorted(self.free[adapter], reverse=True)
            while groups and free:
                group = groups[0]
                requests = group.take(len(free))  # the rest of the group enters later
                seq_slots = [free.pop() for _ in requests]
                self.slot_requests[seq_slots] = requests
                entries.append(Entry(group, requests, seq_slots))
                if not group.waiting:
                    groups.popleft()
        return entries

    def _batch_by_prefill(self, entries: Sequence[Entry]) -> list[list[Entry]]:
        """Entries whose prompts are prefilled already, by prefill batch, and then new batches."""
        prefilled: dict[int, list[Entry]] = {}
        new: dict[int, Entry] = {}
        for entry in entries:
            if entry.group.prefill is None:
                new[id(entry.group)] = entry
            else:
                prefilled.setdefault(id(entry.group.prefill), []).append(entry)
        batches = split_into_prefill_batches(
            [entry.group for entry in new.values()], self.max_prefill_tokens
        )
        return [*prefilled.values(), *([new[id(group)] for group in batch] for batch in batches)]

    def prefetch(self) -> Iterator[list[PromptGroup]]:
        """Batches of prompts to prefill ahead, as soon as some adapter has few of them left."""
        groups: list[PromptGroup] = []
        low = False
        for adapter, queue in self.queues.items():
            ahead = self.seq_slots_of[adapter] * _PREFETCH_FRAC
            groups += (group for group in take_groups(queue, ahead) if group.prefill is None)
            low = low or any(group.prefill is None for group in take_groups(queue, ahead / 4))
        return split_into_prefill_batches(groups if low else [], self.max_prefill_tokens)

    # blocks change adapters

    def _find_reassignment(self) -> dict[int, int]:
        """The new adapter of each block to reassign: from adapters that have nothing waiting to
        adapters that have more waiting than free sequence slots."""
        lacking = {
            adapter: sum(len(group.waiting) for group in groups) - len(self.free[adapter])
            for adapter, groups in self.queues.items()
        }
        owners = self.slot_adapters[:: self.block]
        running = (self.slot_requests >= 0).reshape(-1, self.block).sum(1).tolist()
        idle = [adapter for adapter, groups in self.queues.items() if not groups]
        spare = find_spare_blocks(owners, running, self.block, idle)
        return reassign_blocks(owners, spare, lacking, self.block)

    def _empty_blocks(self, blocks: Collection[int]) -> Moves | None:
        """Sequences in these blocks move to free slots of their adapters in other blocks."""
        leaving = np.isin(np.arange(len(self.slot_requests)) // self.block, list(blocks))
        source = np.flatnonzero(leaving & (self.slot_requests >= 0))
        if not len(source):
            return None
        free: dict[int, Iterator[int]] = {
            adapter: iter([seq_slot for seq_slot in seq_slots if not leaving[seq_slot]])
            for adapter, seq_slots in self.free.items()
        }
        target = np.array([next(free[self.slot_adapters[slot]]) for slot in source.tolist()])
        self.slot_requests[target] = self.slot_requests[source]
        self.slot_requests[source] = -1
        return Moves(source, target)

    # requests leave

    def running(self) -> SeqSlots:
        """Sequence slots in use."""
        return np.flatnonzero(self.slot_requests >= 0)

    def finish(self, seq_slots: SeqSlots) -> list[int]:
        """Free these sequence slots. Returns the requests that were in them."""
        requests: list[int] = self.slot_requests[seq_slots].tolist()
        self.slot_requests[seq_slots] = -1
        for seq_slot in seq_slots.tolist():
            self.free[self.slot_adapters[seq_slot]].append(seq_slot)
        return requests

    def compact(self) -> Moves | None:
        """Once nothing waits, go on with fewer sequence slots where enough are free. The moves are
        from the old layout to the new one."""
        if (
            self.has_waiting
            or not self.num_running
            or self.num_running > len(self.slot_requests) * _COMPACT_FRAC
        ):
            return None
        if not self.in_blocks:
            self.block = 0  # nothing waits for a slot any more
        source = self.running()
        owners = [self.slot_adapters[seq_slot] for seq_slot in source.tolist()]
        smaller = self._compact_layout(owners)
        if len(smaller) >= len(self.slot_adapters):
            return None
        requests = self.slot_requests[source]
        target = _find_slots(smaller, owners)
        self._lay_out(smaller)
        self.slot_requests[target] = requests
        self._list_free()
        return Moves(source, target)

    def _compact_layout(self, owners: list[int]) -> list[int]:
        """The adapters of the sequence slots to go on with, given the adapter of each sequence:
        as many slots for every adapter, where that costs little."""
        counts = Counter(owners)
        most = max(counts.values())
        if self.in_blocks:
            return _repeat(pack_blocks(counts, self.block), self.block)
        if most * len(counts) > max(_EVEN_OVERHEAD * len(owners), _FLAT_SEQ_SLOTS):
            return sorted(owners)
        return _repeat(sorted(counts), most)


def _repeat(adapters: Sequence[int], count: int) -> list[int]:
    return [adapter for adapter in adapters for _ in range(count)]


def _find_slots(slot_adapters: list[int], owners: list[int]) -> SeqSlots:
    """For each owner the next sequence slot of that adapter."""
    free: dict[int, deque[int]] = {}
    for seq_slot, adapter in enumerate(slot_adapters):
        free.setdefault(adapter, deque()).append(seq_slot)
    return np.array([free[adapter].popleft() for adapter in owners])
