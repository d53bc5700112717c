"""Fingerprints of a base's weights: what tells them from others of the same name and shape,
whatever file they were loaded from."""

import hashlib

import torch

_ENTRIES = 4096
"""About as many of each weight are hashed."""
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def fingerprint_of(model: torch.nn.Module, kind: str = "") -> str:
    """From a sample of each weight's entries, as the model computes with them, rounded to bfloat16:
    float32 and bfloat16 give the same. float16 does not round to it, and has a kind of its own."""
    weights = list(model.parameters())
    kind = kind or ("float16" if weights[0].dtype == torch.float16 else "bfloat16")
    sample = torch.cat(
        [
            weight.detach().flatten()[:: max(1, weight.numel() // _ENTRIES)].to(_DTYPES[kind])
            for weight in weights
        ]
    )
    data = sample.view(torch.int16).cpu().numpy().tobytes()
    return f"{kind}:{hashlib.sha256(data).hexdigest()[:32]}"


def kind_of(fingerprint: str) -> str:
    """The dtype that its sample was rounded to; empty where it is not of weights as used."""
    kind = fingerprint.partition(":")[0]
    return kind if kind in _DTYPES else ""
