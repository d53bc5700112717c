"""GGUF files, unpacked once: to dequantise 1.5 billion weights takes minutes. They stay beside the
file as `FILE.gguf.DTYPE/`, in the Hugging Face format, and are used as long as the file is the
same and they are what was written."""

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import torch

log = logging.getLogger(__name__)

_MANIFEST = "unpacked.json"


def folder_of(file: Path, dtype: torch.dtype) -> Path:
    return file.with_name(f"{file.name}.{str(dtype).removeprefix('torch.')}")


def find_unpacked(file: Path, dtype: torch.dtype) -> tuple[Path, str] | None:
    """The folder with the weights of this file, and the fingerprint that they have."""
    folder = folder_of(file, dtype)
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        if manifest["sha256"] == _checksum(file):
            return folder, str(manifest["fingerprint"])
        log.info("%s has changed since it was unpacked: once more", file)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s cannot be used (%s): %s is unpacked once more", folder, error, file.name)
    return None


def keep_unpacked(file: Path, model: Any, tokenizer: Any, fingerprint: str) -> None:
    """Keep the weights beside the file. Where there is no room, or no right to write, the next load
    takes as long."""
    folder = folder_of(file, model.dtype)
    staging = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    try:
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        manifest = {"sha256": _checksum(file), "fingerprint": fingerprint}
        (staging / _MANIFEST).write_text(json.dumps(manifest))
        shutil.rmtree(folder, ignore_errors=True)
        staging.rename(folder)
        log.info("the weights are kept unpacked in %s: the next load takes seconds", folder)
    except (OSError, RuntimeError) as error:  # safetensors has its own error for a full disk
        shutil.rmtree(staging, ignore_errors=True)
        log.warning("unpacked weights could not be kept in %s: %s", folder, error)


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
