"""Crossovers: two parents, the fitter one first. A function `(first, second, settings, rng) ->
Stack` and its settings in one file, a row here.

Fisher-weighted averaging (arXiv 2111.09832) is not here: see docs/operators.md.
"""

from redqueen.config.registry import Entry, Registry
from redqueen.stages.evolve.cross.copy_parent import CopyParent, copy_parent
from redqueen.stages.evolve.cross.dare import Dare, dare
from redqueen.stages.evolve.cross.della import Della, della
from redqueen.stages.evolve.cross.extrapolate import Extrapolate, extrapolate
from redqueen.stages.evolve.cross.layerwise import Layerwise, layerwise
from redqueen.stages.evolve.cross.linear import Linear, linear
from redqueen.stages.evolve.cross.slerp import Slerp, slerp
from redqueen.stages.evolve.cross.svd_subspace import SvdSubspace, svd_subspace
from redqueen.stages.evolve.cross.ties import Ties, ties
from redqueen.stages.evolve.operator import CustomOperator, Operator

CROSSOVERS: Registry[Operator] = Registry(
    "crossover",
    {
        "dare": Entry(dare, Dare),
        "layerwise": Entry(layerwise, Layerwise),
        "svd_subspace": Entry(svd_subspace, SvdSubspace),
        "extrapolate": Entry(extrapolate, Extrapolate),
        "linear": Entry(linear, Linear),
        "ties": Entry(ties, Ties),
        "della": Entry(della, Della),
        "slerp": Entry(slerp, Slerp),
        "copy_parent": Entry(copy_parent, CopyParent),
    },
    custom=CustomOperator,
)
