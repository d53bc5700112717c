"""The scheduler alone, driven as the decode loop drives it, with sequences that end in any order."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redqueen.engine.protocol import SampleRequest
from redqueen.engine.torch.prefill_queue import PromptGroup
from redqueen.engine.torch.scheduler import Scheduler

MAX_PREFILL_TOKENS = 40


class Drive:
    """Carries out what the scheduler says on a list instead of tensors, and checks every step.

    `syncs[i]` is after how many syncs request i ends.
    """

    def __init__(
        self,
        requests: list[SampleRequest],
        syncs: list[int],
        max_num_seqs: int,
        in_blocks: bool,
        prefetches: bool,
    ) -> None:
        self.requests, self.left = requests, list(syncs)
        self.in_blocks, self.prefetches = in_blocks, prefetches
        self.scheduler = Scheduler(requests, max_num_seqs, MAX_PREFILL_TOKENS, in_blocks)
        self.slots: list[int | None] = [None] * len(self.scheduler.slot_adapters)
        self.prefilled: Counter[tuple[int, tuple[int, ...]]] = Counter()
        self.started: Counter[int] = Counter()
        self.finished: Counter[int] = Counter()

    def run(self) -> Iterator[None]:
        """One decode chunk at a time."""
        while not self.scheduler.done:
            self.admit()
            self.check()
            if self.prefetches:
                for groups in self.scheduler.prefetch():
                    self.prefill(groups)
            self.sync()
            self.check()
            moves = self.scheduler.compact()
            if moves is not None:
                before = self.slots
                self.slots = [None] * len(self.scheduler.slot_adapters)
                assert len(self.slots) < len(before)
                for source, target in zip(moves.source, moves.target, strict=True):
                    self.put(target, before[source])
                self.check()
            yield

    def put(self, slot: int, request: int | None) -> None:
        assert self.slots[slot] is None, "two requests in one sequence slot"
        self.slots[slot] = request

    def admit(self) -> None:
        before = self.scheduler.slot_adapters
        admission = self.scheduler.admit()
        if admission is None:
            assert self.scheduler.slot_adapters == before
            return
        if admission.moves is not None:
            for source, target in zip(admission.moves.source, admission.moves.target, strict=True):
                assert before[source] == before[target]
                self.put(target, self.slots[source])
                self.slots[source] = None
        assert admission.reassigned == (self.scheduler.slot_adapters != before)
        for entries in admission.batches:
            new = [entry.group for entry in entries if entry.group.prefill is None]
            assert len(new) in (0, len(entries)), "prompts of two prefill batches are mixed"
            if new:
                self.prefill(new)
            assert len({id(entry.group.prefill) for entry in entries}) == 1
            for entry in entries:
                for request, slot in zip(entry.requests, entry.seq_slots, strict=True):
                    self.started[request] += 1
                    self.put(slot, request)

    def prefill(self, groups: list[PromptGroup]) -> None:
        longest = max(len(group.prompt) for group in groups)
        assert len(groups) == 1 or len(groups) * longest <= MAX_PREFILL_TOKENS
        adapters = [group.adapter for group in groups]
        assert adapters == sorted(adapters), "sequences of one adapter stand together"
        output = object()
        for index, group in enumerate(groups):
            self.prefilled[group.adapter, group.prompt] += 1
            group.prefill, group.index = output, index

    def sync(self) -> None:
        ended = []
        for slot, request in enumerate(self.slots):
            if request is not None:
                self.left[request] -= 1
                if not self.left[request]:
                    ended.append(slot)
        expected = [self.slots[slot] for slot in ended]
        assert self.scheduler.finish(np.array(ended, dtype=np.int64)) == expected
        for slot in ended:
            request = self.slots[slot]
            assert request is not None
            self.finished[request] += 1
            self.slots[slot] = None

    def check(self) -> None:
        scheduler = self.scheduler
        requests = [-1 if request is None else request for request in self.slots]
        assert scheduler.slot_requests.tolist() == requests
        assert sum(request is not None for request in self.slots) == scheduler.num_running
        for slot, request in enumerate(self.slots):
            if request is not None:
                assert scheduler.slot_adapters[slot] == self.requests[request].slot
        free = [slot for slots in scheduler.free.values() for slot in slots]
        assert sorted(free) == [slot for slot, held in enumerate(self.slots) if held is None]
        for adapter, slots in scheduler.free.items():
            assert all(scheduler.slot_adapters[slot] == adapter for slot in slots)
        if scheduler.block:
            owners = np.array(scheduler.slot_adapters).reshape(-1, scheduler.block)
            assert (owners == owners[:, :1]).all(), "a block belongs to two adapters"
        if self.in_blocks:
            blocks = len(scheduler.slot_adapters) // scheduler.block
            assert blocks & (blocks - 1) == 0


request_lists = st.lists(
    st.tuples(
        st.integers(0, 6),  # adapter
        st.integers(1, 12),  # which prompt, and its length
        st.integers(1, 9),  # syncs until it ends
    ),
    min_size=1,
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(request_lists, st.integers(1, 80), st.booleans(), st.booleans())
def test_every_request_runs_once_and_ends_whatever_the_finish_order(
    drawn: list[tuple[int, int, int]], max_num_seqs: int, in_blocks: bool, prefetches: bool
) -> None:
    requests = [SampleRequest((size,) * size, 1, adapter) for adapter, size, _ in drawn]
    syncs = [count for _, _, count in drawn]
    drive = Drive(requests, syncs, max_num_seqs, in_blocks, prefetches)
    adapters = len({request.slot for request in requests})
    # every adapter has one slot on a CPU, and the smallest block is 8
    assert len(drive.slots) <= max(max_num_seqs, 8 if in_blocks else adapters)
    for chunk, _ in enumerate(drive.run()):
        # at least one sequence runs in every chunk, so that all work bounds the number of chunks
        assert chunk < sum(syncs)
    assert drive.started == drive.finished == Counter(range(len(requests)))
    prompts = {(request.slot, request.prompt) for request in requests}
    assert drive.prefilled == Counter(prompts), "every prompt is prefilled once"


@pytest.mark.parametrize("in_blocks", [False, True])
def test_an_adapter_with_few_requests_does_not_wait_for_one_with_many(in_blocks: bool) -> None:
    requests = [SampleRequest((7,), 1, 0) for _ in range(400)] + [SampleRequest((7,), 1, 1)]
    drive = Drive(requests, [2] * 401, 32, in_blocks, False)
    chunks = iter(drive.run())
    next(chunks)
    assert drive.started[400] == 1


def test_adapters_without_a_block_get_one_as_soon_as_another_has_nothing_waiting() -> None:
    """Four adapters on two blocks of eight, eight requests each."""
    requests = [SampleRequest((adapter + 1,), 1, adapter) for adapter in range(4) for _ in range(8)]
    drive = Drive(requests, [1] * 32, 16, True, False)
    owners = [set(drive.scheduler.slot_adapters) for _ in drive.run()]
    assert [len(adapters) for adapters in owners] == [2, 2] and not owners[0] & owners[1]


@pytest.mark.parametrize(("in_blocks", "slots"), [(False, 2 * 5), (True, 2 * 8)])
def test_the_batch_is_compacted_once_nothing_waits(in_blocks: bool, slots: int) -> None:
    """Of 32 sequences all but five of one adapter and one of another end at the first sync: as many
    slots for each adapter, or a block."""
    requests = [SampleRequest((5,), 1, number % 2) for number in range(32)]
    syncs = [9 if number in (0, 2, 4, 6, 8, 1) else 1 for number in range(32)]
    drive = Drive(requests, syncs, 32, in_blocks, False)
    next(iter(drive.run()))
    assert len(drive.slots) == slots and drive.scheduler.num_running == 6


def test_the_scheduler_needs_no_torch() -> None:
    code = "import sys, redqueen.engine.torch.scheduler; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
