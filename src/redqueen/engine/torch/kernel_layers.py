"""Puts our kernels in the place of a model's RMSNorm, rotary embedding and SwiGLU.

Only the layers of the given model change, by a `forward` of their own: neither their classes nor
transformers' modules are touched. With gradients the model's own code runs.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation

from redqueen.engine.torch.fused_projections import has_kernels
from redqueen.engine.torch.population import AdaptedLinear

_ROTARY = "apply_rotary_pos_emb"


@dataclass(frozen=True, slots=True)
class _Layers:
    """Classes of a model family that compute what the kernels compute; None: another formula, or
    not tried."""

    mlp: str
    norm: str | None = None
    attention: str | None = None
    """Its `forward` calls apply_rotary_pos_emb(query, key, cos, sin)."""


_FAMILIES = {
    "llama": _Layers("LlamaMLP", "LlamaRMSNorm", "LlamaAttention"),
    "mistral": _Layers("MistralMLP", "MistralRMSNorm", "MistralAttention"),
    "qwen2": _Layers("Qwen2MLP", "Qwen2RMSNorm", "Qwen2Attention"),
    "qwen3": _Layers("Qwen3MLP", "Qwen3RMSNorm", "Qwen3Attention"),
    "smollm3": _Layers("SmolLM3MLP"),
}


def use_kernels(model: PreTrainedModel) -> bool:
    """Let forward passes without gradients use the kernels, where there are any. Says whether."""
    if not has_kernels(model.device):
        return False
    layers = _FAMILIES.get(model.config.get_text_config().model_type)
    if layers is None:
        return True
    for mlp in _find(model, layers.mlp):
        if isinstance(mlp.act_fn, nn.SiLU | SiLUActivation):
            mlp.forward = MethodType(_swiglu_forward, mlp)
    if layers.norm is not None:
        for norm in _find(model, layers.norm):
            norm.forward = MethodType(_rms_norm_forward, norm)
    if layers.attention is not None:
        attentions = _find(model, layers.attention)
        forward = _with_rotary_kernel(type(attentions[0]))
        for attention in attentions:
            attention.forward = MethodType(forward, attention)
    return True


def _find(model: PreTrainedModel, name: str) -> list[Any]:
    """The model's modules of a class of transformers."""
    modeling = sys.modules[type(model).__module__]
    cls = getattr(modeling, name, None)
    modules = [] if cls is None else [each for each in model.modules() if isinstance(each, cls)]
    if not modules:
        raise RuntimeError(
            f"{type(model).__name__} of transformers {transformers.__version__} has no {name}, "
            "which our kernels stand in for. Install a version of transformers that has it, or "
            "uninstall triton to run without kernels"
        )
    return modules


def _rms_norm_forward(module: Any, x: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        return type(module).forward(module, x)  # type: ignore[no-any-return]
    from redqueen.engine.torch.kernels import rms_norm

    return rms_norm(x, module.weight, module.variance_epsilon)


def _swiglu_forward(module: Any, x: Tensor) -> Tensor:
    gate = module.gate_proj
    if (
        not isinstance(gate, AdaptedLinear)
        or [len(gate.projections.names), gate.index] != [2, 0]  # gate and up, in this order
        or not gate.projections.can_fuse(x, gate.routing)
    ):
        return type(module).forward(module, x)  # type: ignore[no-any-return]
    return module.down_proj(gate.projections.swiglu(x, gate.routing))  # type: ignore[no-any-return]


def _with_rotary_kernel(attention: type[nn.Module]) -> Callable[..., Any]:
    """The `forward` of an attention class as a function of its own, which finds the kernel under
    the name of transformers' function."""
    forward: Any = attention.forward
    if not isinstance(forward, FunctionType) or _ROTARY not in forward.__code__.co_names:
        raise RuntimeError(
            f"{attention.__name__}.forward of transformers {transformers.__version__} does not "
            f"call {_ROTARY}, which our kernel stands in for. Install a version of transformers "
            "that does, or uninstall triton to run without kernels"
        )
    plain = forward.__globals__[_ROTARY]

    def rotary(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *more: Any, **named: Any
    ) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled() or len(cos) not in (1, len(q)) or more or named:
            return plain(q, k, cos, sin, *more, **named)  # type: ignore[no-any-return]
        from redqueen.engine.torch.kernels import rotary_embedding

        return rotary_embedding(q, k, cos, sin)

    own = FunctionType(
        forward.__code__,
        {**forward.__globals__, _ROTARY: rotary},
        forward.__name__,
        forward.__defaults__,
        forward.__closure__,
    )
    own.__kwdefaults__ = forward.__kwdefaults__
    return own
