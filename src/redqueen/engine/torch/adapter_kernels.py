"""Triton kernels for many LoRA adapters in one batch: shrink (rows times A), expand (times B, added
to the base's output), and expand fused with SwiGLU.

Shrink and expand are Punica's names (Chen et al. 2023, arXiv:2310.18547). In plain torch a
projection needs two small batched products, and a copy of the weights where the adapters of the
blocks are not consecutive. Here each kernel looks up the adapter of its block, and B of several
fused projections is one launch. Products of the base are left to cuBLAS.

Rows of a batch stand in blocks of equal size, one adapter per block (`Routing`). The same call
gives the same bits: partial sums are added in a fixed order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from redqueen.engine.torch.routing import Routing

_PROGRAMS = 264
"""Programs that keep a large GPU busy: two for each of its multiprocessors."""
_BLOCK_IN = 64
"""Input features that one iteration of shrink adds up."""
_MAX_BLOCK_ROWS = 64
_MIN_DOT = 16
"""The smallest dimension that `tl.dot` takes."""
NUM_COUNTERS = _PROGRAMS
"""Counters that shrink needs, one per tile: with more tiles nothing is split."""


@dataclass(frozen=True, slots=True)
class LoraAOutput:
    """Rows after A: [rows, projections * rank], or the output of every adapter's A side by side, of
    which a row's own begins at `adapter * adapter_stride`."""

    values: Tensor
    adapter_stride: int = 0


@dataclass(frozen=True, slots=True)
class LoraB:
    """B of fused projections: row `adapter` of `matrix` holds B of projection i from `starts[i]`
    on, as [rank, widths[i]]."""

    matrix: Tensor
    starts: Sequence[int]
    widths: Sequence[int]
    rank: int
    scale: float


@triton.jit
def _adapter_of(block, adapter_ptr, first_adapter):
    """The adapter of a block of rows: listed, or consecutive from the first one on."""
    adapter = first_adapter + block if adapter_ptr is None else tl.load(adapter_ptr + block)
    return adapter.to(tl.int64)


@triton.jit
def _tile_of_rows(tile, rows_per_block, BLOCK_ROWS: tl.constexpr):
    """The block of rows that a tile belongs to, and the rows of the tile within the block."""
    tiles = tl.cdiv(rows_per_block, BLOCK_ROWS)
    return tile // tiles, (tile % tiles) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)


def shrink(x: Tensor, a: Tensor, routing: Routing, counters: Tensor) -> Tensor:
    """Rows times A of their adapters.

    x: [rows, in], contiguous
    a: [adapters, width, in]
    counters: int32, zero before and after
    Returns [rows, width].
    """
    (total_rows, features), width = x.shape, a.shape[1]
    rows_per_block = total_rows // routing.blocks
    block_rows, block_columns = _block_size(rows_per_block, _MAX_BLOCK_ROWS), _block_size(width, 32)
    row_tiles = routing.blocks * triton.cdiv(rows_per_block, block_rows)
    column_tiles = triton.cdiv(width, block_columns)
    tiles = row_tiles * column_tiles
    # Where there are few tiles, several programs share the sum of one (split-K).
    split_in = _round_up(triton.cdiv(features, _count_splits(tiles, features)), _BLOCK_IN)
    splits = triton.cdiv(features, split_in)
    assert splits == 1 or tiles <= len(counters)
    out = x.new_empty(total_rows, width)
    partial = None
    if splits > 1:
        size = tiles * splits * block_rows * block_columns
        partial = torch.empty(size, dtype=torch.float32, device=x.device)
    _shrink_kernel[(row_tiles, column_tiles, splits)](
        out,
        x,
        a,
        partial,
        counters,
        routing.slots,
        routing.first,
        rows_per_block,
        width,
        features,
        split_in,
        (x.stride(0), a.stride(0), a.stride(1)),
        SPLITS=splits,
        BLOCK_ROWS=block_rows,
        BLOCK_COLUMNS=block_columns,
        BLOCK_IN=_BLOCK_IN,
        num_warps=4,
        num_stages=4,
    )
    return out


def _count_splits(tiles: int, features: int) -> int:
    """Programs per tile: enough to keep the GPU busy, each with a few iterations."""
    if tiles >= _PROGRAMS:
        return 1
    return max(1, min(16, _PROGRAMS // 2 // tiles, features // (4 * _BLOCK_IN)))


@triton.jit
def _shrink_kernel(
    out_ptr,
    x_ptr,
    a_ptr,
    partial_ptr,  # [tiles, SPLITS, BLOCK_ROWS, BLOCK_COLUMNS], None where nothing is split
    counter_ptr,
    adapter_ptr,
    first_adapter,
    rows_per_block,
    width,
    features,
    split_in,
    strides,  # row of x; adapter, row of A
    SPLITS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    block, in_rows = _tile_of_rows(tl.program_id(0), rows_per_block, BLOCK_ROWS)
    adapter = _adapter_of(block, adapter_ptr, first_adapter)
    split = tl.program_id(2)
    columns = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    row_index = (block * rows_per_block + in_rows).to(tl.int64)[:, None]
    row_mask, column_mask = (in_rows < rows_per_block)[:, None], columns < width
    x_ptr += row_index * strides[0]
    a_ptr += adapter * strides[1] + columns[:, None] * strides[2]
    total = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    for start in range(split * split_in, tl.minimum((split + 1) * split_in, features), BLOCK_IN):
        inputs = start + tl.arange(0, BLOCK_IN)
        in_mask = (inputs < features)[None, :]
        x = tl.load(x_ptr + inputs[None, :], mask=row_mask & in_mask, other=0.0)
        a = tl.load(a_ptr + inputs[None, :], mask=column_mask[:, None] & in_mask, other=0.0)
        total += tl.dot(x, tl.trans(a), input_precision="ieee")
    mask = row_mask & column_mask[None, :]
    out_ptr += row_index * width + columns[None, :]
    if SPLITS == 1:
        tl.store(out_ptr, total.to(out_ptr.dtype.element_ty), mask=mask)
    else:
        # Every program stores its partial sum and counts itself. The last one to come adds them up
        # in the order of the splits, so that the result does not depend on who was last.
        tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
        size: tl.constexpr = BLOCK_ROWS * BLOCK_COLUMNS
        partial_ptr += (
            tile * (SPLITS * size)
            + tl.arange(0, BLOCK_ROWS)[:, None] * BLOCK_COLUMNS
            + tl.arange(0, BLOCK_COLUMNS)[None, :]
        )
        tl.store(partial_ptr + split * size, total)
        tl.debug_barrier()  # all threads have stored before the program counts itself
        arrived = tl.atomic_add(counter_ptr + tile, 1, sem="acq_rel")
        if arrived == SPLITS - 1:
            tl.debug_barrier()
            total = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
            for other in range(SPLITS):
                # from L2: the L1 cache may hold what was there before
                total += tl.load(partial_ptr + other * size, cache_modifier=".cg")
            tl.store(out_ptr, total.to(out_ptr.dtype.element_ty), mask=mask)
            tl.store(counter_ptr + tile, 0)


def expand(base_out: Tensor, lora_a_out: LoraAOutput, b: LoraB, routing: Routing) -> list[Tensor]:
    """The base's output of fused projections, [rows, all widths side by side], plus what B adds:
    one contiguous [rows, width] for each projection."""
    rows_per_block = len(base_out) // routing.blocks
    block_rows = _block_size(rows_per_block, _MAX_BLOCK_ROWS)
    row_tiles = routing.blocks * triton.cdiv(rows_per_block, block_rows)
    block_columns = _block_columns(row_tiles, block_rows, b.widths, base_out.element_size())
    column_tiles = sum(triton.cdiv(width, block_columns) for width in b.widths)
    out = base_out.new_empty(len(base_out) * sum(b.widths))
    _expand_kernel[(column_tiles, row_tiles)](
        out,
        base_out,
        lora_a_out.values,
        b.matrix,
        routing.slots,
        routing.first,
        len(base_out),
        rows_per_block,
        b.rank,
        b.scale,
        _strides(base_out, lora_a_out, b),
        tuple(b.starts),
        tuple(b.widths),
        BLOCK_ROWS=block_rows,
        BLOCK_RANK=_block_size(b.rank),
        BLOCK_COLUMNS=block_columns,
        num_warps=4,
    )
    parts = out.split([len(base_out) * width for width in b.widths])
    return [part.view(-1, width) for part, width in zip(parts, b.widths, strict=True)]


@triton.jit
def _expand_kernel(
    out_ptr,  # the outputs of all projections one after the other, each [total_rows, width]
    base_ptr,
    lora_a_ptr,
    b_ptr,
    adapter_ptr,
    first_adapter,
    total_rows,
    rows_per_block,
    rank,
    scale,
    strides,  # row of the base's output; row, adapter of A's output; adapter of B
    starts,
    widths,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_RANK: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    block, in_rows = _tile_of_rows(tl.program_id(1), rows_per_block, BLOCK_ROWS)
    adapter = _adapter_of(block, adapter_ptr, first_adapter)
    # Tiles of columns are numbered through all projections: find the one this tile belongs to.
    zero = tl.full([], 0, tl.int32)
    tile, projection, columns_before, tiles_before = tl.program_id(0), zero, zero, zero
    start, width = starts[0], widths[0]
    for i in tl.static_range(1, len(widths)):
        tiles = tiles_before + tl.cdiv(width, BLOCK_COLUMNS)
        later = tile >= tiles
        columns_before = tl.where(later, columns_before + width, columns_before)
        tiles_before = tl.where(later, tiles, tiles_before)
        projection = tl.where(later, i, projection)
        start, width = tl.where(later, starts[i], start), tl.where(later, widths[i], width)
    columns = (tile - tiles_before) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    row_index = (block * rows_per_block + in_rows).to(tl.int64)[:, None]
    row_mask = in_rows < rows_per_block
    mask = row_mask[:, None] & (columns < width)[None, :]
    base = tl.load(
        base_ptr + row_index * strides[0] + columns_before + columns[None, :], mask=mask, other=0.0
    )
    lora_a_ptr += row_index * strides[1] + adapter * strides[2] + projection * rank
    b_ptr += adapter * strides[3] + start
    added = _lora_b_product(lora_a_ptr, b_ptr, row_mask, columns, width, rank, BLOCK_RANK)
    tl.store(
        out_ptr + columns_before.to(tl.int64) * total_rows + row_index * width + columns[None, :],
        (base.to(tl.float32) + scale * added).to(out_ptr.dtype.element_ty),
        mask=mask,
    )


@triton.jit
def _lora_b_product(lora_a_ptr, b_ptr, row_mask, columns, width, rank, BLOCK_RANK: tl.constexpr):
    """Rows after A, at [rows, 1] pointers, times B, [rank, width]: [rows, columns] in float32."""
    ranks = tl.arange(0, BLOCK_RANK)
    left = tl.load(
        lora_a_ptr + ranks[None, :], mask=row_mask[:, None] & (ranks < rank)[None, :], other=0.0
    )
    right = tl.load(
        b_ptr + ranks[:, None] * width + columns[None, :],
        mask=(ranks < rank)[:, None] & (columns < width)[None, :],
        other=0.0,
    )
    return tl.dot(left, right, input_precision="ieee")


def expand_swiglu(
    base_out: Tensor, lora_a_out: LoraAOutput | None, b: LoraB | None, routing: Routing | None
) -> Tensor:
    """SwiGLU of a gate and an up projection: silu(gate) * up, after B has been added to both.

    base_out: [rows, 2 * width], the gate's columns first
    Without B, of the base's output alone. Returns [rows, width].
    """
    routing = Routing(None, 1) if routing is None else routing
    rows_per_block, width = len(base_out) // routing.blocks, base_out.shape[1] // 2
    if b is not None:
        width = b.widths[0]
    block_rows = _block_size(rows_per_block, _MAX_BLOCK_ROWS)
    row_tiles = routing.blocks * triton.cdiv(rows_per_block, block_rows)
    block_columns = _block_columns(row_tiles, block_rows, [width], base_out.element_size())
    out = base_out.new_empty(len(base_out), width)
    _expand_swiglu_kernel[(triton.cdiv(width, block_columns), row_tiles)](
        out,
        base_out,
        None if lora_a_out is None else lora_a_out.values,
        None if b is None else b.matrix,
        routing.slots,
        routing.first,
        rows_per_block,
        width,
        1 if b is None else b.rank,
        1.0 if b is None else b.scale,
        _strides(base_out, lora_a_out, b),
        (0, 0) if b is None else tuple(b.starts),
        BLOCK_ROWS=block_rows,
        BLOCK_RANK=_block_size(1 if b is None else b.rank),
        BLOCK_COLUMNS=block_columns,
        num_warps=4,
    )
    return out


@triton.jit
def _expand_swiglu_kernel(
    out_ptr,
    base_ptr,
    lora_a_ptr,  # None without adapters
    b_ptr,
    adapter_ptr,
    first_adapter,
    rows_per_block,
    width,
    rank,
    scale,
    strides,  # row of the base's output; row, adapter of A's output; adapter of B
    starts,  # of B of the gate and of the up projection
    BLOCK_ROWS: tl.constexpr,
    BLOCK_RANK: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    block, in_rows = _tile_of_rows(tl.program_id(1), rows_per_block, BLOCK_ROWS)
    columns = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    row_index = (block * rows_per_block + in_rows).to(tl.int64)[:, None]
    row_mask = in_rows < rows_per_block
    mask = row_mask[:, None] & (columns < width)[None, :]
    base_ptr += row_index * strides[0] + columns[None, :]
    gate = tl.load(base_ptr, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(base_ptr + width, mask=mask, other=0.0).to(tl.float32)
    dtype = out_ptr.dtype.element_ty
    if lora_a_ptr is not None:
        adapter = _adapter_of(block, adapter_ptr, first_adapter)
        lora_a_ptr += row_index * strides[1] + adapter * strides[2]
        b_ptr += adapter * strides[3]
        gate += scale * _lora_b_product(
            lora_a_ptr, b_ptr + starts[0], row_mask, columns, width, rank, BLOCK_RANK
        )
        up += scale * _lora_b_product(
            lora_a_ptr + rank, b_ptr + starts[1], row_mask, columns, width, rank, BLOCK_RANK
        )
        # rounded where the model's own code rounds
        gate, up = gate.to(dtype).to(tl.float32), up.to(dtype).to(tl.float32)
    gate = (gate / (1.0 + tl.exp(-gate))).to(dtype).to(tl.float32)
    tl.store(out_ptr + row_index * width + columns[None, :], (gate * up).to(dtype), mask=mask)


def _strides(
    base_out: Tensor, lora_a_out: LoraAOutput | None, b: LoraB | None
) -> tuple[int, int, int, int]:
    if lora_a_out is None or b is None:
        return base_out.stride(0), 0, 0, 0
    return (
        base_out.stride(0),
        lora_a_out.values.stride(0),
        lora_a_out.adapter_stride,
        b.matrix.stride(0),
    )


def _block_size(size: int, most: int = 1 << 30) -> int:
    """The power of two that holds `size`, within what `tl.dot` takes."""
    return max(_MIN_DOT, min(most, 1 << (size - 1).bit_length()))


def _block_columns(row_tiles: int, block_rows: int, widths: Sequence[int], itemsize: int) -> int:
    """Columns of a tile: as many as fit into registers and leave enough tiles to keep the GPU
    busy."""
    columns = min(256, 8192 // itemsize // block_rows, _block_size(min(widths)))
    while columns > 32 and row_tiles * sum(widths) < _PROGRAMS * columns:
        columns //= 2
    return columns


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
