"""Crossovers: two parents, the fitter one first. A function `(first, second, settings, draws) ->
Stack` and its settings in one file, a row here.

Fisher-weighted averaging (arXiv 2111.09832) is not here: see docs/operators.md.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from redqueen.stages.evolve.cross.copy_parent import CopyParent, copy_parent
from redqueen.stages.evolve.cross.dare import Dare, dare
from redqueen.stages.evolve.cross.della import Della, della
from redqueen.stages.evolve.cross.extrapolate import Extrapolate, extrapolate
from redqueen.stages.evolve.cross.layerwise import Layerwise, layerwise
from redqueen.stages.evolve.cross.linear import Linear, linear
from redqueen.stages.evolve.cross.slerp import Slerp, slerp
from redqueen.stages.evolve.cross.svd_subspace import SvdSubspace, svd_subspace
from redqueen.stages.evolve.cross.ties import Ties, ties
from redqueen.stages.evolve.operator import Operator, Outside, by_name, tag

CROSSOVERS: dict[str, Operator] = {
    "dare": Operator(Dare, dare, parents=2),
    "layerwise": Operator(Layerwise, layerwise, parents=2),
    "svd_subspace": Operator(SvdSubspace, svd_subspace, parents=2),
    "extrapolate": Operator(Extrapolate, extrapolate, parents=2),
    "linear": Operator(Linear, linear, parents=2),
    "ties": Operator(Ties, ties, parents=2),
    "della": Operator(Della, della, parents=2),
    "slerp": Operator(Slerp, slerp, parents=2),
    "copy_parent": Operator(CopyParent, copy_parent, parents=1),
}


class OutsideCrossover(Outside):
    """A crossover by import path: `function(first, second, settings, draws)`."""


def _by_name(value: Any) -> Any:
    return by_name("crossover", CROSSOVERS, value)


CrossoverSettings = Annotated[
    Annotated[Dare, Tag("dare")]
    | Annotated[Layerwise, Tag("layerwise")]
    | Annotated[SvdSubspace, Tag("svd_subspace")]
    | Annotated[Extrapolate, Tag("extrapolate")]
    | Annotated[Linear, Tag("linear")]
    | Annotated[Ties, Tag("ties")]
    | Annotated[Della, Tag("della")]
    | Annotated[Slerp, Tag("slerp")]
    | Annotated[CopyParent, Tag("copy_parent")]
    | Annotated[OutsideCrossover, Tag("outside")],
    Discriminator(tag),
    BeforeValidator(_by_name),
]
