"""The weights of one LoRA adapter, as engines, operators and files exchange them. Importing this
needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class LoraPair(NamedTuple):
    """The two factors of one projection. The projection adds `x @ a @ b * scale` to its output."""

    a: "Tensor"
    """[in, rank]: PEFT's `lora_A`, transposed."""
    b: "Tensor"
    """[rank, out]: PEFT's `lora_B`, transposed. Zero in a new adapter."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One member's weights: float32 on the CPU, by the projection's name in the model."""

    projections: Mapping[str, LoraPair]
    rank: int
    alpha: float

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    @property
    def targets(self) -> tuple[str, ...]:
        """Last names of its projections, such as q_proj."""
        return tuple(sorted({name.rpartition(".")[2] for name in self.projections}))
