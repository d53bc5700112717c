"""Adapters as PEFT folders, `adapter_config.json` and `adapter_model.safetensors`, which most tools
can read.

Covered: plain LoRA on linear layers, with one rank and alpha. Whatever else PEFT can store is
refused: ignoring it would load another model than the one that was trained.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from redqueen.errors import DataError
from redqueen.models.adapter import Adapter, LoraPair

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_FINGERPRINT = "base_weights"
_HARMLESS = {
    "auto_mapping", "base_model_name_or_path", "eva_config", "inference_mode", "layers_pattern",
    "layers_to_transform", "lora_alpha", "lora_dropout", "megatron_core", "peft_type",
    "peft_version", "qalora_group_size", "r", "revision", "runtime_config", "target_modules",
    "task_type",
}  # fmt: skip
"""Settings that we read, or that change nothing once there are weights. All others must be off."""
_OFF = {"bias": ("none",), "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal")}
"""Values that mean off, besides empty ones. Other initialisations (PiSSA, OLoRA, CorDA, LoftQ)
change the base."""


def save_adapter(adapter: Adapter, folder: Path, *, base: str, fingerprint: str) -> list[Path]:
    """Write a folder that `PeftModel.from_pretrained` loads. `base` is its name or place, and
    `fingerprint` that of its weights. Returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, pair in adapter.projections.items():
        tensors[f"{_PREFIX}{name}.lora_A.weight"] = pair.a.T.contiguous()
        tensors[f"{_PREFIX}{name}.lora_B.weight"] = pair.b.T.contiguous()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": adapter.rank,
        "lora_alpha": adapter.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "target_modules": list(adapter.targets),
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    save_file(tensors, folder / WEIGHTS, {"format": "pt", _FINGERPRINT: fingerprint})
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors lets nobody else read it
    return [folder / CONFIG, folder / WEIGHTS]


def load_adapter(folder: Path) -> Adapter:
    """The adapter in a PEFT folder, in float32."""
    config = _read_config(folder)
    try:
        tensors = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise _unreadable(folder, error) from error
    projections: dict[str, LoraPair] = {}
    for key in tensors:
        name, _, which = key.removeprefix(_PREFIX).removesuffix(".weight").rpartition(".")
        if which not in ("lora_A", "lora_B"):
            raise DataError(
                f"{folder} holds '{key}', which is not a LoRA weight of a linear layer: only those "
                "are supported"
            )
        if name not in projections:
            a, b = (tensors.get(f"{_PREFIX}{name}.{one}.weight") for one in ("lora_A", "lora_B"))
            if a is None or b is None:
                raise DataError(f"{folder} has only one of lora_A and lora_B for {name}")
            if a.shape[0] != config["r"]:
                raise DataError(
                    f"{folder} has rank {a.shape[0]} for {name}, but its {CONFIG} says "
                    f"{config['r']}: one rank for all projections is supported"
                )
            projections[name] = LoraPair(a.float().T.contiguous(), b.float().T.contiguous())
    return Adapter(projections, config["r"], config["lora_alpha"])


def base_of(folder: Path) -> tuple[str, str]:
    """The base that an adapter names, and the fingerprint of the weights it was trained on; each is
    empty where the folder does not say."""
    config = _read_config(folder)
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            metadata = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise _unreadable(folder, error) from error
    return str(config.get("base_model_name_or_path") or ""), str(metadata.get(_FINGERPRINT, ""))


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = dict(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(folder, error) from error
    if config.get("peft_type") != "LORA":
        raise DataError(
            f"{folder} is not a LoRA adapter: its peft_type is {config.get('peft_type')}"
        )
    for name, value in config.items():
        if value and name not in _HARMLESS and value not in _OFF.get(name, ()):
            raise DataError(
                f"{folder} sets {name}={value!r} in its {CONFIG}. Only plain LoRA is supported: "
                "merge the adapter into its base with PEFT, and use the result as a base."
            )
    for name in ("r", "lora_alpha"):
        if not isinstance(config.get(name), int | float) or config[name] <= 0:
            raise DataError(f"{folder / CONFIG}: {name} is {config.get(name)!r}, not a number")
    return config


def _unreadable(folder: Path, error: Exception) -> DataError:
    return DataError(f"{folder} is not a readable PEFT adapter: {error}")
