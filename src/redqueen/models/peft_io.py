"""Members as PEFT adapter folders, which every tool of the field reads: `adapter_config.json` and
`adapter_model.safetensors`."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from redqueen.engine.torch.population import Adapter, Population
from redqueen.errors import DataError

_PREFIX = "base_model.model."
_WEIGHTS = "base_weights"


def save_adapter(population: Population, slot: int, folder: Path) -> None:
    """Write one member as a folder that `PeftModel.from_pretrained` loads."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, (first, second) in population.read(slot).items():
        tensors[f"{_PREFIX}{name}.lora_A.weight"] = first.T.contiguous()
        tensors[f"{_PREFIX}{name}.lora_B.weight"] = second.T.contiguous()
    save_file(
        tensors,
        folder / "adapter_model.safetensors",
        metadata={"format": "pt", _WEIGHTS: population.base.fingerprint},
    )
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(
            population.base.model.config.name_or_path or population.base.name
        ),
        "r": population.rank,
        "lora_alpha": population.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "target_modules": sorted({name.rpartition(".")[2] for name in population.names}),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def weights_under(folder: Path) -> str:
    """The fingerprint of the base that an adapter was made on; empty where its file does not say."""
    try:
        with safe_open(folder / "adapter_model.safetensors", framework="pt") as file:
            return str((file.metadata() or {}).get(_WEIGHTS, ""))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{folder} is not a readable PEFT adapter: {error}") from error


def load_adapter(population: Population, folder: Path) -> Adapter:
    """A member from a PEFT folder made for this base. Another alpha is taken into account; another
    rank is refused by `write`."""
    try:
        config = json.loads((folder / "adapter_config.json").read_text())
        tensors = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise DataError(f"{folder} is not a readable PEFT adapter: {error}") from error
    if (
        config.get("peft_type") != "LORA"
        or config.get("use_dora")
        or config.get("use_rslora")
        or config.get("bias", "none") != "none"
    ):
        raise DataError(
            f"{folder} is no plain LoRA adapter (DoRA, rank-stabilised LoRA and trained biases are not supported)"
        )
    strength = config["lora_alpha"] / config["r"] / population.scale
    adapter: Adapter = {}
    for key, tensor in tensors.items():
        name, _, which = key.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
        if which == "lora_A":
            other = tensors.get(f"{_PREFIX}{name}.lora_B.weight")
            if other is None:
                raise DataError(f"{folder} has an A but no B for {name}")
            adapter[name] = tensor.float().T.contiguous(), other.float().T.contiguous() * strength
    return adapter
