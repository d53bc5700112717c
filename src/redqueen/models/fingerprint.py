"""Fingerprints of a base's weights: what tells them from others of the same name."""

import hashlib
from pathlib import Path

import torch

_ENTRIES = 4096
"""About as many of each weight are hashed."""
_CHUNKS, _CHUNK_BYTES = 64, 1 << 16
"""Of a file."""


def of_weights(model: torch.nn.Module) -> str:
    """From a sample of each weight's entries, rounded to bfloat16, so that the dtype it was loaded
    in makes no difference. float16 does not round to it: it has fingerprints of its own."""
    weights = list(model.parameters())
    dtype = torch.float16 if weights[0].dtype == torch.float16 else torch.bfloat16
    sample = torch.cat(
        [
            weight.detach().flatten()[:: max(1, weight.numel() // _ENTRIES)].to(dtype)
            for weight in weights
        ]
    )
    digest = _hash(sample.view(torch.int16).cpu().numpy().tobytes())
    return f"{dtype}:{digest}".removeprefix("torch.")


def of_file(path: Path) -> str:
    """From chunks of a file whose weights are dequantised by the loader, which may do so
    differently in another version."""
    size = path.stat().st_size
    parts = [str(size).encode()]
    with path.open("rb") as file:
        for number in range(_CHUNKS):
            file.seek(number * max(0, size - _CHUNK_BYTES) // (_CHUNKS - 1))
            parts.append(file.read(_CHUNK_BYTES))
    return f"file:{_hash(b''.join(parts))}"


def differ(one: str, other: str) -> bool:
    """Whether they are certainly of different weights. Fingerprints of different kinds, and empty
    ones, do not compare."""
    return one != other and one.partition(":")[0] == other.partition(":")[0]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
