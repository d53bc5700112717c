"""What a GPU does in sampling, in kernels of our own: attention to a lane's own keys, norms, and
turning queries and keys.

TextCompletion out in torch these are most of a step for a small model: attention that looks at every place
of every lane and masks what is not seen, and ten small kernels for each norm and each turn. They
are used without gradients; attention, for one token a lane. All else is torch's.
"""

import triton
import triton.language as tl
from torch import Tensor, empty_like


def attend(query: Tensor, keys: Tensor, values: Tensor, spans: Tensor, scale: float) -> Tensor:
    """Attention of one token in every lane, [lanes, heads, 1, size], to the places from the first
    to the last of its span, [lanes, 2]. Heads of queries that share keys are computed together. The
    result is [lanes, 1, heads, size]."""
    lanes, heads, _, size = query.shape
    shared = keys.shape[1]
    query = query[:, :, 0]
    found = query.new_empty(lanes, 1, heads, size)
    wide = triton.next_power_of_2(size)
    _attend[(lanes, shared)](
        query,
        keys,
        values,
        spans.contiguous(),
        found,
        scale,
        *query.stride()[:2],
        *keys.stride()[:3],
        *values.stride()[:3],
        heads // shared,
        size,
        max(16, triton.next_power_of_2(heads // shared)),
        max(16, wide),
        64,
        num_warps=2 if wide <= 64 else 4,
    )
    return found


@triton.jit
def _attend(
    query,
    keys,
    values,
    spans,
    found,
    scale,
    query_lane,
    query_head,
    key_lane,
    key_head,
    key_place,
    value_lane,
    value_head,
    value_place,
    group,
    size,
    GROUP: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    lane = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    first, last = tl.load(spans + lane * 2), tl.load(spans + lane * 2 + 1)
    of_group, of_size, of_block = tl.arange(0, GROUP), tl.arange(0, SIZE), tl.arange(0, BLOCK)
    real = (of_group < group)[:, None] & (of_size < size)[None, :]
    heads = head * group + of_group
    asked = tl.load(
        query + lane * query_lane + heads[:, None] * query_head + of_size[None, :],
        mask=real,
        other=0.0,
    )
    keys += lane * key_lane + head * key_head
    values += lane * value_lane + head * value_head
    top = tl.full([GROUP], float("-inf"), tl.float32)
    total = tl.zeros([GROUP], tl.float32)
    mixed = tl.zeros([GROUP, SIZE], tl.float32)
    for start in range(
        first // BLOCK * BLOCK, last + 1, BLOCK
    ):  # a block that is not seen at all is not read
        places = start + of_block
        seen = (places >= first) & (places <= last)
        there = seen[:, None] & (of_size < size)[None, :]
        key = tl.load(keys + places[:, None] * key_place + of_size[None, :], mask=there, other=0.0)
        score = tl.dot(asked, tl.trans(key), input_precision="ieee") * scale
        score = tl.where(seen[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        fade = tl.exp(top - higher)
        value = tl.load(
            values + places[:, None] * value_place + of_size[None, :], mask=there, other=0.0
        )
        mixed = mixed * fade[:, None] + tl.dot(
            weight.to(value.dtype), value, input_precision="ieee"
        )
        total = total * fade + tl.sum(weight, 1)
        top = higher
    result = mixed / total[:, None]
    width = tl.num_programs(1) * group * size
    tl.store(
        found + lane * width + heads[:, None] * size + of_size[None, :],
        result.to(found.dtype.element_ty),
        mask=real,
    )


def normed(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """The root-mean-square norm of the last dimension, in float32, and then times the weights."""
    x = x.contiguous()
    found, width = empty_like(x), x.shape[-1]
    block = triton.next_power_of_2(width)
    _normed[(x.numel() // width,)](
        x, weight, found, epsilon, width, block, num_warps=min(8, max(1, block // 256))
    )
    return found


@triton.jit
def _normed(x, weight, found, epsilon, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    there = places < width
    dtype = found.dtype.element_ty
    values = tl.load(x + row * width + places, mask=there, other=0.0).to(tl.float32)
    spread = tl.sum(values * values, 0) / width
    values = (values / tl.sqrt(spread + epsilon)).to(dtype).to(tl.float32)
    weights = tl.load(weight + places, mask=there, other=0.0).to(tl.float32)
    tl.store(found + row * width + places, (values * weights).to(dtype), mask=there)


def turned(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys, [rows, heads, tokens, size], turned by their positions: cos and sin are
    [rows, tokens, size], or of one row for all."""
    rows, heads, tokens, size = query.shape
    shared = key.shape[1]
    queries, keys = (
        query.new_empty(rows, heads, tokens, size),
        key.new_empty(rows, shared, tokens, size),
    )
    half = triton.next_power_of_2(size // 2)
    _turned[(rows * tokens, heads + shared)](
        query,
        key,
        cos.contiguous(),
        sin.contiguous(),
        queries,
        keys,
        *query.stride()[:3],
        *key.stride()[:3],
        0 if len(cos) == 1 else tokens * size,
        tokens,
        heads,
        shared,
        size,
        half,
        num_warps=1,
    )
    return queries, keys


@triton.jit
def _turned(
    query,
    key,
    cos,
    sin,
    queries,
    keys,
    query_row,
    query_head,
    query_token,
    key_row,
    key_head,
    key_token,
    angle_row,
    tokens,
    heads,
    shared,
    size,
    HALF: tl.constexpr,
):
    row, token, head = (
        (tl.program_id(0) // tokens).to(tl.int64),
        tl.program_id(0) % tokens,
        tl.program_id(1),
    )
    places = tl.arange(0, HALF)
    half = size // 2
    there = places < half
    if head < heads:
        source = query + row * query_row + head * query_head + token * query_token
        target = queries + ((row * heads + head) * tokens + token) * size
    else:
        source = key + row * key_row + (head - heads) * key_head + token * key_token
        target = keys + ((row * shared + head - heads) * tokens + token) * size
    left = tl.load(source + places, mask=there, other=0.0).to(tl.float32)
    right = tl.load(source + half + places, mask=there, other=0.0).to(tl.float32)
    cos += row * angle_row + token * size
    sin += row * angle_row + token * size
    cos_left, sin_left = (
        tl.load(cos + places, mask=there, other=0.0).to(tl.float32),
        tl.load(sin + places, mask=there, other=0.0).to(tl.float32),
    )
    cos_right = tl.load(cos + half + places, mask=there, other=0.0).to(tl.float32)
    sin_right = tl.load(sin + half + places, mask=there, other=0.0).to(tl.float32)
    dtype = queries.dtype.element_ty
    tl.store(target + places, (left * cos_left - right * sin_left).to(dtype), mask=there)
    tl.store(target + half + places, (right * cos_right + left * sin_right).to(dtype), mask=there)
