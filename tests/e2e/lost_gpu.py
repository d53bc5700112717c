"""An engine whose device is lost in its fourth call, where the file REDQUEEN_TEST_LOST names says
so."""

import os
from itertools import count
from pathlib import Path
from typing import Any

import torch

from redqueen.engine.torch.decode_loop import DecodeLoop
from redqueen.engine.torch.engine import TorchEngine

_sample = DecodeLoop.run
_calls = count(1)


def _run(self: DecodeLoop, *arguments: Any) -> Any:
    if next(_calls) > 3 and Path(os.environ["REDQUEEN_TEST_LOST"]).exists():
        raise torch.AcceleratorError("CUDA error: unspecified launch failure\nmore")
    return _sample(self, *arguments)


class LostGpu(TorchEngine):
    def sample(self, *arguments: Any, **settings: Any) -> Any:
        DecodeLoop.run = _run  # type: ignore[method-assign, assignment]
        return super().sample(*arguments, **settings)
