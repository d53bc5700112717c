"""A base's weights as a short text: what tells them from others of the same name."""

import hashlib
from pathlib import Path

import torch

_NUMBERS = 4096
"""About so many of each weight."""
_PLACES, _BYTES = 64, 1 << 16
"""Of a file: so many pieces, so large."""


def of_weights(model: torch.nn.Module) -> str:
    """By some numbers of each, rounded to bfloat16, so that it does not matter whether the loader
    did so; float16 is another matter."""
    weights = list(model.parameters())
    rounding = torch.float16 if weights[0].dtype == torch.float16 else torch.bfloat16
    some = torch.cat(
        [
            weight.detach().flatten()[:: max(1, weight.numel() // _NUMBERS)].to(rounding)
            for weight in weights
        ]
    )
    return f"{rounding}:{_short(some.view(torch.int16).cpu().numpy().tobytes())}".removeprefix(
        "torch."
    )


def of_file(path: Path) -> str:
    """By some pieces of a file whose weights are expanded by whoever loads it, one version perhaps
    otherwise than the next."""
    size = path.stat().st_size
    found = [str(size).encode()]
    with path.open("rb") as file:
        for number in range(_PLACES):
            file.seek(number * max(0, size - _BYTES) // (_PLACES - 1))
            found.append(file.read(_BYTES))
    return f"file:{_short(b''.join(found))}"


def differ(one: str, other: str) -> bool:
    """Whether they are of different weights. Those that do not compare, and one that is empty, tell
    nothing."""
    return one != other and one.partition(":")[0] == other.partition(":")[0]


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
