"""A population of LoRA adapters on one frozen base: every member's weights are a row of one matrix,
and one pass serves them all.

For each adapted projection there is `A[slot, in, r]` and `B[slot, r, out]`, views into that matrix,
so that the optimizer, the reading and the writing of members are plain operations on rows. Weights
are float32; they are used in the base's dtype. B is zero at birth: a new member is the base. The
base is changed in one way only: its linear layers are wrapped, and without a routing they are as
before. On a GPU the weights of sisters also move into one matrix, see sisters.py.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from redqueen.engine.torch.fused_projections import Sisters
from redqueen.errors import ConfigError, unknown
from redqueen.models.base import Base

Adapter = dict[str, tuple[Tensor, Tensor]]
"""One member's weights, float32 on the CPU, by projection: A[in, r] and B[r, out]."""


def put(values: Tensor, device: torch.device) -> Tensor:
    """On the device, without waiting for what it is doing."""
    return (
        values.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else values.to(device)
    )


_BLOCK = 8
"""Tokens that are worth a block of their own."""


@dataclass(frozen=True, slots=True)
class Routing:
    """Which rows of a batch belong to which slot. Rows of one slot stand together, in one block or
    several."""

    slots: Tensor | None
    """The slot of each block of rows, a slot with several blocks several times; None when they
    follow each other from `first` on, one block each: then nothing is copied."""
    blocks: int
    first: int = 0
    index: Tensor | None = None
    """For blocks of different sizes, [blocks * most rows]: the row at each place. None when all are
    of one size."""
    places: Tensor | None = None
    """The other way round: the place of each row."""
    owners: Tensor | None = None
    """Where slots have several blocks: the slots, each once."""
    sums: Tensor | None = None
    """With these, [owners, blocks]: 1 where a block is the owner's. A product with it adds up the
    blocks of each, always in the same order."""
    kept: dict[int, Tensor] | None = None
    """What blocks needed, by tensor, for passes between which no weight changes: copied once and
    not in every pass."""

    @staticmethod
    def of(slots: Sequence[int], population: "Population", tokens: int = 1) -> "Routing":
        """The routing of rows of so many tokens, whose slots are given row by row."""
        order = list(dict.fromkeys(slots))
        counts = [0] * len(order)
        number = {slot: block for block, slot in enumerate(order)}
        for before, slot in zip([None, *slots], slots, strict=False):
            counts[number[slot]] += 1
            assert before == slot or counts[number[slot]] == 1, "rows of one slot stand together"
        device = population.device
        first = order[0]
        chosen = (
            None
            if order == list(range(first, first + len(order)))
            else put(torch.tensor(order), device)
        )
        if len(set(counts)) == 1:
            return Routing(chosen, len(order), first)
        size = math.gcd(*counts)
        # a slot with more rows has several blocks, where to copy its weights is less than to copy
        # the rows
        if size * tokens >= max(_BLOCK, population.rank):
            numbers = torch.tensor(
                [number for number, count in enumerate(counts) for _ in range(count // size)]
            )
            owners, sums = (
                torch.tensor(order),
                torch.nn.functional.one_hot(numbers, len(order)).float().T.contiguous(),
            )
            return Routing(
                put(owners[numbers], device),
                len(numbers),
                owners=put(owners, device),
                sums=put(sums, device),
            )
        most = max(counts)
        index, places, row = [], [], 0
        for block, count in enumerate(counts):
            index.append(
                [row + min(place, count - 1) for place in range(most)]
            )  # a short block repeats its last row
            places += [block * most + place for place in range(count)]
            row += count
        return Routing(
            chosen,
            len(order),
            first,
            put(torch.tensor(index).flatten(), device),
            put(torch.tensor(places), device),
        )

    @staticmethod
    def of_runs(slots: Sequence[int]) -> "Routing":
        """The routing of equal blocks on a CPU, for passes between which no weight changes.
        Neighbours of one slot are one block, where all are."""
        runs = [(slot, len(list(run))) for slot, run in groupby(slots)]
        size = math.gcd(*(count for _, count in runs))
        owners = [slot for slot, count in runs for _ in range(count // size)]
        if owners == list(range(owners[0], owners[0] + len(owners))):
            return Routing(None, len(owners), owners[0])
        return Routing(torch.tensor(owners), len(owners), kept={})

    def of_blocks(self, matrix: Tensor) -> Tensor:
        """What each block needs of a tensor that has a place for every slot."""
        if self.slots is None:
            return matrix[self.first : self.first + self.blocks]
        if self.kept is None:
            return matrix[self.slots]
        if matrix.data_ptr() not in self.kept:
            self.kept[matrix.data_ptr()] = matrix[self.slots]
        return self.kept[matrix.data_ptr()]

    def add(self, matrix: Tensor, found: Tensor) -> None:
        """Add what was found for each block to its slot's place. No place is added to twice at
        once: a GPU, too, comes to the same sums."""
        owners = self.slots if self.owners is None else self.owners
        assert owners is not None
        found = found.float()
        matrix.index_add_(
            0,
            owners,
            found
            if self.sums is None
            else (self.sums @ found.flatten(1)).view(-1, *found.shape[1:]),
        )

    def gather(self, x: Tensor) -> Tensor:
        """[rows, tokens, n] as [blocks, rows * tokens, n]."""
        if self.index is not None:
            x = x.index_select(0, self.index)
        return x.reshape(self.blocks, -1, x.shape[-1])

    def scatter(self, x: Tensor, tokens: int) -> Tensor:
        """The other way round."""
        x = x.reshape(-1, tokens, x.shape[-1])
        return x if self.places is None else x.index_select(0, self.places)


class Population(nn.Module):
    """The adapters of all slots on one base."""

    def __init__(
        self,
        base: Base,
        slots: int,
        rank: int,
        alpha: float,
        targets: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.base, self.slots, self.rank, self.scale, self.alpha = (
            base,
            slots,
            rank,
            alpha / rank,
            alpha,
        )
        self.device = base.device
        linears = dict(_targets(base, targets))
        self.names = list(linears)
        self.layout: dict[str, tuple[int, int, int]] = {}
        """Where each projection's weights begin in a row, and its sizes in and out."""
        size = 0
        for name, linear in linears.items():
            self.layout[name] = size, linear.in_features, linear.out_features
            size += rank * (linear.in_features + linear.out_features)
        self.weights = torch.zeros(slots, size, device=self.device)
        self.grads = torch.zeros_like(self.weights)
        self.same_dtype = base.dtype == torch.float32
        self.used = self.weights if self.same_dtype else self.weights.to(base.dtype)
        """The weights in the base's dtype."""
        self.routing: Routing | None = None
        self.sisters = [
            Sisters(self, names, [linears[name] for name in names])
            for names in _sisters(self.names)
        ]
        """Projections that have their input in common, such as those of queries, keys and values."""
        for sisters in self.sisters:
            for name in sisters.names:
                _replace(base.model, name, AdaptedLinear(self, name, linears[name], sisters))
        for slot in range(slots):
            self.reset(slot, seed + slot)

    @property
    def parameters_each(self) -> int:
        """Weights of one member."""
        return self.weights.shape[1]

    def views(self, matrix: Tensor, name: str) -> tuple[Tensor, Tensor]:
        """A[slot, in, r] and B[slot, r, out] of one projection in a matrix of this layout."""
        start, inside, outside = self.layout[name]
        middle, end = start + inside * self.rank, start + self.rank * (inside + outside)
        return matrix[:, start:middle].unflatten(1, (inside, self.rank)), matrix[
            :, middle:end
        ].unflatten(1, (self.rank, outside))

    @contextmanager
    def routed(self, routing: Routing | None) -> Iterator[None]:
        """Within: rows are served by their members; without a routing, by the bare base."""
        before, self.routing = self.routing, routing
        try:
            yield
        finally:
            self.routing = before

    def changed(self) -> None:
        """To be called when the weights have changed."""
        if not self.same_dtype:
            self.used.copy_(self.weights)
        for sisters in self.sisters:
            sisters.refresh()

    def reset(self, slot: int, seed: int) -> None:
        """A newborn: A by chance, B zero."""
        generator = torch.Generator().manual_seed(seed)
        adapter: Adapter = {}
        for name, (_, inside, outside) in self.layout.items():
            bound = 1 / math.sqrt(inside)
            first = (torch.rand(inside, self.rank, generator=generator) * 2 - 1) * bound
            adapter[name] = first, torch.zeros(self.rank, outside)
        self.write(slot, adapter)

    def distances(self, first: int, count: int) -> Tensor:
        """[count, count], of the slots from the first one on: the norm of the difference of two
        members, as the products that are added to the base. They are never formed: <A B, C D> is
        the sum over (A^T C) * (B D^T), which are as small as the rank."""
        inner = torch.zeros(count, count, dtype=torch.float64, device=self.device)
        for name in self.names:
            inner += _inner(*self.views(self.weights[first : first + count], name))
        inner *= self.scale**2
        norms = inner.diagonal()
        return (norms[:, None] + norms[None, :] - 2 * inner).clamp(min=0).sqrt()

    def read(self, slot: int) -> Adapter:
        row = self.weights[slot : slot + 1].cpu()
        return {
            name: (a[0].clone(), b[0].clone())
            for name in self.names
            for a, b in [self.views(row, name)]
        }

    def write(self, slot: int, adapter: Adapter) -> None:
        if set(adapter) != set(self.names):
            odd = sorted(set(adapter) ^ set(self.names))
            raise ConfigError(
                f"the adapter is not of this population: it differs in {', '.join(odd[:4])}"
                + (" ..." if len(odd) > 4 else "")
            )
        row = torch.empty(1, self.parameters_each)
        for name, (first, second) in adapter.items():
            a, b = self.views(row, name)
            if first.shape != a.shape[1:] or second.shape != b.shape[1:]:
                shapes = f"{tuple(first.shape)} and {tuple(second.shape)}, expected {tuple(a.shape[1:])} and {tuple(b.shape[1:])}"
                raise ConfigError(
                    f"the adapter's weights for {name} have the shapes {shapes}: another base, or another rank"
                )
            a[0], b[0] = first, second
        self.weights[slot] = row[0].to(self.device)
        self.changed()


class AdaptedLinear(nn.Module):
    """A frozen linear layer with an adapter for each slot."""

    def __init__(
        self, population: Population, name: str, linear: nn.Linear, sisters: Sisters
    ) -> None:
        super().__init__()
        self.linear = linear
        self.sisters, self.number = sisters, sisters.names.index(name)
        self.weight, self.bias = linear.weight, linear.bias  # where other code looks for them
        # not as submodules: the population is the owner
        self.__dict__["population"] = population
        self.a, self.b = (
            view.detach().requires_grad_() for view in population.views(population.weights, name)
        )
        self.grad_a, self.grad_b = population.views(population.grads, name)
        self.used_a, self.used_b = population.views(population.used, name)

    @property
    def routing(self) -> Routing | None:
        """Of the pass that is under way."""
        population: Population = self.__dict__["population"]
        return population.routing

    def forward(self, x: Tensor) -> Tensor:
        population: Population = self.__dict__["population"]
        routing = self.routing
        if self.sisters.serves(x, routing):
            return self.sisters.value(x, routing, self.number)
        if routing is None:
            return nn.functional.linear(x, self.linear.weight, self.linear.bias)
        if torch.is_grad_enabled():
            return _Routed.apply(x, self.a, self.b, self, routing, population.scale)  # type: ignore[no-any-return, no-untyped-call]
        # without a backward pass A is applied once for all projections with this input
        return self.value(x, self.sisters.low(x, routing, self.number), routing, population.scale)

    def value(self, x: Tensor, low: Tensor, routing: Routing, scale: float) -> Tensor:
        """The base's value, and what B makes of the input after A."""
        plain = nn.functional.linear(x, self.linear.weight, self.linear.bias)
        b = routing.of_blocks(self.used_b)
        if routing.index is None:
            return (
                plain.view(routing.blocks, -1, plain.shape[-1])
                .baddbmm_(low, b, alpha=scale)
                .view_as(plain)
            )
        return plain.add_(routing.scatter(torch.bmm(low, b), x.shape[1]), alpha=scale)


class _Routed(torch.autograd.Function):
    """The adapted layer with a backward pass of its own: the base needs no gradient, and the
    adapters' are summed in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        layer: AdaptedLinear,
        routing: Routing,
        scale: float,
    ) -> Tensor:
        low = torch.bmm(routing.gather(x), routing.of_blocks(layer.used_a))
        ctx.save_for_backward(x, low)
        ctx.layer, ctx.routing, ctx.scale = layer, routing, scale
        return layer.value(x, low, routing, scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        x, low = ctx.saved_tensors
        layer, routing, scale = ctx.layer, ctx.routing, ctx.scale
        a, b = routing.of_blocks(layer.used_a), routing.of_blocks(layer.used_b)
        dy_blocks = routing.gather(dy)
        if routing.index is not None:
            dy_blocks = dy_blocks * _real(routing, x.shape[1], dy.dtype)
        d_low = torch.bmm(dy_blocks, b.transpose(1, 2)) * scale
        d_b = torch.bmm(low.transpose(1, 2), dy_blocks) * scale
        d_a = torch.bmm(routing.gather(x).transpose(1, 2), d_low)
        # added here and not by autograd, which would want gradients in a layout of their own
        if routing.slots is None:
            routing.of_blocks(layer.grad_a).add_(d_a)
            routing.of_blocks(layer.grad_b).add_(d_b)
        else:
            routing.add(layer.grad_a, d_a)
            routing.add(layer.grad_b, d_b)
        dx = None
        if ctx.needs_input_grad[0]:
            dx = (
                routing.scatter(torch.bmm(d_low, a.transpose(1, 2)), x.shape[1])
                + dy @ layer.linear.weight
            )
        return dx, None, None, None, None, None


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """<A_p B_p, A_q B_q> for all p and q."""
    slots, inside, rank = a.shape
    first = a.transpose(0, 1).reshape(inside, slots * rank)
    second = b.reshape(slots * rank, -1)
    product = (first.T @ first) * (second @ second.T)
    return product.view(slots, rank, slots, rank).sum((1, 3), dtype=torch.float64)


def _real(routing: Routing, tokens: int, dtype: torch.dtype) -> Tensor:
    """1 where a block has a row of its own, 0 where it only repeats one."""
    assert routing.index is not None and routing.places is not None
    mask = torch.zeros(routing.index.numel(), device=routing.index.device, dtype=dtype)
    mask[routing.places] = 1
    return mask.repeat_interleave(tokens).view(routing.blocks, -1, 1)


def _targets(base: Base, targets: Sequence[str]) -> Iterable[tuple[str, nn.Linear]]:
    """The linear layers to adapt: all of the decoder, or those with the given last names."""
    outside = base.model.get_output_embeddings()
    found = [
        (name, module)
        for name, module in base.model.named_modules()
        if isinstance(module, nn.Linear) and module is not outside
    ]
    if any(isinstance(module, AdaptedLinear) for module in base.model.modules()):
        raise ConfigError("this base carries a population already: load it again for another one")
    last_names = {name.rpartition(".")[2] for name, _ in found}
    for target in targets:
        if target not in last_names:
            raise ConfigError(unknown("projection", target, last_names))
    return [
        (name, module)
        for name, module in found
        if not targets or name.rpartition(".")[2] in targets
    ]


_COMMON_INPUT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


def _sisters(names: Sequence[str]) -> list[list[str]]:
    """The names in groups that have their input in common."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        parent, _, last = name.rpartition(".")
        group = next((common for common in _COMMON_INPUT if last in common), (last,))
        groups.setdefault((parent, *group), []).append(name)
    return list(groups.values())


def _replace(model: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, new)
