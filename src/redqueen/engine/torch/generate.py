"""SamplingParams from many members at once: lanes that rows enter and leave, one token for every lane in
each step.

Every slot has lanes, on a GPU by how many rows it has, and a row waits until its slot has a free
one. Lanes that a slot needs no more go to one whose rows wait (blocks.py). Rows with the same
prompt share its computation. Which row enters when follows from the rows and the settings alone.
Every few steps the host looks which rows have ended: in between nothing is asked of the device, and
nothing is done row by row in Python. What has ended is told of while the next steps run. On a GPU
the prompts that are next are read in the meantime, too: to launch a pass takes the host longer than
the pass takes.
"""

import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redqueen.engine.protocol import Completion, OnFinish, SampleRequest, SamplingParams
from redqueen.engine.torch.blocks import block_size, deal, emptiest, evenly, handed_over, packed
from redqueen.engine.torch.cache import Prompts
from redqueen.engine.torch.decode import Decoder, Decoders, ends
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.population import put
from redqueen.engine.torch.sampling import draw
from redqueen.engine.torch.waiting import Entering, Group, Pass, first, queues

_FEW_LANES = 64
"""So few lanes cost about as much as fewer."""
_WINDOW = 64
"""Attention looks at so many places more at a time."""
_WINDOW_GPU = 128
"""On a GPU: every window is a recording of its own."""
_AHEAD_FRAC = 0.5
"""Prompts are read ahead for so many of a slot's lanes; again when a quarter of them is left."""
_LENGTH_GPU = 512
"""Lanes on a GPU are as long as a multiple of this, so that they serve again."""


@dataclass(frozen=True, slots=True)
class Harvest:
    """Rows that have come out of their lanes, and what they wrote, on its way from the device."""

    rows: list[int]
    counts: list[int]
    stopped: list[bool]
    """By a text; otherwise the last token says it."""
    tokens: Tensor
    logprobs: Tensor
    there: torch.cuda.Event | None
    """When the tensors have arrived."""


@dataclass(frozen=True, slots=True)
class GenerateStats:
    tokens: int
    """TextCompletion."""
    prompt_tokens: int
    """Of all rows; what was computed of them is less."""
    shared_frac: float
    """Prompt tokens that were not computed because rows share them."""
    idle_frac: float
    """Lane steps in which no row was in the lane."""
    seconds: float


class Generator:
    """One call of `generate`."""

    def __init__(
        self,
        forward: Forward,
        decoders: Decoders,
        rows: Sequence[SampleRequest],
        sampling: SamplingParams,
        lanes: int,
        chunk: int,
        max_prefill_tokens: int,
    ) -> None:
        self.forward, self.decoders, self.rows, self.sampling = forward, decoders, rows, sampling
        self.chunk, self.max_prefill_tokens = chunk, max_prefill_tokens
        self.device = forward.base.device
        self.waiting = queues(rows)
        self.slots = list(self.waiting)
        counts = {
            slot: sum(len(group.rows) for group in groups) for slot, groups in self.waiting.items()
        }
        self.block: int
        """Lanes that change hands together; 0: none do."""
        if decoders.in_blocks:
            self.block = block_size(len(counts), lanes)
            begun = _lanes(deal(counts, lanes, self.block), self.block)
        else:
            each, self.block = evenly(counts, lanes)
            begun = _lanes(list(counts), each)
        self.length = lane_length(rows, self.device)
        self.window = (
            self.length
            if forward.by_spans
            else _WINDOW_GPU
            if self.device.type == "cuda"
            else _WINDOW
        )
        self.found: list[Completion | None] = [None] * len(rows)
        self.computed = self.lane_steps = self.row_steps = 0
        self._use(decoders.empty(begun, self.length, self.block))

    def _use(self, decoder: Decoder) -> None:
        self.lanes, self.lane_slots = decoder, decoder.lane_slots
        self.lane_rows: NDArray[np.int64] = np.full(len(self.lane_slots), -1)
        """The row in each lane; -1: none."""
        self.furthest = 0
        """The position of the lane that has come furthest, or an upper bound of it."""
        self._deal_out()

    def run(self, ended: OnFinish) -> tuple[list[Completion], GenerateStats]:
        started = time.monotonic()
        harvest: Harvest | None = None
        while any(self.waiting.values()) or self._free() < len(self.lane_slots):
            self._admit()
            window = min(
                self.length, -(-(self.furthest + self.chunk + 1) // self.window) * self.window
            )
            for _ in range(self.chunk):
                self.lanes.step(window, self.sampling)
            self._read_ahead()
            if harvest:
                ended(self._completed(harvest))
            harvest = self._collect()
            self._shrink()
        if harvest:
            ended(self._completed(harvest))
        completions = [completion for completion in self.found if completion is not None]
        prompts = sum(len(row.prompt) for row in self.rows)
        stats = GenerateStats(
            tokens=sum(len(completion.tokens) for completion in completions),
            prompt_tokens=prompts,
            shared_frac=1 - self.computed / prompts,
            idle_frac=1 - self.row_steps / max(1, self.lane_steps),
            seconds=time.monotonic() - started,
        )
        return completions, stats

    # rows enter

    def _admit(self) -> None:
        """Fill free lanes with waiting rows, a group of one prompt at a time, when enough are free
        to be worth a pass."""
        if not any(self.waiting.values()) or self._free() < len(self.lane_rows) / 8:
            return
        if self.block:
            self._hand_over()
        entering: list[Entering] = []
        for slot in self.slots:
            lanes = self.free[slot] = sorted(self.free[slot], reverse=True)
            groups = self.waiting[slot]
            while groups and lanes:
                rows = groups[0].take(len(lanes))  # attempts for which there is no lane come later
                entering.append((groups[0], rows, [lanes.pop() for _ in rows]))
                if not groups[0].rows:
                    groups.popleft()
        by_pass: dict[int, list[Entering]] = {}
        for one in entering:
            by_pass.setdefault(id(one[0].read), []).append(one)
        unread = by_pass.pop(id(None), [])
        for part in by_pass.values():
            self._begin(part)
        for part in self._parts(unread):
            self._read([group for group, _, _ in part])
            self._begin(part)

    def _read_ahead(self) -> None:
        """Read prompts of rows that will enter next, as soon as a slot has few of them left."""
        if not self.decoders.reads_ahead:
            return
        unread: list[Group] = []
        few = False
        for slot, groups in self.waiting.items():
            soon = first(groups, self.lanes_each[slot] * _AHEAD_FRAC)
            unread += (group for group in soon if group.read is None)
            few = few or any(
                group.read is None
                for group in first(groups, self.lanes_each[slot] * _AHEAD_FRAC / 4)
            )
        if few:
            for part in self._parts([(group, [], []) for group in unread]):
                self._read([group for group, _, _ in part])

    def _hand_over(self) -> None:
        """Lanes of slots that have nothing waiting go to slots that have more waiting than they
        have free lanes for. Only whole blocks do: rows that are scattered over the lanes of a slot
        move together before."""
        lacking = {
            slot: sum(len(group.rows) for group in groups) - len(self.free[slot])
            for slot, groups in self.waiting.items()
        }
        slots = self.lane_slots[:: self.block]
        rows = (self.lane_rows >= 0).reshape(-1, self.block).sum(1).tolist()
        given = handed_over(
            slots,
            emptiest(
                slots,
                rows,
                self.block,
                [slot for slot, groups in self.waiting.items() if not groups],
            ),
            lacking,
            self.block,
        )
        if not given:
            return
        self._clear(given)
        self.lanes.assign(
            _lanes([given.get(block, slot) for block, slot in enumerate(slots)], self.block)
        )
        self.lane_slots = self.lanes.lane_slots
        self._deal_out()

    def _clear(self, blocks: Collection[int]) -> None:
        """Rows in these blocks move to free lanes of their slots in other blocks."""
        leaving = np.isin(np.arange(len(self.lane_rows)) // self.block, list(blocks))
        moved = np.flatnonzero(leaving & (self.lane_rows >= 0))
        if not len(moved):
            return
        free: dict[int, Iterator[int]] = {
            slot: iter(lane for lane in self.free[slot] if not leaving[lane]) for slot in self.slots
        }
        into = np.array([next(free[self.lane_slots[lane]]) for lane in moved.tolist()])
        self.lanes.move(self._put(moved), self._put(into))
        self.lane_rows[into] = self.lane_rows[moved]
        self.lane_rows[moved] = -1

    def _deal_out(self) -> None:
        """Which lanes each slot has, and which of them are free."""
        self.free: dict[int, list[int]] = {slot: [] for slot in self.slots}
        self.lanes_each = dict.fromkeys(self.slots, 0)
        for lane, (slot, row) in enumerate(
            zip(self.lane_slots, self.lane_rows.tolist(), strict=True)
        ):
            self.lanes_each[slot] += 1
            if row < 0:
                self.free[slot].append(lane)

    def _free(self) -> int:
        return sum(map(len, self.free.values()))

    def _parts(self, entering: Sequence[Entering]) -> Iterator[list[Entering]]:
        """Prompts that go through the model together: of about one length, and not too many tokens;
        by slot within."""
        ordered = sorted(entering, key=lambda item: len(item[0].prompt))
        while ordered:
            count = 1
            while (
                count < len(ordered)
                and (count + 1) * len(ordered[count][0].prompt) <= self.max_prefill_tokens
            ):
                count += 1
            yield sorted(ordered[:count], key=lambda item: item[0].slot)
            ordered = ordered[count:]

    def _read(self, groups: Sequence[Group]) -> None:
        """One pass over the prompts of these groups."""
        ids = np.zeros((len(groups), max(len(group.prompt) for group in groups)), dtype=np.int64)
        for number, group in enumerate(groups):
            ids[number, : len(group.prompt)] = group.prompt
        sizes = np.array([len(group.prompt) for group in groups])
        self.computed += int(sizes.sum())
        prompts = Prompts(self.forward.layers)
        routing = self.forward.routing([group.slot for group in groups], ids.shape[1])
        read = Pass(
            prompts, self.forward.prompts(self._put(ids), self._put(sizes - 1), prompts, routing)
        )
        for place, group in enumerate(groups):
            group.read, group.place = read, place

    def _begin(self, part: Sequence[Entering]) -> None:
        """The rows of these groups, whose prompts one pass has read, begin in their lanes."""
        read = part[0][0].read
        assert read is not None
        counts = [len(rows) for _, rows, _ in part]
        lanes = np.array([lane for _, _, lanes in part for lane in lanes])
        entering = [row for _, rows, _ in part for row in rows]
        self.lane_rows[lanes] = entering
        sizes, source = (
            np.repeat(values, counts)
            for values in ([len(one[0].prompt) for one in part], [one[0].place for one in part])
        )
        where = self._put(source)
        self._enter(
            self._put(lanes),
            [self.rows[row] for row in entering],
            sizes,
            read.logits[where],
            read.prompts,
            where,
        )

    def _enter(
        self,
        lanes: Tensor,
        rows: Sequence[SampleRequest],
        sizes: NDArray[np.int64],
        logits: Tensor,
        prompts: Prompts,
        source: Tensor,
    ) -> None:
        """Rows begin in these lanes, with their first token."""
        state = self.lanes
        state.cache.fill(lanes, prompts, source)
        seeds, limits, positions = self._put(
            np.array([[_signed(row.seed) for row in rows], [row.max_tokens for row in rows], sizes])
        )
        state.seeds[lanes], state.limits[lanes], state.positions[lanes] = seeds, limits, positions
        heats = [
            self.sampling.temperature if row.temperature is None else row.temperature
            for row in rows
        ]
        temperatures = put(torch.tensor(heats, dtype=torch.float32), self.device)
        state.temperatures[lanes] = temperatures
        self.furthest = max(self.furthest, int(sizes.max()))
        tokens, logprobs = draw(logits, self.sampling, temperatures, seeds, torch.zeros_like(lanes))
        state.out_tokens[lanes, 0], state.out_logprobs[lanes, 0] = tokens, logprobs
        state.tokens[lanes] = tokens
        state.written[lanes] = 1
        state.live[lanes] = ~ends(tokens, state.stops(self.sampling)) & (limits > 1)

    def _put(self, values: NDArray[np.int64]) -> Tensor:
        return put(torch.from_numpy(values), self.device)

    # rows leave

    def _collect(self) -> Harvest | None:
        """Take the rows that have ended out of their lanes."""
        live, written, positions = self.lanes.look()
        there = self.lane_rows >= 0
        self.lane_steps += len(live) * self.chunk
        self.row_steps += int(there.sum()) * self.chunk
        self.furthest = int(positions[there].max(initial=0))
        ended = np.flatnonzero(there & (live == 0))
        cuts = self._cut(np.flatnonzero(there), written) if self.sampling.stop_texts else {}
        if cuts:
            ended = np.union1d(ended, list(cuts))
            self.lanes.live[self._put(np.array(list(cuts)))] = False
        if not len(ended):
            return None
        counts = [
            cuts.get(lane, count)
            for lane, count in zip(ended.tolist(), written[ended].tolist(), strict=True)
        ]
        index, longest = self._put(ended), max(counts)
        harvest = Harvest(
            self.lane_rows[ended].tolist(),
            counts,
            [lane in cuts for lane in ended.tolist()],
            self._fetch(self.lanes.out_tokens[index, :longest]),
            self._fetch(self.lanes.out_logprobs[index, :longest]),
            torch.cuda.Event() if self.device.type == "cuda" else None,
        )
        if harvest.there is not None:
            harvest.there.record()
        self.lane_rows[ended] = -1
        for lane in ended.tolist():
            self.free[self.lane_slots[lane]].append(lane)
        return harvest

    def _cut(self, lanes: NDArray[np.int64], written: NDArray[np.int64]) -> dict[int, int]:
        """Lanes whose row has written one of the texts that end it, and after how many tokens. Only
        what is new can have ended one."""
        texts = self.sampling.stop_texts
        reach = self.chunk + 1 + max(map(len, texts))
        places = np.maximum(written[lanes][:, None] - reach + np.arange(reach), 0)
        tails = self.lanes.out_tokens[self._put(lanes)[:, None], self._put(places)].tolist()
        found = {}
        for lane, tail in zip(lanes.tolist(), tails, strict=True):
            count = int(written[lane])
            if any(text in self.forward.base.decode(tail[-min(count, reach) :]) for text in texts):
                cut = self.forward.cut(self.lanes.out_tokens[lane, :count].tolist(), texts)
                found.update({lane: cut} if cut is not None else {})
        return found

    def _fetch(self, values: Tensor) -> Tensor:
        """On the host, some time later."""
        if self.device.type != "cuda":
            return values
        return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(
            values, non_blocking=True
        )

    def _completed(self, harvest: Harvest) -> list[tuple[int, Completion]]:
        if harvest.there is not None:
            harvest.there.synchronize()
        found = []
        for row, count, stopped, tokens, logprobs in zip(
            harvest.rows,
            harvest.counts,
            harvest.stopped,
            harvest.tokens.numpy(),
            harvest.logprobs.numpy(),
            strict=True,
        ):
            written = tuple(tokens[:count].tolist())
            by: Literal["stop", "length"] = (
                "stop" if stopped or written[-1] in self.sampling.stop_tokens else "length"
            )
            self.found[row] = completion = Completion(written, tuple(logprobs[:count].tolist()), by)
            found.append((row, completion))
        return found

    def _shrink(self) -> None:
        """When nothing waits and a fifth of the lanes is free, or half on a GPU, go on without the
        free ones."""
        there = len(self.lane_rows) - self._free()
        if any(self.waiting.values()) or not there or there * 5 > len(self.lane_rows) * 4:
            return
        if not self.decoders.in_blocks:
            self.block = 0  # nothing waits for a lane any more
        used = np.flatnonzero(self.lane_rows >= 0).tolist()
        slots = self._even([self.lane_slots[lane] for lane in used])
        if len(slots) >= len(self.lane_slots):
            return
        places = _places(slots, [self.lane_slots[lane] for lane in used])
        smaller = self.decoders.empty(slots, self.length, self.block)
        smaller.take(
            self.lanes,
            torch.tensor(used, device=self.device),
            torch.tensor(places, device=self.device),
        )
        before, furthest = self.lane_rows, self.furthest
        self._use(smaller)
        self.furthest = furthest
        self.lane_rows[places] = before[used]
        for place in places:
            self.free[slots[place]].remove(place)

    def _even(self, used: list[int]) -> list[int]:
        """The slots of the lanes to go on with: as many for each that has a row, where that costs
        little. Even blocks are served faster."""
        counts = Counter(used)
        most = max(counts.values())
        if self.decoders.in_blocks:
            return _lanes(packed(counts, self.block), self.block)
        if most * len(counts) > max(1.2 * len(used), _FEW_LANES):
            return sorted(used)
        return _lanes(sorted(counts), most)


def _lanes(slots: Sequence[int], each: int) -> list[int]:
    """The slot of every lane, so many lanes for each in order."""
    return [slot for slot in slots for _ in range(each)]


def _places(slots: list[int], wanted: list[int]) -> list[int]:
    """For each wanted slot the next lane of it."""
    free: dict[int, deque[int]] = {}
    for lane, slot in enumerate(slots):
        free.setdefault(slot, deque()).append(lane)
    return [free[slot].popleft() for slot in wanted]


def lane_length(rows: Sequence[SampleRequest], device: torch.device) -> int:
    """Places of a lane: room for the longest row, rounded up."""
    step = _LENGTH_GPU if device.type == "cuda" else _WINDOW
    return -(-max(len(row.prompt) + row.max_tokens for row in rows) // step) * step


def _signed(seed: int) -> int:
    """A 64-bit seed as torch holds it."""
    seed &= (1 << 64) - 1
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def bytes_a_token(config: Any, bytes_each: int) -> int:
    """What the keys and values of one token take, in all layers of a model with this config."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * head * bytes_each)
