"""Lanes in which rows are written, one token for every lane in each step, by tensors on the device
that change in place.

On a GPU a step is recorded once for each window of attention and then replayed: launching its
kernels one by one would take longer than they do. Decoders are kept between calls, so that
recordings are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redqueen.engine.protocol import SamplingParams
from redqueen.engine.torch.cache import Lanes
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.population import put
from redqueen.engine.torch.sampling import draw

_KEPT_FRAC = 0.25
"""Share of the GPU's memory that idle lanes may keep."""


class Decoder:
    """Lanes that belong to slots, each with room for a prompt and what is written after it."""

    def __init__(
        self,
        forward: Forward,
        lane_slots: Sequence[int],
        length: int,
        block: int = 0,
        graph_pool: Callable[[], Any] = lambda: None,
    ) -> None:
        self.graph_pool, self.block = graph_pool, block
        self.forward, self.lane_slots, self.length = forward, list(lane_slots), length
        self.device = forward.base.device
        count = len(self.lane_slots)
        self.cache = Lanes(forward.layers, count, length)
        self.tokens, self.positions, self.written, self.limits, self.seeds = (
            torch.zeros(count, dtype=torch.long, device=self.device) for _ in range(5)
        )
        self.temperatures = torch.ones(count, device=self.device)
        self.live = torch.zeros(count, dtype=torch.bool, device=self.device)
        self.out_tokens = torch.zeros(count, length, dtype=torch.long, device=self.device)
        self.out_logprobs = torch.zeros(count, length, device=self.device)
        self.routing = (
            forward.routing(self.lane_slots)
            if not block
            else forward.blocks(self.lane_slots[::block])
        )
        self._stops: dict[SamplingParams, Tensor] = {}
        self.graphs: dict[tuple[int, SamplingParams], torch.cuda.CUDAGraph] = {}

    def assign(self, lane_slots: Sequence[int]) -> None:
        """From now on lanes belong to these slots, whole blocks of them to one. Recorded steps look
        it up."""
        self.lane_slots = list(lane_slots)
        if self.routing is None or not self.block:
            return
        if self.device.type == "cuda":
            assert self.routing.slots is not None
            self.routing.slots.copy_(put(torch.tensor(self.lane_slots[:: self.block]), self.device))
        else:
            self.routing = self.forward.blocks(self.lane_slots[:: self.block])

    def clear(self) -> None:
        """As new: no lane has a row."""
        for values in (self.tokens, self.positions, self.written, self.limits, self.live):
            values.zero_()

    def step(self, window: int, sampling: SamplingParams) -> None:
        """One more token in every lane, with attention to the first `window` places."""
        if self.device.type != "cuda":
            self._step(window, sampling)
            return
        key = window, sampling
        if key not in self.graphs:
            self.graphs[key] = self._record(window, sampling)
        self.graphs[key].replay()

    def stops(self, sampling: SamplingParams) -> Tensor:
        """Tokens that end a row. Kept: recordings read them."""
        if sampling not in self._stops:
            self._stops[sampling] = torch.tensor(
                sorted(sampling.stop_tokens) or [-1], device=self.device
            )
        return self._stops[sampling]

    def look(self) -> NDArray[np.int64]:
        """Which lanes are live, how many tokens each has written, and its position: asked of the
        device at once."""
        return torch.stack((self.live.long(), self.written, self.positions)).cpu().numpy()

    def _step(self, window: int, sampling: SamplingParams) -> None:
        """A lane whose row has ended goes on in place, and nothing of it counts."""
        logits = self.forward.tokens(
            self.tokens, self.positions, self.cache.at(self.positions, window), window, self.routing
        )
        tokens, logprobs = draw(logits, sampling, self.temperatures, self.seeds, self.written)
        place, live = self.written.clamp(max=self.length - 1)[:, None], self.live[:, None]
        self.out_tokens.scatter_(
            1, place, torch.where(live, tokens[:, None], self.out_tokens.gather(1, place))
        )
        self.out_logprobs.scatter_(
            1, place, torch.where(live, logprobs[:, None], self.out_logprobs.gather(1, place))
        )
        self.tokens.copy_(torch.where(self.live, tokens, self.tokens))
        self.positions += self.live
        self.written += self.live
        self.live &= ~ends(tokens, self.stops(sampling)) & (self.written < self.limits)

    def _record(self, window: int, sampling: SamplingParams) -> torch.cuda.CUDAGraph:
        """A step as a recording. The run before it, which kernels need once, leaves no trace but
        keys that are written again."""
        changing = (
            self.tokens,
            self.positions,
            self.written,
            self.live,
            self.out_tokens,
            self.out_logprobs,
        )
        before = [values.clone() for values in changing]
        torch.cuda.synchronize(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            self._step(window, sampling)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        for values, old in zip(changing, before, strict=True):
            values.copy_(old)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.graph_pool()):
            self._step(window, sampling)
        return graph

    def take(self, other: "Decoder", lanes: Tensor, into: Tensor) -> None:
        """The rows in these lanes of another decoder go on in lanes of this one."""
        self.clear()
        self._copy(other, lanes, into)

    def move(self, lanes: Tensor, into: Tensor) -> None:
        """The rows in these lanes go on in other lanes."""
        self._copy(self, lanes, into)
        self.live[lanes] = False

    def _copy(self, other: "Decoder", lanes: Tensor, into: Tensor) -> None:
        self.cache.take(other.cache, lanes, into)
        for name in (
            "tokens",
            "positions",
            "written",
            "limits",
            "seeds",
            "temperatures",
            "live",
            "out_tokens",
            "out_logprobs",
        ):
            getattr(self, name)[into] = getattr(other, name)[lanes]


class Decoders:
    """Makes decoders, and on a GPU keeps them for the next call, with what was recorded, while they
    take little memory."""

    def __init__(self, forward: Forward) -> None:
        self.forward = forward
        self.on_gpu = self.in_blocks = self.reads_ahead = forward.base.device.type == "cuda"
        """In blocks: so many lanes as are a power of two, by how many rows each slot has. Few sorts
        of decoders then serve all calls."""
        self.kept: dict[tuple[int, int, int], Decoder] = {}
        self._pool: Any = None

    def graph_pool(self) -> Any:
        """Memory that all recordings share: only one of them is replayed at a time. Torch gives it
        back with the last of them."""
        if not any(decoder.graphs for decoder in self.kept.values()):
            self._pool = torch.cuda.graph_pool_handle()
        return self._pool

    def empty(self, slots: Sequence[int], length: int, block: int = 0) -> Decoder:
        """Empty lanes for these slots."""
        if not self.on_gpu:
            return Decoder(self.forward, slots, length, block)
        key = len(slots), length, block
        if key not in self.kept:
            total = torch.cuda.mem_get_info(self.forward.base.device)[1]
            while sum(decoder.cache.bytes for decoder in self.kept.values()) > _KEPT_FRAC * total:
                del self.kept[next(iter(self.kept))]  # the oldest
            self.kept[key] = Decoder(self.forward, slots, length, block, self.graph_pool)
        self.kept[key].assign(slots)
        self.kept[key].clear()
        return self.kept[key]


def ends(tokens: Tensor, stops: Tensor) -> Tensor:
    return (tokens[:, None] == stops).any(1)
