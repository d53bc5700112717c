"""A decode batch: the state of its sequence slots as tensors on the device, changed in place, one
token for every slot in each step.

On a GPU a step is captured as a CUDA graph and replayed: launching its kernels one by one would
take longer than they run. Batches are kept between calls, and their graphs with them.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redqueen.engine.protocol import SamplingParams
from redqueen.engine.torch.cache import KVCache, KVMemory
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.routing import put
from redqueen.engine.torch.sampling import sample_tokens

_MAX_KEPT = 64
"""Batches that are kept, of every size and length; few are ever made."""


class DecodeBatch:
    """Sequence slots, each with an adapter, and room for a prompt and its completion."""

    def __init__(
        self,
        forward: Forward,
        slot_adapters: Sequence[int],
        length: int,
        block: int = 0,
        graph_pool: Callable[[], Any] = lambda: None,
        memory: KVMemory | None = None,
    ) -> None:
        """`block`: sequence slots that are reassigned together, 0 where none are."""
        self.forward, self.slot_adapters, self.length = forward, list(slot_adapters), length
        self.block, self.graph_pool = block, graph_pool
        self.device = forward.base.device
        count = len(self.slot_adapters)
        self.cache = KVCache(forward.layers, count, length, memory)
        # all [seq_slots]: the last token and its position, tokens generated and allowed, ...
        self.tokens, self.positions, self.num_generated, self.max_tokens, self.seeds = (
            torch.zeros(count, dtype=torch.long, device=self.device) for _ in range(5)
        )
        self.temperatures = torch.ones(count, device=self.device)
        self.running = torch.zeros(count, dtype=torch.bool, device=self.device)
        # [seq_slots, length]: what was generated
        self.out_tokens = torch.zeros(count, length, dtype=torch.long, device=self.device)
        self.out_logprobs = torch.zeros(count, length, device=self.device)
        self.routing = (
            forward.block_routing(self.slot_adapters[::block])
            if block
            else forward.routing(self.slot_adapters)
        )
        self._stop_tokens: dict[SamplingParams, Tensor] = {}
        self.graphs: dict[tuple[int, SamplingParams], torch.cuda.CUDAGraph] = {}

    def assign(self, slot_adapters: Sequence[int]) -> None:
        """Give the sequence slots other adapters, one per block. Captured graphs read the adapters
        from a tensor, so they stay valid."""
        self.slot_adapters = list(slot_adapters)
        if self.routing is None or not self.block:
            return
        owners = self.slot_adapters[:: self.block]
        if self.device.type == "cuda":
            assert self.routing.slots is not None
            self.routing.slots.copy_(put(torch.tensor(owners), self.device))
        else:
            self.routing = self.forward.block_routing(owners)

    def clear(self) -> None:
        """Empty every sequence slot."""
        for values in (
            self.tokens,
            self.positions,
            self.num_generated,
            self.max_tokens,
            self.running,
        ):
            values.zero_()

    def step(self, window: int, sampling: SamplingParams) -> None:
        """One more token in every sequence slot, attending to the first `window` positions."""
        if self.device.type != "cuda":
            self._step(window, sampling)
            return
        key = window, sampling
        if key not in self.graphs:
            self.graphs[key] = self._capture(window, sampling)
        self.graphs[key].replay()

    def is_stop_token(self, tokens: Tensor, sampling: SamplingParams) -> Tensor:
        # the tensor is kept because captured graphs read it
        if sampling not in self._stop_tokens:
            self._stop_tokens[sampling] = torch.tensor(
                sorted(sampling.stop_tokens) or [-1], device=self.device
            )
        return (tokens[:, None] == self._stop_tokens[sampling]).any(1)

    def sync(self) -> NDArray[np.int64]:
        """Per sequence slot, in one transfer from the device: whether it runs, how many tokens it
        has generated, its position."""
        state = torch.stack((self.running.long(), self.num_generated, self.positions))
        return state.cpu().numpy()

    def _step(self, window: int, sampling: SamplingParams) -> None:
        """Slots without a running sequence are computed like the others, and nothing is kept."""
        logits = self.forward.decode(
            self.tokens, self.positions, self.cache.at(self.positions, window), window, self.routing
        )
        tokens, logprobs = sample_tokens(
            logits, sampling, self.temperatures, self.seeds, self.num_generated
        )
        place = self.num_generated.clamp(max=self.length - 1)[:, None]
        running = self.running[:, None]
        self.out_tokens.scatter_(
            1, place, torch.where(running, tokens[:, None], self.out_tokens.gather(1, place))
        )
        self.out_logprobs.scatter_(
            1, place, torch.where(running, logprobs[:, None], self.out_logprobs.gather(1, place))
        )
        self.tokens.copy_(torch.where(self.running, tokens, self.tokens))
        self.positions += self.running
        self.num_generated += self.running
        self.running &= ~self.is_stop_token(tokens, sampling) & (
            self.num_generated < self.max_tokens
        )

    def _capture(self, window: int, sampling: SamplingParams) -> torch.cuda.CUDAGraph:
        """Capture a step as a CUDA graph. Kernels compile and allocate on their first run, which
        must not be captured: a warm-up step runs first, and is undone but for keys and values that
        the next step writes again."""
        changed = (
            self.tokens,
            self.positions,
            self.num_generated,
            self.running,
            self.out_tokens,
            self.out_logprobs,
        )
        before = [values.clone() for values in changed]
        torch.cuda.synchronize(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            self._step(window, sampling)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        for values, old in zip(changed, before, strict=True):
            values.copy_(old)
        graph = torch.cuda.CUDAGraph()
        with _without_gc(), torch.cuda.graph(graph, pool=self.graph_pool()):
            self._step(window, sampling)
        return graph

    def copy_from(self, other: "DecodeBatch", source: Tensor, target: Tensor) -> None:
        """Continue sequences `source` of another batch in slots `target` of this one."""
        self.clear()
        self._copy(other, source, target)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Continue sequences `source` in slots `target` of the same batch."""
        self._copy(self, source, target)
        self.running[source] = False

    def _copy(self, other: "DecodeBatch", source: Tensor, target: Tensor) -> None:
        self.cache.copy_from(other.cache, source, target)
        for name in (
            "tokens",
            "positions",
            "num_generated",
            "max_tokens",
            "seeds",
            "temperatures",
            "running",
            "out_tokens",
            "out_logprobs",
        ):
            getattr(self, name)[target] = getattr(other, name)[source]


@contextmanager
def _without_gc() -> Iterator[None]:
    """Collecting another engine's graphs and tensors within a capture would invalidate it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class DecodeBatchPool:
    """Makes decode batches, and on a GPU keeps them and their graphs for the next call.

    All that are kept have their keys and values in the same memory: with a cache for each, those of
    one step of a real base would not fit side by side, and every step would capture its graphs
    anew."""

    def __init__(self, forward: Forward) -> None:
        self.forward = forward
        self.on_gpu = forward.base.device.type == "cuda"
        self.in_blocks = self.on_gpu
        """Whether sequence slots are laid out in a power of two of blocks: few shapes of batches
        then serve all calls, and each shape needs its own graphs."""
        self.prefetches = self.on_gpu
        """Whether prompts are prefilled while decode steps run: launching a prefill takes the host
        longer than the GPU takes to run it."""
        self.kept: dict[tuple[int, int, int], DecodeBatch] = {}
        self.memory = KVMemory(0)
        self._graph_pool: Any = None

    def graph_pool(self) -> Any:
        """Memory shared by all graphs: only one is replayed at a time. Torch frees it with the last
        graph, so a pool without graphs is replaced."""
        if not any(batch.graphs for batch in self.kept.values()):
            self._graph_pool = torch.cuda.graph_pool_handle()
        return self._graph_pool

    def get(self, slot_adapters: Sequence[int], length: int, block: int = 0) -> DecodeBatch:
        """An empty batch with these sequence slots."""
        if not self.on_gpu:
            return DecodeBatch(self.forward, slot_adapters, length, block)
        key = len(slot_adapters), length, block
        if len(slot_adapters) * length > self.memory.tokens:
            self.kept.clear()  # their graphs read the memory that is too small
            self.memory = KVMemory(len(slot_adapters) * length)
        if key not in self.kept:
            if len(self.kept) >= _MAX_KEPT:
                del self.kept[next(iter(self.kept))]  # the oldest
            self.kept[key] = DecodeBatch(
                self.forward, slot_adapters, length, block, self.graph_pool, self.memory
            )
        self.kept[key].assign(slot_adapters)
        self.kept[key].clear()
        return self.kept[key]
