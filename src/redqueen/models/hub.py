"""Adapters on the Hugging Face hub, or on whatever HF_ENDPOINT names, by name."""

import os
import re
from pathlib import Path

from huggingface_hub import hf_hub_download, snapshot_download

_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def is_hub_name(source: str) -> bool:
    """Whether it looks like owner/name, and there is nothing of that name here."""
    return bool(_NAME.fullmatch(source)) and source[0] not in "./~" and not Path(source).exists()


def fetch_adapter(name: str) -> str | None:
    """The folder in the hub's cache that an adapter is downloaded to; None where the repository is
    no adapter, or cannot be asked: whoever loads it as a base says why."""
    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        hf_hub_download(name, "adapter_config.json", endpoint=endpoint)
        patterns = ["adapter_config.json", "adapter_model.safetensors", "base/*"]
        return str(snapshot_download(name, allow_patterns=patterns, endpoint=endpoint))
    except Exception:  # noqa: BLE001  (of the hub, the network or the disk: see above)
        return None
