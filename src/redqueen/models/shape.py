"""The shape of a base, without its weights: what memory and time depend on."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from redqueen.errors import ConfigError
from redqueen.models.base import FAMILIES, LOADING_ERRORS, explain_failure, locate


@dataclass(frozen=True, slots=True)
class BaseShape:
    family: str
    parameters: int
    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    kv_width: int
    """Numbers that the KV cache holds for a token in a layer."""
    projections: tuple[tuple[str, int, int], ...]
    """Of all layers: the last name, inputs and outputs of each linear layer of the decoder."""

    def adapter_parameters(self, rank: int, targets: tuple[str, ...] = ()) -> int:
        return sum(
            rank * (inputs + outputs)
            for name, inputs, outputs in self.projections
            if not targets or name in targets
        )


def read_shape(source: str) -> BaseShape:
    """From the config of a base: `pawn`, a folder, a `.gguf` file or a name on the hub."""
    place = locate(source)
    gguf: dict[str, Any] = {"gguf_file": place.gguf} if place.gguf else {}
    try:
        config = AutoConfig.from_pretrained(place.target, **gguf)
    except LOADING_ERRORS as error:
        raise ConfigError(explain_failure(source, place, error)) from error
    return shape_of(config)


def shape_of(config: Any) -> BaseShape:
    if config.model_type not in FAMILIES:
        raise ConfigError(
            f"the family '{config.model_type}' does not work; those that do: {', '.join(FAMILIES)}"
        )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return BaseShape(
        family=config.model_type,
        parameters=sum(weight.numel() for weight in model.parameters()),
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        vocabulary=config.vocab_size,
        kv_width=2 * head * (config.num_key_value_heads or config.num_attention_heads),
        projections=tuple(
            (name.rpartition(".")[2], module.in_features, module.out_features)
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not model.get_output_embeddings()
        ),
    )
