"""Adapters of any rank in slots of one rank.

A smaller adapter is padded with zeros. Where a column of A and the row of B are both zero, so are
their gradients: padding stays zero, and so does a projection that is not to be trained. Its scale
is the server's alpha / rank, so an adapter of rank r has alpha * r / rank when it stands alone.
"""

from typing import TYPE_CHECKING

from redqueen.errors import ConfigError
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.serve.commands import ModelShape

if TYPE_CHECKING:
    from torch import Tensor

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj", "out_proj", "dense")


def is_trained(name: str, shape: ModelShape) -> bool:
    is_attention = "attn" in name or name.rpartition(".")[2] in _ATTENTION
    return shape.train_attn if is_attention else shape.train_mlp


def shape_adapter(fresh: Adapter, shape: ModelShape) -> Adapter:
    """A new adapter of a slot, with zeros in what this model does not have."""
    pairs = {}
    for name, pair in fresh.projections.items():
        a, b = pair.a.clone(), pair.b.clone()
        a[:, shape.rank if is_trained(name, shape) else 0 :] = 0
        pairs[name] = LoraPair(a, b)
    return Adapter(pairs, fresh.rank, fresh.alpha)


def trim_adapter(adapter: Adapter, shape: ModelShape) -> Adapter:
    """Without the padding, as it is saved for others."""
    pairs = {
        name: LoraPair(pair.a[:, : shape.rank].clone(), pair.b[: shape.rank].clone())
        for name, pair in adapter.projections.items()
        if is_trained(name, shape)
    }
    return Adapter(pairs, shape.rank, adapter.scale * shape.rank)


def pad_adapter(adapter: Adapter, like: Adapter) -> Adapter:
    """As a slot with adapters like this one takes it."""
    if adapter.rank > like.rank:
        raise ConfigError(f"the adapter has rank {adapter.rank}; slots here have {like.rank}")
    if odd := sorted(set(adapter.projections) - set(like.projections)):
        raise ConfigError(f"the adapter has projections that slots here have not: {odd[0]}")
    pairs = {}
    for name, pair in like.projections.items():
        a, b = _zeros(pair.a), _zeros(pair.b)
        if name in adapter.projections:
            own = adapter.projections[name]
            a[:, : adapter.rank], b[: adapter.rank] = own.a, own.b
        pairs[name] = LoraPair(a, b)
    return Adapter(pairs, like.rank, adapter.scale * like.rank)


def _zeros(tensor: "Tensor") -> "Tensor":
    return tensor.new_zeros(tensor.shape)
