"""A population of LoRA adapters on one frozen base: every member's weights are a row of one matrix,
and one forward pass serves them all.

For each adapted projection there is `A[slot, in, rank]` and `B[slot, rank, out]`, views into that
matrix, so that the optimizer, the reading and the writing of members are plain operations on rows.
Weights are float32 and used in the base's dtype. The base is changed in one way only: its linear
layers are wrapped, and without a routing they compute what they did before. On a GPU the base's
weights of projections with a common input also move into one matrix, see fused_projections.py.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from redqueen.config.machine import machine_memory
from redqueen.engine.torch.fused_projections import FusedProjections
from redqueen.engine.torch.layout import Layout
from redqueen.engine.torch.members import copy_to_host
from redqueen.engine.torch.routing import Routing
from redqueen.errors import ConfigError
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.models.base import Base
from redqueen.models.distances import update_distances

log = logging.getLogger(__name__)
_BYTES_EACH = 4 * 4
"""Of a weight, in float32: itself, its gradient and two moments of AdamW."""


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
        if any(isinstance(module, AdaptedLinear) for module in base.model.modules()):
            raise ConfigError(
                "this base carries a population already: load it again for another one"
            )
        self.base, self.slots, self.rank, self.scale = base, slots, rank, alpha / rank
        self.device = base.device
        self.rows = Layout(base, rank, alpha, targets)
        _check_memory(slots, self.rows, self.device)
        self.layout, self.names = self.rows.places, list(self.rows.places)
        self.weights = torch.zeros(slots, self.rows.size, device=self.device)
        self.grads = torch.zeros_like(self.weights)
        self.same_dtype = base.dtype == torch.float32
        self.used = self.weights if self.same_dtype else self.weights.to(base.dtype)
        """The weights in the base's dtype."""
        self.routing: Routing | None = None
        """Of the forward pass that is under way."""
        linears = self.rows.linears
        self.fused_projections = [
            FusedProjections(self, names, [linears[name] for name in names])
            for names in _group_by_input(self.names)
        ]
        """Projections that have their input in common, such as q_proj, k_proj and v_proj."""
        for projections in self.fused_projections:
            for name in projections.names:
                _replace(base.model, name, AdaptedLinear(self, name, linears[name], projections))
        for slot in range(slots):
            self.reset(slot, seed + slot)

    @property
    def parameters_each(self) -> int:
        """Weights of one member."""
        return self.rows.size

    def views(self, matrix: Tensor, name: str) -> LoraPair:
        """A [slots, in, rank] and B [slots, rank, out] of a projection, in a matrix like
        `weights`."""
        return self.rows.views(matrix, name)

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
        for projections in self.fused_projections:
            projections.refresh()

    def reset(self, slot: int, seed: int) -> None:
        """A is uniform within 1 / sqrt(in), B zero: a new member equals the base."""
        generator = torch.Generator().manual_seed(seed)
        projections = {}
        for name, (_, inside, outside) in self.layout.items():
            bound = 1 / math.sqrt(inside)
            a = (torch.rand(inside, self.rank, generator=generator) * 2 - 1) * bound
            projections[name] = LoraPair(a, torch.zeros(self.rank, outside))
        self.write(slot, Adapter(projections, self.rank, self.rows.alpha))

    def distances(self, first: int, count: int) -> Tensor:
        """[count, count]: Frobenius distances between the updates scale * A B of the slots from
        `first` on."""
        rows = self.weights[first : first + count]
        return update_distances((self.views(rows, name) for name in self.names), self.scale)

    def read(self, slot: int) -> Adapter:
        return self.rows.to_adapter(copy_to_host({"": self.weights[slot]})[""])

    def write(self, slot: int, adapter: Adapter) -> None:
        self.weights[slot] = self.rows.to_row(adapter).to(self.device)
        self.changed()


class AdaptedLinear(nn.Module):
    """A frozen linear layer with an adapter for each slot."""

    def __init__(
        self, population: Population, name: str, linear: nn.Linear, projections: FusedProjections
    ) -> None:
        super().__init__()
        self.linear = linear
        self.projections, self.index = projections, projections.names.index(name)
        self.weight, self.bias = linear.weight, linear.bias  # where transformers looks for them
        # Not as a submodule: the population owns the layer, not the other way round.
        self.__dict__["population"] = population
        self.a, self.b = (
            view.detach().requires_grad_() for view in population.views(population.weights, name)
        )
        self.grad_a, self.grad_b = population.views(population.grads, name)
        self.used_a, self.used_b = population.views(population.used, name)

    @property
    def routing(self) -> Routing | None:
        """Of the forward pass that is under way."""
        population: Population = self.__dict__["population"]
        return population.routing

    def forward(self, x: Tensor) -> Tensor:
        """[rows, tokens, in] to [rows, tokens, out]."""
        population: Population = self.__dict__["population"]
        routing = self.routing
        if self.projections.can_fuse(x, routing):
            return self.projections.output(x, routing, self.index)
        if routing is None:
            return nn.functional.linear(x, self.linear.weight, self.linear.bias)
        if torch.is_grad_enabled():
            return _AdaptedLinearFunction.apply(  # type: ignore[no-any-return, no-untyped-call]
                x, self.a, self.b, self, routing, population.scale
            )
        # Without a backward pass, A is applied once for all projections with this input.
        lora_a_output = self.projections.lora_a_output(x, routing, self.index)
        return self.value(x, lora_a_output, routing, population.scale)

    def value(self, x: Tensor, xa: Tensor, routing: Routing, scale: float) -> Tensor:
        """The base's output plus scale * xa @ B; xa = x @ A is [blocks, rows * tokens, rank]."""
        plain = nn.functional.linear(x, self.linear.weight, self.linear.bias)
        b = routing.of_blocks(self.used_b)
        if routing.index is None:
            blocks = plain.view(routing.blocks, -1, plain.shape[-1])
            return blocks.baddbmm_(xa, b, alpha=scale).view_as(plain)
        return plain.add_(routing.scatter(torch.bmm(xa, b), x.shape[1]), alpha=scale)


class _AdaptedLinearFunction(torch.autograd.Function):
    """The adapted layer with its own backward: the base needs no gradient, and those of the
    adapters are summed in float32, in place."""

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
        xa = torch.bmm(routing.gather(x), routing.of_blocks(layer.used_a))
        ctx.save_for_backward(x, xa)
        ctx.layer, ctx.routing, ctx.scale = layer, routing, scale
        return layer.value(x, xa, routing, scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        x, xa = ctx.saved_tensors
        layer, routing, scale = ctx.layer, ctx.routing, ctx.scale
        a, b = routing.of_blocks(layer.used_a), routing.of_blocks(layer.used_b)
        dy_blocks = routing.mask_repeated(routing.gather(dy), x.shape[1])
        d_xa = torch.bmm(dy_blocks, b.transpose(1, 2)) * scale
        d_b = torch.bmm(xa.transpose(1, 2), dy_blocks) * scale
        d_a = torch.bmm(routing.gather(x).transpose(1, 2), d_xa)
        # Added here and not by autograd, which would allocate a gradient of all slots per layer.
        if routing.slots is None:
            routing.of_blocks(layer.grad_a).add_(d_a)
            routing.of_blocks(layer.grad_b).add_(d_b)
        else:
            routing.add(layer.grad_a, d_a)
            routing.add(layer.grad_b, d_b)
        dx = None
        if ctx.needs_input_grad[0]:
            dx = (
                routing.scatter(torch.bmm(d_xa, a.transpose(1, 2)), x.shape[1])
                + dy @ layer.linear.weight
            )
        return dx, None, None, None, None, None


_COMMON_INPUT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


def _group_by_input(names: Sequence[str]) -> list[list[str]]:
    """The projections in groups that have their input in common."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        parent, _, last = name.rpartition(".")
        group = next((common for common in _COMMON_INPUT if last in common), (last,))
        groups.setdefault((parent, *group), []).append(name)
    return list(groups.values())


def _replace(model: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, new)


def _check_memory(slots: int, rows: Layout, device: torch.device) -> None:
    """Before anything is allocated: a number too many is a message, and costs no time."""
    needed = slots * rows.size * _BYTES_EACH
    on_gpu = device.type == "cuda"
    total = torch.cuda.mem_get_info(device)[1] if on_gpu else machine_memory()
    if needed > total:
        raise ConfigError(
            f"{slots:,} adapters of rank {rows.rank:,} need {needed / 1e9:,.0f} GB with their "
            f"optimizers, and {'the GPU' if on_gpu else 'this machine'} has {total / 1e9:,.0f} GB. "
            "Lower lora.rank, population.students or population.teachers."
        )
    widest = max(min(inside, outside) for _, inside, outside in rows.places.values())
    if rows.rank > widest:
        log.warning(
            "lora.rank=%d is more than the rank of any projection of the base, which is at most "
            "%d: the weights beyond that add nothing.",
            rows.rank,
            widest,
        )
