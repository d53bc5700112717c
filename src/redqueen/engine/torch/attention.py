"""Attention of the engine: one query token per sequence, with keys and values that several query
heads share (grouped-query attention).

Models repeat the keys and values for each of their query heads, which for a single token is most of
the work. Here the query heads that share keys stand side by side as if they were tokens, and
nothing is copied. Longer queries go to torch's attention. Where the decode kernel is in use, the
"mask" of a decode step is the range of positions that each sequence sees, [sequences, 1, 1, 2], as
integers.

A model is switched over by its own attention setting; other models of the process are not touched.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "redqueen"
"""Of this attention in transformers' tables."""


def use_grouped_attention(model: PreTrainedModel) -> None:
    """Where the model would use torch's attention, it uses this."""
    if model.config._attn_implementation == "sdpa":
        ALL_ATTENTION_FUNCTIONS.register(NAME, grouped_attention)
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def takes_kv_ranges(model: PreTrainedModel) -> bool:
    """Whether the decode kernel can serve the model: it has no softcapping of scores."""
    softcap = getattr(model.config.get_text_config(), "attn_logit_softcapping", None)
    return model.config._attn_implementation == NAME and not softcap


@contextmanager
def _without_cudnn() -> Iterator[None]:
    """cuDNN's backward pass gives NaN gradients for some lengths with a mask (pytorch issue 196678;
    seen with Qwen2.5). The backward kernel is chosen in the forward pass, so this is enough."""
    enabled = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(enabled)


def grouped_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """query: [sequences, heads, tokens, head_dim]; key, value: [sequences, kv_heads, length,
    head_dim]. Returns [sequences, tokens, heads, head_dim]."""
    sequences, heads, tokens, head_dim = query.shape
    if attention_mask is not None and attention_mask.dtype == torch.long:
        from redqueen.engine.torch.kernels import decode_attention

        scale = head_dim**-0.5 if scaling is None else scaling
        return decode_attention(query, key, value, attention_mask[:, 0, 0], scale), None
    with _without_cudnn():
        if tokens > 1 or attention_mask is None or heads == key.shape[1]:
            return sdpa_attention_forward(
                module, query, key, value, attention_mask, scaling=scaling, **more
            )
        grouped = query.reshape(sequences, key.shape[1], -1, head_dim)
        mask = attention_mask.expand(sequences, 1, grouped.shape[2], key.shape[2])
        out = scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(sequences, 1, heads, head_dim), None
