"""Triton kernels for the forward pass without gradients: decode attention, RMSNorm, rotary
embedding.

In plain torch these are most of a decode step of a small model: attention that reads every position
of every sequence slot and masks most of them out, and ten small kernels for each norm and each
rotary embedding. Attention is for one query token per sequence; the others serve prefill, too.
Everything is accumulated in float32 and rounded where the model's own code rounds.
"""

import triton
import triton.language as tl
from torch import Tensor, empty_like

_BLOCK_KV = 64
"""Positions of the KV cache that one iteration of decode attention reads."""
_MIN_DOT = 16
"""The smallest dimension that `tl.dot` takes."""


def decode_attention(
    query: Tensor, keys: Tensor, values: Tensor, kv_ranges: Tensor, scale: float
) -> Tensor:
    """Attention of one token per sequence slot to the slot's own range of positions.

    query: [seq_slots, heads, 1, head_dim]
    keys, values: [seq_slots, kv_heads, length, head_dim]
    kv_ranges: [seq_slots, 2], first and last position, both included
    Returns [seq_slots, 1, heads, head_dim].
    """
    seq_slots, heads, _, head_dim = query.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    query = query[:, :, 0]
    out = query.new_empty(seq_slots, 1, heads, head_dim)
    block_dim = triton.next_power_of_2(head_dim)
    # One program for each sequence slot and KV head: the query heads that share keys are the rows
    # of its matrix products.
    _decode_attention_kernel[(seq_slots, kv_heads)](
        out,
        query,
        keys,
        values,
        kv_ranges.contiguous(),
        scale,
        query.stride()[:2],
        keys.stride()[:3],
        values.stride()[:3],
        group,
        head_dim,
        BLOCK_GROUP=max(_MIN_DOT, triton.next_power_of_2(group)),
        BLOCK_DIM=max(_MIN_DOT, block_dim),
        BLOCK_KV=_BLOCK_KV,
        num_warps=2 if block_dim <= 64 else 4,
    )
    return out


@triton.jit
def _decode_attention_kernel(
    out_ptr,
    query_ptr,
    key_ptr,
    value_ptr,
    range_ptr,
    scale,
    query_strides,  # slot, head
    key_strides,  # slot, head, position
    value_strides,  # slot, head, position
    group,
    head_dim,
    BLOCK_GROUP: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK_KV: tl.constexpr,
):
    slot = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    first, last = tl.load(range_ptr + slot * 2), tl.load(range_ptr + slot * 2 + 1)
    in_group, in_dim = tl.arange(0, BLOCK_GROUP), tl.arange(0, BLOCK_DIM)
    heads = kv_head * group + in_group
    query_mask = (in_group < group)[:, None] & (in_dim < head_dim)[None, :]
    query = tl.load(
        query_ptr + slot * query_strides[0] + heads[:, None] * query_strides[1] + in_dim[None, :],
        mask=query_mask,
        other=0.0,
    )  # [BLOCK_GROUP, BLOCK_DIM]
    key_ptr += slot * key_strides[0] + kv_head * key_strides[1]
    value_ptr += slot * value_strides[0] + kv_head * value_strides[1]
    # Online softmax: the running maximum, the sum of exp(score - maximum), the weighted values.
    maximum = tl.full([BLOCK_GROUP], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_GROUP], tl.float32)
    weighted = tl.zeros([BLOCK_GROUP, BLOCK_DIM], tl.float32)
    # Blocks outside the range are not read at all. The first block begins at a multiple of its
    # size, so that a sequence is summed in the same order wherever its range begins.
    for start in range(first // BLOCK_KV * BLOCK_KV, last + 1, BLOCK_KV):
        positions = start + tl.arange(0, BLOCK_KV)
        seen = (positions >= first) & (positions <= last)
        kv_mask = seen[:, None] & (in_dim < head_dim)[None, :]
        key = tl.load(
            key_ptr + positions[:, None] * key_strides[2] + in_dim[None, :],
            mask=kv_mask,
            other=0.0,
        )  # [BLOCK_KV, BLOCK_DIM]
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        score = tl.where(seen[None, :], score, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, 1))
        weight = tl.exp(score - new_maximum[:, None])
        rescale = tl.exp(maximum - new_maximum)
        value = tl.load(
            value_ptr + positions[:, None] * value_strides[2] + in_dim[None, :],
            mask=kv_mask,
            other=0.0,
        )
        weighted = weighted * rescale[:, None] + tl.dot(
            weight.to(value.dtype), value, input_precision="ieee"
        )
        total = total * rescale + tl.sum(weight, 1)
        maximum = new_maximum
    out_ptr += slot * (tl.num_programs(1) * group * head_dim)
    tl.store(
        out_ptr + heads[:, None] * head_dim + in_dim[None, :],
        (weighted / total[:, None]).to(out_ptr.dtype.element_ty),
        mask=query_mask,
    )


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * weight over the last dimension."""
    x = x.contiguous()
    out, width = empty_like(x), x.shape[-1]
    block = triton.next_power_of_2(width)
    # one program per row, which holds the whole row
    _rms_norm_kernel[(x.numel() // width,)](
        out, x, weight, epsilon, width, BLOCK=block, num_warps=min(8, max(1, block // 256))
    )
    return out


@triton.jit
def _rms_norm_kernel(out_ptr, x_ptr, weight_ptr, epsilon, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < width
    dtype = out_ptr.dtype.element_ty
    x = tl.load(x_ptr + row * width + columns, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, 0) / width
    x = (x / tl.sqrt(mean_square + epsilon)).to(dtype).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * width + columns, (x * weight).to(dtype), mask=mask)


def rotary_embedding(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys by their positions, in the half-split layout of Llama.

    query: [sequences, heads, tokens, head_dim]
    key: [sequences, kv_heads, tokens, head_dim]
    cos, sin: [sequences, tokens, head_dim], or [1, tokens, head_dim] for all sequences
    """
    sequences, heads, tokens, head_dim = query.shape
    kv_heads = key.shape[1]
    query_out = query.new_empty(sequences, heads, tokens, head_dim)
    key_out = key.new_empty(sequences, kv_heads, tokens, head_dim)
    # one program for each token and head, query heads first
    _rotary_embedding_kernel[(sequences * tokens, heads + kv_heads)](
        query_out,
        key_out,
        query,
        key,
        cos.contiguous(),
        sin.contiguous(),
        query.stride()[:3],
        key.stride()[:3],
        0 if len(cos) == 1 else tokens * head_dim,
        tokens,
        heads,
        kv_heads,
        head_dim,
        BLOCK_HALF=triton.next_power_of_2(head_dim // 2),
        num_warps=1,
    )
    return query_out, key_out


@triton.jit
def _rotary_embedding_kernel(
    query_out_ptr,
    key_out_ptr,
    query_ptr,
    key_ptr,
    cos_ptr,
    sin_ptr,
    query_strides,  # sequence, head, token
    key_strides,  # sequence, head, token
    angle_stride,  # sequence
    tokens,
    heads,
    kv_heads,
    head_dim,
    BLOCK_HALF: tl.constexpr,
):
    sequence = (tl.program_id(0) // tokens).to(tl.int64)
    token = tl.program_id(0) % tokens
    head = tl.program_id(1)
    if head < heads:
        in_ptr = (
            query_ptr
            + sequence * query_strides[0]
            + head * query_strides[1]
            + token * query_strides[2]
        )
        out_ptr = query_out_ptr + ((sequence * heads + head) * tokens + token) * head_dim
    else:
        kv_head = head - heads
        in_ptr = (
            key_ptr + sequence * key_strides[0] + kv_head * key_strides[1] + token * key_strides[2]
        )
        out_ptr = key_out_ptr + ((sequence * kv_heads + kv_head) * tokens + token) * head_dim
    half = head_dim // 2
    left = tl.arange(0, BLOCK_HALF)
    right = half + left
    mask = left < half
    cos_ptr += sequence * angle_stride + token * head_dim
    sin_ptr += sequence * angle_stride + token * head_dim
    x_left = tl.load(in_ptr + left, mask=mask, other=0.0).to(tl.float32)
    x_right = tl.load(in_ptr + right, mask=mask, other=0.0).to(tl.float32)
    cos_left = tl.load(cos_ptr + left, mask=mask, other=0.0).to(tl.float32)
    sin_left = tl.load(sin_ptr + left, mask=mask, other=0.0).to(tl.float32)
    cos_right = tl.load(cos_ptr + right, mask=mask, other=0.0).to(tl.float32)
    sin_right = tl.load(sin_ptr + right, mask=mask, other=0.0).to(tl.float32)
    dtype = query_out_ptr.dtype.element_ty
    tl.store(out_ptr + left, (x_left * cos_left - x_right * sin_left).to(dtype), mask=mask)
    tl.store(out_ptr + right, (x_right * cos_right + x_left * sin_right).to(dtype), mask=mask)
