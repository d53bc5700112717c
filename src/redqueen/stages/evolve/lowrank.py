"""Linear algebra on what adapters add to the base, Delta = A B, through their low-rank factors:
nothing of the size of Delta is ever made.

Projections of one shape are stacked, so that each operation serves all of them. For one or two
parents side by side, A[n, in, R] and B[n, R, out] with R = r or 2r, everything that is decided is
decided by small matrices R x R: the Gram matrices of the factors, in float64. The eigenvectors of
A's Gram matrix give an orthonormal basis of A's columns, as QR would; those of the core in that
basis give the singular triples of Delta. The products of float32 numbers are exact in float64, so
that the Gram matrices resolve singular values down to 1e-8 of the largest, which is all that
float32 factors hold; and they cost about a fifth of a QR decomposition on a CPU. The small
decompositions run on the CPU wherever the factors are, so that results depend less on the device.

The adapters' scale alpha / rank does not occur: it is one constant for all members, and every
operator commutes with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from redqueen.errors import ConfigError

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

NEWBORN_SIZE = 3**-0.5
"""Length of a newborn's column of A: its entries are uniform within 1 / sqrt(in)."""
_DEPENDENT = 1e-13
"""Squared length, beside the longest, under which a direction of A is no direction but the rounding
of others."""
_NIL = 1e-6
"""Singular values below this share of the largest are taken for zero where one would have to divide
by them."""
_TIE = 1e-14
"""How strongly, beside the core, directions that Delta does not use are ordered by their length in
A."""
_PIECE_CPU, _PIECE_CUDA = 2**21, 2**29
"""Entries of the larger factor in one stack: on a CPU a few projections, since more gain nothing;
on a GPU all of a shape."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One member's factors of several projections of one shape."""

    names: tuple[str, ...]
    a: Tensor
    """[n, in, r]"""
    b: Tensor
    """[n, r, out]"""

    @property
    def rank(self) -> int:
        return self.a.shape[2]

    def svd(self) -> "Svd":
        return Span(self).svd()


class Span:
    """What one or two members' factors span, side by side: A[n, in, R] and B[n, R, out]. Delta is A
    `middle` B with a small `middle`."""

    def __init__(self, *parents: Stack) -> None:
        self.names, self.rank = parents[0].names, parents[0].rank
        self.a = (
            torch.cat([parent.a for parent in parents], 2) if len(parents) > 1 else parents[0].a
        )
        self.b = (
            torch.cat([parent.b for parent in parents], 1) if len(parents) > 1 else parents[0].b
        )
        long_a = self.a.double()
        self.gram_a = (long_a.mT @ long_a).cpu()

    @cached_property
    def gram_b(self) -> Tensor:
        long_b = self.b.double()
        gram: Tensor = (long_b @ long_b.mT).cpu()
        return gram

    @cached_property
    def size(self) -> Tensor:
        """[n, 1, 1]: how long A's columns are. Children keep it, so that they learn at their
        parents' pace; B carries the rest."""
        size: Tensor = self.gram_a.diagonal(dim1=1, dim2=2).mean(1).sqrt()
        return torch.where(size > 0, size, NEWBORN_SIZE)[:, None, None]

    @cached_property
    def basis(self) -> tuple[Tensor, Tensor]:
        """(to, back), both [n, R, R]: A `to` has orthonormal columns, shortest direction first, and
        A = A `to` `back`; nil where A is dependent."""
        squares, vectors = torch.linalg.eigh(self.gram_a)
        live = squares > _DEPENDENT * squares[:, -1:].clamp(min=torch.finfo(torch.float64).tiny)
        lengths = torch.where(live, squares, 0).sqrt()[:, None, :]
        return torch.where(live[:, None, :], vectors / lengths, 0), (vectors * lengths).mT

    def weighted(self, *weights: Tensor | float) -> Tensor:
        """The `middle` that adds up the parents with these weights, a number or one for each
        projection."""
        columns = [
            torch.as_tensor(weight, dtype=torch.float64).cpu().expand(len(self.names))
            for weight in weights
        ]
        return torch.diag_embed(torch.stack(columns, 1).repeat_interleave(self.rank, 1))

    def inner_products(self) -> Tensor:
        """[n, parents, parents]: the products of the parents' Deltas, taken as vectors; on the
        diagonal their squared lengths."""
        blocks: Tensor = (
            (self.gram_a * self.gram_b).unflatten(1, (-1, self.rank)).unflatten(3, (-1, self.rank))
        )
        return blocks.sum((2, 4))

    def coordinates(self) -> list[Tensor]:
        """For each parent [n, R, out]: its Delta in the orthonormal basis that both share."""
        back = self.basis[1].to(self.b)
        blocks = range(0, back.shape[2], self.rank)
        return [
            back[:, :, start : start + self.rank] @ self.b[:, start : start + self.rank]
            for start in blocks
        ]

    def from_coordinates(self, entries: Tensor) -> Stack:
        """The member nearest to a Delta [n, R, out] in that basis."""
        to, back = self.basis
        long = entries.double()
        left = leading((long @ long.mT).cpu(), back, self.rank)
        a = self.a.double() @ (to @ left * self.size).to(self.a.device)
        b = (left.mT / self.size).to(long.device) @ long
        return Stack(self.names, a.float(), b.float())

    def svd(self, middle: Tensor | None = None) -> "Svd":
        """The r leading singular triples of A `middle` B: by Eckart and Young, the nearest Delta of
        rank r."""
        to, back = self.basis
        inner = back if middle is None else back @ middle
        left = leading(inner @ self.gram_b @ inner.mT, back, self.rank)
        return Svd(self, *_signed(to @ left, left.mT @ inner))

    def child(self, left: Tensor, right: Tensor) -> Stack:
        """The member with the factors A `left` and `right` B."""
        device = self.a.device
        return Stack(
            self.names,
            (self.a.double() @ left.to(device)).float(),
            (right.to(device) @ self.b.double()).float(),
        )


def leading(core: Tensor, back: Tensor, rank: int) -> Tensor:
    """[n, R, rank]: eigenvectors of a core with the largest eigenvalues. Where those are nil,
    directions that A has come before others, so that every component of a child has an A to learn
    with."""
    lengths = back.square().sum(2)
    trace = core.diagonal(dim1=1, dim2=2).sum(1)
    weight = torch.where(trace > 0, trace, 1) / lengths.sum(1).clamp(
        min=torch.finfo(torch.float64).tiny
    )
    vectors: Tensor = torch.linalg.eigh(core + _TIE * torch.diag_embed(weight[:, None] * lengths))[
        1
    ]
    return vectors.flip(2)[:, :, :rank]


def _signed(left: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
    """A singular pair is the same with both signs flipped; the largest coefficient of the left one
    is made positive, wherever it is computed."""
    largest = left.gather(1, left.abs().argmax(1, keepdim=True))
    signs = torch.where(largest < 0, -1.0, 1.0).double()
    return left * signs, carried * signs.mT


@dataclass(frozen=True, slots=True)
class Svd:
    """Singular triples of Delta, the strongest first, as small matrices: U = A `left`, S V =
    `carried` B."""

    span: Span
    left: Tensor
    """[n, R, r]"""
    carried: Tensor
    """[n, r, R]: the right singular vectors with their singular values."""

    @property
    def values(self) -> Tensor:
        """[n, r]: the singular values."""
        return (
            (self.carried @ self.span.gram_b @ self.carried.mT)
            .diagonal(dim1=1, dim2=2)
            .clamp(min=0)
            .sqrt()
        )

    @property
    def live(self) -> Tensor:
        """[n, r]: components that are not nil."""
        values = self.values
        return values > _NIL * values.amax(1, keepdim=True)

    @property
    def right(self) -> Tensor:
        """[n, r, R]: V = `right` B, orthonormal rows; nil for components that are."""
        return torch.where(self.live[:, :, None], self.carried / self.values[:, :, None], 0)

    def part(self, start: int, stop: int) -> "Svd":
        """Some of the triples."""
        return Svd(self.span, self.left[:, :, start:stop], self.carried[:, start:stop])

    def child(self) -> Stack:
        """The member whose A is U and whose B carries S V, in the parents' sizes."""
        return self.span.child(self.left * self.span.size, self.carried / self.span.size)


def side_by_side(first: Stack, second: Stack) -> Stack:
    """The sum of two Deltas, as factors of their ranks together."""
    return Stack(first.names, torch.cat([first.a, second.a], 2), torch.cat([first.b, second.b], 1))


def stacks(adapters: Sequence["Adapter"], device: torch.device) -> Iterator[tuple[Stack, ...]]:
    """The members' projections in stacks of one shape, one stack for each member at a time."""
    first = adapters[0].projections
    shapes: dict[tuple[int, int, int], list[str]] = {}
    for name, (a, b) in first.items():
        for other in (adapter.projections for adapter in adapters[1:]):
            if set(other) != set(first) or (other[name][0].shape, other[name][1].shape) != (
                a.shape,
                b.shape,
            ):
                raise ConfigError(
                    "parents must be of one population: their projections, shapes and ranks differ"
                )
        shapes.setdefault((*a.shape, b.shape[1]), []).append(name)
    for (inside, rank, outside), names in shapes.items():
        entries = _PIECE_CUDA if device.type == "cuda" else _PIECE_CPU
        each = max(1, entries // (rank * max(inside, outside)))
        for start in range(0, len(names), each):
            piece = tuple(names[start : start + each])
            yield tuple(_stack(adapter, piece, device) for adapter in adapters)


def _stack(adapter: "Adapter", names: tuple[str, ...], device: torch.device) -> Stack:
    a, b = (
        torch.stack([adapter.projections[name][which] for name in names]).to(device)
        for which in (0, 1)
    )
    if not bool(torch.isfinite(a.sum() + b.sum())):  # a sum is not finite where a part is not
        raise FloatingPointError(f"a parent's weights are not finite, in {names[0]} or beside it")
    return Stack(names, a, b)


def cayley_rotation(noise: Tensor, turn: float) -> Tensor:
    """[n, r, r]: (I - K)^-1 (I + K) of the noise's skew part, scaled so that each direction turns
    by about `turn`."""
    rank = noise.shape[1]
    skew = (noise - noise.mT) * (turn / 2 / (2 * max(1, rank - 1)) ** 0.5)
    identity = torch.eye(rank, dtype=noise.dtype, device=noise.device)
    rotation: Tensor = torch.linalg.solve(identity - skew, identity + skew)
    return rotation
