"""What the rest is told of a base."""

import torch

from redqueen.engine.protocol import BaseInfo
from redqueen.models.base import Base


def describe(base: Base) -> BaseInfo:
    on_gpu = base.device.type == "cuda"
    return BaseInfo(
        name=base.name,
        fingerprint=base.fingerprint,
        parameters=base.parameters,
        dtype=str(base.dtype).removeprefix("torch."),
        device=str(base.device),
        hardware=torch.cuda.get_device_name(base.device)
        if on_gpu
        else f"CPU, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads",
        prompt_format=base.prompt_format,
        has_chat_template=bool(base.tokenizer.chat_template),
        context=getattr(base.model.config, "max_position_embeddings", None) or 1 << 30,
    )
