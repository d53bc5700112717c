"""What checkpoints keep of members: everything, or less, so that they can be moved."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    optimizer: bool = True
    """Whether optimizers are kept: moments and step counts."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights."""

    @property
    def is_exact(self) -> bool:
        """Whether members can be restored to the bit."""
        return self == EXACT

    def __str__(self) -> str:
        lost = [] if self.optimizer else ["without the optimizers' moments"]
        lost += [] if self.dtype == "float32" else [f"with weights in {self.dtype}"]
        return " and ".join(lost) or "to the bit"


EXACT = CheckpointContent()


@runtime_checkable
class SavesLess(Protocol):
    """An engine that can leave out what a checkpoint need not have. Others always save all."""

    saving: CheckpointContent
