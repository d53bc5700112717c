"""copy_parent: the first parent, as it is. The control that has selection and no variation. On the
raw factors."""

from typing import TYPE_CHECKING

from redqueen.stages.evolve.operator import OperatorSettings

if TYPE_CHECKING:
    from redqueen.stages.evolve.lowrank import Stack
    from redqueen.stages.evolve.operator_rng import OperatorRng


class CopyParent(OperatorSettings):
    """A control: what any operator must beat."""

    type: str = "copy_parent"


def copy_parent(
    first: "Stack", second: "Stack", settings: CopyParent, rng: "OperatorRng"
) -> "Stack":
    """The fitter parent as it is: selection without variation."""
    return first


copy_parent.parents = 1  # type: ignore[attr-defined]
