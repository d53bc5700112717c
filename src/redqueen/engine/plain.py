"""Sampling from a bare base, without adapters."""

from collections.abc import Callable, Sequence

from redqueen.engine import Completion, Row, Sampling
from redqueen.engine.torch_engine import TorchEngine
from redqueen.model.base import Base


def complete(base: Base, rows: Sequence[Row], sampling: Sampling, done: Callable[[int], None] = lambda count: None) -> list[Completion]:
    """One completion for each row, in order."""
    return TorchEngine(base).generate(rows, sampling, done)
