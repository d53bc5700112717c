"""Projections with a common input, such as those of queries, keys and values: what can be computed
once for all of them.

Without gradients A is applied once for all. On a GPU with Triton their base weights are views of
one matrix, with A of every adapter as further rows below: [base outputs + adapters * projections *
rank, in]. One product then gives the base's outputs of all projections and the rows after A, and
one kernel adds B for all of them.
"""

import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

if TYPE_CHECKING:
    from redqueen.engine.torch.adapter_kernels import LoraAOutput, LoraB
    from redqueen.engine.torch.population import Population
    from redqueen.engine.torch.routing import Routing

_MAX_LORA_COLUMNS = 1024
"""Up to here A of all adapters goes with the base's product: the outputs of other adapters that
nobody needs cost less than a launch of shrink would."""
_MAX_RANK = 128
"""What fits into a multiprocessor's shared memory."""


def has_kernels(device: torch.device) -> bool:
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


T = TypeVar("T")


class _SharedResult(Generic[T]):
    """A result for one input, computed for the first projection and kept for the others.

    The projections of a layer are separate modules that the model calls one after the other with
    the same input tensor. The result is kept from the call of the first to the call of the last,
    for that very tensor and routing only; any other call computes anew. It would be stale only if
    the model changed its input in place between the projections, which no model does: they would
    then have different inputs.
    """

    def __init__(self, projections: int) -> None:
        self.last_index = projections - 1
        self.kept: tuple[Tensor, Routing | None, T] | None = None

    def get(self, index: int, x: Tensor, routing: "Routing | None", compute: Callable[[], T]) -> T:
        kept = self.kept
        if index == 0 or kept is None or kept[0] is not x or kept[1] is not routing:
            kept = x, routing, compute()
        self.kept = None if index == self.last_index else kept
        return kept[2]


class FusedProjections:
    """Projections that are applied to the same input, one after the other."""

    def __init__(
        self, population: "Population", names: Sequence[str], linears: Sequence[nn.Linear]
    ) -> None:
        self.population, self.names, self.rank = population, list(names), population.rank
        self.widths = [layer.out_features for layer in linears]
        self.base_columns = sum(self.widths)
        self.lora_columns = len(names) * population.rank
        """Outputs of A of one adapter."""
        same_bias = len({layer.bias is None for layer in linears}) == 1
        self.fused = has_kernels(population.device) and same_bias and self.rank <= _MAX_RANK
        """Whether all of them are one product and one kernel in passes without gradients."""
        a = torch.cat([population.views(population.used, name)[0] for name in self.names], 2)
        self.a = self._fuse(linears).copy_(a) if self.fused else a
        """[adapters, in, projections * rank]; where fused, a view of the fused weight."""
        self.lora_a_outputs: _SharedResult[Tensor] = _SharedResult(len(names))
        self.outputs: _SharedResult[list[Tensor]] = _SharedResult(len(names))

    def _fuse(self, linears: Sequence[nn.Linear]) -> Tensor:
        """Move the base's weights into one matrix, of which the layers keep views. Returns the
        place for A in it, [adapters, in, projections * rank]."""
        from redqueen.engine.torch.adapter_kernels import NUM_COUNTERS

        like, adapters = linears[0].weight.data, self.population.slots
        rows = self.base_columns + adapters * self.lora_columns
        self.weight = like.new_zeros(rows, like.shape[1])
        self.bias = None if linears[0].bias is None else like.new_zeros(rows)
        end = 0
        for layer in linears:
            start, end = end, end + layer.out_features
            self.weight[start:end] = layer.weight.data
            layer.weight.data = self.weight[start:end]
            if self.bias is not None:
                self.bias[start:end] = layer.bias.data
                layer.bias.data = self.bias[start:end]
        self.counters = torch.zeros(NUM_COUNTERS, dtype=torch.int32, device=like.device)
        a = self.weight[self.base_columns :].view(adapters, self.lora_columns, -1)
        return a.transpose(1, 2)

    def refresh(self) -> None:
        """Copy A again after the weights have changed."""
        for index, name in enumerate(self.names):
            a, _ = self.population.views(self.population.used, name)
            self.a[:, :, index * self.rank : (index + 1) * self.rank] = a

    # without kernels

    def lora_a_output(self, x: Tensor, routing: "Routing", index: int) -> Tensor:
        """The input in blocks times A of one projection, [blocks, rows, rank]."""

        def compute() -> Tensor:
            # where A lies as rows of the fused weight, rows are gathered, not columns
            a = routing.of_blocks(self.a.mT).mT if self.fused else routing.of_blocks(self.a)
            return torch.bmm(routing.gather(x), a)

        outputs = self.lora_a_outputs.get(index, x, routing, compute)
        return outputs[:, :, index * self.rank : (index + 1) * self.rank]

    # with kernels

    def can_fuse(self, x: Tensor, routing: "Routing | None") -> bool:
        """Whether this pass can go through the fused product: blocks of rows of equal size, no
        gradients."""
        return (
            self.fused
            and not torch.is_grad_enabled()
            and x.dim() == 3
            and (routing is None or routing.index is None)
        )

    def output(self, x: Tensor, routing: "Routing | None", index: int) -> Tensor:
        """Output of one projection for [sequences, tokens, in]."""
        outputs = self.outputs.get(
            index, x, routing, lambda: self._compute_outputs(x.flatten(0, 1), routing)
        )
        return outputs[index].view(*x.shape[:2], -1)

    def _compute_outputs(self, x: Tensor, routing: "Routing | None") -> list[Tensor]:
        base_out, lora_a_out = self._apply_base_and_a(x, routing)
        if routing is None or lora_a_out is None:
            return list(base_out.split(self.widths, 1))
        from redqueen.engine.torch.adapter_kernels import expand

        return expand(base_out, lora_a_out, self._lora_b(), routing)

    def swiglu(self, x: Tensor, routing: "Routing | None") -> Tensor:
        """silu(gate) * up, where these two are the gate and the up projection."""
        from redqueen.engine.torch.adapter_kernels import expand_swiglu

        base_out, lora_a_out = self._apply_base_and_a(x.flatten(0, 1), routing)
        b = None if lora_a_out is None else self._lora_b()
        return expand_swiglu(base_out, lora_a_out, b, routing).view(*x.shape[:2], -1)

    def _apply_base_and_a(
        self, x: Tensor, routing: "Routing | None"
    ) -> "tuple[Tensor, LoraAOutput | None]":
        """Rows, [rows, in], times the base's weights of all projections, and times A."""
        if routing is None:
            return self._product(x, self.base_columns), None
        from redqueen.engine.torch.adapter_kernels import LoraAOutput, shrink

        adapters = self.population.slots
        if routing.slots is None:
            adapters = routing.first + routing.blocks
        if adapters * self.lora_columns <= _MAX_LORA_COLUMNS:
            out = self._product(x, self.base_columns + adapters * self.lora_columns)
            return out, LoraAOutput(out[:, self.base_columns :], self.lora_columns)
        lora_a_out = shrink(x.contiguous(), self.a.transpose(1, 2), routing, self.counters)
        return self._product(x, self.base_columns), LoraAOutput(lora_a_out)

    def _product(self, x: Tensor, columns: int) -> Tensor:
        return linear(x, self.weight[:columns], None if self.bias is None else self.bias[:columns])

    def _lora_b(self) -> "LoraB":
        from redqueen.engine.torch.adapter_kernels import LoraB

        population = self.population
        starts = [
            start + features * self.rank
            for start, features, _ in (population.layout[name] for name in self.names)
        ]
        return LoraB(population.used, starts, self.widths, self.rank, population.scale)
