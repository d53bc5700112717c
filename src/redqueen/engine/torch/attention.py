"""Attention as the engine wants it: one query token of each row, with keys and values that several
query heads share.

Models repeat shared keys and values for each of their query heads, which for a single token is most
of the work. Here the query heads that share keys stand together as if they were tokens, and nothing
is copied. For longer queries it is torch's own attention, as before. On a GPU with Triton sampling
also has its own kernels: in a step of decoding a mask then says from which place to which a row
looks, and is no matrix.
"""

import sys
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from redqueen.engine.torch.fused_projections import has_kernels
from redqueen.engine.torch.population import AdaptedLinear

NAME = "redqueen"


def use_grouped(model: PreTrainedModel) -> None:
    """Where the model would use torch's attention, it uses this."""
    # cuDNN's backward pass gives gradients that are no numbers for some lengths with a mask
    # (pytorch issue 196678; seen with Qwen2.5)
    torch.backends.cuda.enable_cudnn_sdp(False)
    if model.config._attn_implementation == "sdpa":
        ALL_ATTENTION_FUNCTIONS.register(NAME, grouped)
        ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


_NORMS = {"LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm"}
"""Norms that are what `kernels.normed` computes."""
_GATED = {"LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP", "SmolLM3MLP"}
"""A layer's middle: one projection gates another."""
_SILU = (torch.nn.SiLU, SiLUActivation)


def use_kernels(model: PreTrainedModel) -> bool:
    """Let steps without gradients use kernels of our own, where there are any. Says whether
    attention does."""
    if not has_kernels(model.device):
        return False
    for module in model.modules():
        if type(module).__name__ in _NORMS:
            module.forward = MethodType(_normed, module)
            _turn_by_kernel(sys.modules[type(module).__module__])
        if type(module).__name__ in _GATED and isinstance(module.act_fn, _SILU):
            module.forward = MethodType(_gated, module)
    return model.config._attn_implementation == NAME and not getattr(
        model.config.get_text_config(), "attn_logit_softcapping", None
    )


def _normed(module: Any, x: Tensor) -> Tensor:
    if torch.is_grad_enabled() or not x.is_cuda:
        return type(module).forward(module, x)  # type: ignore[no-any-return]
    from redqueen.engine.torch.kernels import normed

    return normed(x, module.weight, module.variance_epsilon)


def _gated(module: Any, x: Tensor) -> Tensor:
    gate = module.gate_proj
    if (
        not isinstance(gate, AdaptedLinear)
        or [len(gate.sisters.names), gate.number] != [2, 0]
        or not gate.sisters.serves(x, gate.routing)
    ):
        return type(module).forward(module, x)  # type: ignore[no-any-return]
    return module.down_proj(gate.sisters.gated(x, gate.routing))  # type: ignore[no-any-return]


def _turn_by_kernel(family: Any) -> None:
    """The function by which the models of a family turn queries and keys: on a GPU, without
    gradients, it is a kernel from now on."""
    plain = family.apply_rotary_pos_emb
    if getattr(plain, "by_kernel", False):
        return

    def turn(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *more: Any, **named: Any
    ) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled() or not q.is_cuda or len(cos) not in (1, len(q)) or more or named:
            return plain(q, k, cos, sin, *more, **named)  # type: ignore[no-any-return]
        from redqueen.engine.torch.kernels import turned

        return turned(q, k, cos, sin)

    turn.by_kernel = True  # type: ignore[attr-defined]
    family.apply_rotary_pos_emb = turn


def grouped(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """[rows, heads, tokens, size] with fewer heads of keys and values; the result has tokens before
    heads."""
    rows, heads, tokens, size = query.shape
    if attention_mask is not None and attention_mask.dtype == torch.long:
        from redqueen.engine.torch.kernels import attend

        return attend(
            query, key, value, attention_mask[:, 0, 0], size**-0.5 if scaling is None else scaling
        ), None
    if tokens > 1 or attention_mask is None or heads == key.shape[1]:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **more
        )
    together = query.reshape(rows, key.shape[1], -1, size)
    mask = attention_mask.expand(rows, 1, together.shape[2], key.shape[2])
    found = scaled_dot_product_attention(together, key, value, attn_mask=mask, scale=scaling)
    return found.reshape(rows, 1, heads, size), None
