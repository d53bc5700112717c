"""Attention as the engine wants it: one query token of each row, with keys and values that several query heads share.

Models repeat shared keys and values for each of their query heads, which for a single token is most of the work. Here the query heads that
share keys stand together as if they were tokens, and nothing is copied. For longer queries it is torch's own attention, as before.
"""

from typing import Any

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "redqueen"


def use_grouped(model: PreTrainedModel) -> None:
    """Where the model would use torch's attention, it uses this."""
    if model.config._attn_implementation == "sdpa":
        ALL_ATTENTION_FUNCTIONS.register(NAME, grouped)
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def grouped(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float | None = None, **more: Any
) -> tuple[Tensor, None]:
    """[rows, heads, tokens, size] with fewer heads of keys and values; the result has tokens before heads."""
    rows, heads, tokens, size = query.shape
    if tokens > 1 or attention_mask is None or heads == key.shape[1]:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)
    together = query.reshape(rows, key.shape[1], -1, size)
    mask = attention_mask.expand(rows, 1, together.shape[2], key.shape[2])
    found = scaled_dot_product_attention(together, key, value, attn_mask=mask, scale=scaling)
    return found.reshape(rows, 1, heads, size), None
