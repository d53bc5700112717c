"""What adapters do in sampling on a GPU, in kernels of our own: rows of every member through its A,
and what B makes of that.

TextCompletion out in torch it is a small product for each projection, and a copy of the weights where
slots do not follow each other. Here B of all sisters is one launch, slots are looked up in the
kernel, and the gate of a layer's middle is in the same launch. Products of the base are cuBLAS's.
The same call twice gives the same bits: parts of a sum are added in their order, by whoever comes
last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from redqueen.engine.torch.routing import Routing

_BUSY = 264
"""Programs that keep a large GPU busy: two for each of its processors."""
_DEPTH = 64
"""How much of a sum is added at a time."""


@dataclass(frozen=True, slots=True)
class Low:
    """Rows after A, [rows, at least `sisters * rank`]. Where a row has the values of every slot,
    those of its own begin at `slot * step`."""

    values: Tensor
    step: int = 0


@dataclass(frozen=True, slots=True)
class Seconds:
    """B of all sisters: in the row of a slot each begins at its start, as [rank, width]."""

    matrix: Tensor
    starts: Sequence[int]
    widths: Sequence[int]
    rank: int
    scale: float


def shrink(x: Tensor, a: Tensor, routing: Routing, counters: Tensor) -> Tensor:
    """[rows, in] after A, [slots, width, in], of each row's slot: [rows, width]. The counters are
    zero before and after."""
    lanes, inside = x.shape
    width, rows = a.shape[1], lanes // routing.blocks
    tall, wide = _power(rows, 64), _power(width, 32)
    tiles = routing.blocks * triton.cdiv(rows, tall), triton.cdiv(width, wide)
    splits = _splits(
        tiles[0] * tiles[1], inside
    )  # more than one only for fewer tiles than there are counters
    share = triton.cdiv(triton.cdiv(inside, splits), _DEPTH) * _DEPTH
    splits = triton.cdiv(inside, share)
    low = x.new_empty(lanes, width)
    parts = (
        low
        if splits == 1
        else torch.empty(
            tiles[0] * tiles[1] * splits * tall * wide, dtype=torch.float32, device=x.device
        )
    )
    _shrink[(*tiles, splits)](
        x,
        a,
        counters if routing.slots is None else routing.slots,
        low,
        parts,
        counters,
        routing.first,
        rows,
        width,
        inside,
        share,
        *(x.stride(0), a.stride(0), a.stride(1)),
        routing.slots is not None,
        splits,
        tall,
        wide,
        _DEPTH,
        num_warps=4,
        num_stages=4,
    )
    return low


def _splits(tiles: int, inside: int) -> int:
    """How many programs share a sum, so that the GPU is busy and each has a few turns."""
    return 1 if tiles >= _BUSY else max(1, min(16, _BUSY // 2 // tiles, inside // (4 * _DEPTH)))


@triton.jit
def _shrink(
    x,
    a,
    slots,
    low,
    parts,
    counters,
    first,
    rows,
    width,
    inside,
    share,
    x_row,
    a_slot,
    a_row,
    LISTED: tl.constexpr,
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    tall = tl.cdiv(rows, ROWS)
    block, part = tl.program_id(0) // tall, tl.program_id(2)
    slot = (tl.load(slots + block) if LISTED else first + block).to(tl.int64)
    of_rows = (tl.program_id(0) % tall) * ROWS + tl.arange(0, ROWS)
    of_wide = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    of_depth = tl.arange(0, DEPTH)
    lanes = (block * rows + of_rows).to(tl.int64)
    x += lanes[:, None] * x_row
    a += slot * a_slot + of_wide[:, None] * a_row
    total = tl.zeros([ROWS, WIDE], tl.float32)
    for start in range(part * share, tl.minimum(part * share + share, inside), DEPTH):
        places = start + of_depth
        there = places < inside
        left = tl.load(
            x + places[None, :], mask=(of_rows < rows)[:, None] & there[None, :], other=0.0
        )
        right = tl.load(
            a + places[None, :], mask=(of_wide < width)[:, None] & there[None, :], other=0.0
        )
        total += tl.dot(left, tl.trans(right), input_precision="ieee")
    real = (of_rows < rows)[:, None] & (of_wide < width)[None, :]
    low += lanes[:, None] * width + of_wide[None, :]
    if SPLITS == 1:
        tl.store(low, total.to(low.dtype.element_ty), mask=real)
    else:
        tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        parts += (
            tile * (SPLITS * ROWS * WIDE)
            + tl.arange(0, ROWS)[:, None] * WIDE
            + tl.arange(0, WIDE)[None, :]
        )
        tl.store(parts + part * (ROWS * WIDE), total)
        tl.debug_barrier()  # all of this program's part is written before it says so
        before = tl.atomic_add(counters + tile, 1, sem="acq_rel")
        if before == SPLITS - 1:
            tl.debug_barrier()
            total = tl.zeros([ROWS, WIDE], tl.float32)
            for one in range(SPLITS):
                total += tl.load(parts + one * (ROWS * WIDE), cache_modifier=".cg")
            tl.store(low, total.to(low.dtype.element_ty), mask=real)
            tl.store(counters + tile, 0)


def expand(plain: Tensor, low: Low, b: Seconds, routing: Routing) -> list[Tensor]:
    """What the base makes of the rows for all sisters, [rows, widths one after the other], plus
    what B makes of them: one tensor for each sister."""
    lanes, rows = len(plain), len(plain) // routing.blocks
    total, tall = sum(b.widths), _power(rows, 64)
    parts = routing.blocks * triton.cdiv(rows, tall)
    wide = _columns(parts, b.widths, _area(plain) // tall)
    found = plain.new_empty(lanes * total)
    absent = [0] * (3 - len(b.widths))
    _expand[(sum(triton.cdiv(width, wide) for width in b.widths), parts)](
        plain,
        low.values,
        b.matrix,
        b.matrix if routing.slots is None else routing.slots,
        found,
        b.scale,
        routing.first,
        lanes,
        rows,
        b.rank,
        *(plain.stride(0), low.values.stride(0), low.step, b.matrix.stride(0)),
        *(*b.starts, *absent),
        *(*b.widths, *absent),
        routing.slots is not None,
        tall,
        _power(b.rank),
        wide,
        num_warps=4,
    )
    return [
        part.view(lanes, width)
        for part, width in zip(
            found.split([lanes * width for width in b.widths]), b.widths, strict=True
        )
    ]


@triton.jit
def _expand(
    plain,
    low,
    b,
    slots,
    found,
    scale,
    first,
    count,
    rows,
    rank,
    plain_row,
    low_row,
    low_step,
    b_slot,
    start_0,
    start_1,
    start_2,
    width_0,
    width_1,
    width_2,
    LISTED: tl.constexpr,
    ROWS: tl.constexpr,
    RANK: tl.constexpr,
    WIDE: tl.constexpr,
):
    tile, tall = tl.program_id(0), tl.cdiv(rows, ROWS)
    block = tl.program_id(1) // tall
    slot = (tl.load(slots + block) if LISTED else first + block).to(tl.int64)
    after_0 = tl.cdiv(width_0, WIDE)
    after_1 = after_0 + tl.cdiv(width_1, WIDE)
    second, third = tile >= after_0, tile >= after_1
    sister = second.to(tl.int32) + third.to(tl.int32)
    start = tl.where(third, start_2, tl.where(second, start_1, start_0))
    width = tl.where(third, width_2, tl.where(second, width_1, width_0))
    before = tl.where(third, width_0 + width_1, tl.where(second, width_0, 0))
    tile -= tl.where(third, after_1, tl.where(second, after_0, 0))
    of_rows = (tl.program_id(1) % tall) * ROWS + tl.arange(0, ROWS)
    of_wide = tile * WIDE + tl.arange(0, WIDE)
    of_rank = tl.arange(0, RANK)
    lanes = (block * rows + of_rows).to(tl.int64)[:, None]
    real = (of_rows < rows)[:, None] & (of_wide < width)[None, :]
    value = tl.load(plain + lanes * plain_row + before + of_wide[None, :], mask=real, other=0.0)
    left = tl.load(
        low + lanes * low_row + slot * low_step + sister * rank + of_rank[None, :],
        mask=(of_rows < rows)[:, None] & (of_rank < rank)[None, :],
        other=0.0,
    )
    right = tl.load(
        b + slot * b_slot + start + of_rank[:, None] * width + of_wide[None, :],
        mask=(of_rank < rank)[:, None] & (of_wide < width)[None, :],
        other=0.0,
    )
    value = value.to(tl.float32) + scale * tl.dot(left, right, input_precision="ieee")
    tl.store(
        found + before.to(tl.int64) * count + lanes * width + of_wide[None, :],
        value.to(found.dtype.element_ty),
        mask=real,
    )


def gated(plain: Tensor, low: Low | None, b: Seconds | None, routing: Routing | None) -> Tensor:
    """SiLU of the first half of the columns times the second half, after what B adds to both;
    without B, of the base's values alone."""
    routing = Routing(None, 1) if routing is None else routing
    lanes, rows, width = (
        len(plain),
        len(plain) // routing.blocks,
        plain.shape[1] // 2 if b is None else b.widths[0],
    )
    tall = _power(rows, 64)
    parts = routing.blocks * triton.cdiv(rows, tall)
    wide = _columns(parts, [width], _area(plain) // tall)
    found = plain.new_empty(lanes, width)
    start_gate, start_up = (0, 0) if b is None else b.starts
    rank, scale = (1, 1.0) if b is None else (b.rank, b.scale)
    matrix, values = plain if b is None else b.matrix, plain if low is None else low.values
    _gated[(triton.cdiv(width, wide), parts)](
        plain,
        values,
        matrix,
        plain if routing.slots is None else routing.slots,
        found,
        scale,
        routing.first,
        rows,
        rank,
        width,
        *(plain.stride(0), values.stride(0), 0 if low is None else low.step, matrix.stride(0)),
        *(start_gate, start_up),
        b is not None,
        routing.slots is not None,
        tall,
        _power(rank),
        wide,
        num_warps=4,
    )
    return found


@triton.jit
def _gated(
    plain,
    low,
    b,
    slots,
    found,
    scale,
    first,
    rows,
    rank,
    width,
    plain_row,
    low_row,
    low_step,
    b_slot,
    start_gate,
    start_up,
    ADAPTED: tl.constexpr,
    LISTED: tl.constexpr,
    ROWS: tl.constexpr,
    RANK: tl.constexpr,
    WIDE: tl.constexpr,
):
    tall = tl.cdiv(rows, ROWS)
    block = tl.program_id(1) // tall
    of_rows = (tl.program_id(1) % tall) * ROWS + tl.arange(0, ROWS)
    of_wide = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    lanes = (block * rows + of_rows).to(tl.int64)[:, None]
    real = (of_rows < rows)[:, None] & (of_wide < width)[None, :]
    plain += lanes * plain_row + of_wide[None, :]
    gate = tl.load(plain, mask=real, other=0.0).to(tl.float32)
    up = tl.load(plain + width, mask=real, other=0.0).to(tl.float32)
    dtype = found.dtype.element_ty
    if ADAPTED:
        slot = (tl.load(slots + block) if LISTED else first + block).to(tl.int64)
        of_rank = tl.arange(0, RANK)
        low += lanes * low_row + slot * low_step + of_rank[None, :]
        b += slot * b_slot + of_rank[:, None] * width + of_wide[None, :]
        some = (of_rows < rows)[:, None] & (of_rank < rank)[None, :]
        both = (of_rank < rank)[:, None] & (of_wide < width)[None, :]
        gate += scale * tl.dot(
            tl.load(low, mask=some, other=0.0),
            tl.load(b + start_gate, mask=both, other=0.0),
            input_precision="ieee",
        )
        up += scale * tl.dot(
            tl.load(low + rank, mask=some, other=0.0),
            tl.load(b + start_up, mask=both, other=0.0),
            input_precision="ieee",
        )
        gate, up = (
            gate.to(dtype).to(tl.float32),
            up.to(dtype).to(tl.float32),
        )  # rounded where the model's own code rounds
    gate = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    tl.store(found + lanes * width + of_wide[None, :], (gate * up).to(dtype), mask=real)


def _power(size: int, most: int = 1 << 30) -> int:
    """The power of two that holds so many, within what a product in a kernel takes."""
    return max(16, min(most, 1 << (size - 1).bit_length()))


def _area(values: Tensor) -> int:
    """Numbers of a tile, so that they stay in registers."""
    return 8192 // values.element_size()


def _columns(parts: int, widths: Sequence[int], most: int) -> int:
    """Columns of a tile: as many as leave enough tiles to keep the GPU busy."""
    size = min(256, most, _power(min(widths)))
    while size > 32 and parts * sum(widths) < _BUSY * size:
        size //= 2
    return size
