"""Mutations: one parent, one child. A function `(parent, settings, rng) -> Stack` and its settings
in one file, one row here."""

from redqueen.config.registry import Entry, Registry
from redqueen.stages.evolve.mutate.component_mask import ComponentMask, component_mask
from redqueen.stages.evolve.mutate.gaussian import Gaussian, gaussian
from redqueen.stages.evolve.mutate.layer_gaussian import LayerGaussian, layer_gaussian
from redqueen.stages.evolve.mutate.neftune import Neftune, neftune
from redqueen.stages.evolve.mutate.rank_perturb import RankPerturb, rank_perturb
from redqueen.stages.evolve.mutate.svd_jitter import SvdJitter, svd_jitter
from redqueen.stages.evolve.operator import CustomOperator, Operator

MUTATIONS: Registry[Operator] = Registry(
    "mutation",
    {
        "svd_jitter": Entry(svd_jitter, SvdJitter),
        "layer_gaussian": Entry(layer_gaussian, LayerGaussian),
        "component_mask": Entry(component_mask, ComponentMask),
        "gaussian": Entry(gaussian, Gaussian),
        "neftune": Entry(neftune, Neftune),
        "rank_perturb": Entry(rank_perturb, RankPerturb),
    },
    custom=CustomOperator,
)
