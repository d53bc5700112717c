"""Mutations: one parent, one child. A function `(parent, settings, draws) -> Stack` and its
settings in one file, one row here."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from redqueen.stages.evolve.mutate.component_mask import ComponentMask, component_mask
from redqueen.stages.evolve.mutate.gaussian import Gaussian, gaussian
from redqueen.stages.evolve.mutate.layer_gaussian import LayerGaussian, layer_gaussian
from redqueen.stages.evolve.mutate.neftune import Neftune, neftune
from redqueen.stages.evolve.mutate.rank_perturb import RankPerturb, rank_perturb
from redqueen.stages.evolve.mutate.svd_jitter import SvdJitter, svd_jitter
from redqueen.stages.evolve.operator import Operator, Outside, by_name, tag

MUTATIONS: dict[str, Operator] = {
    "svd_jitter": Operator(SvdJitter, svd_jitter, parents=1),
    "layer_gaussian": Operator(LayerGaussian, layer_gaussian, parents=1),
    "component_mask": Operator(ComponentMask, component_mask, parents=1),
    "gaussian": Operator(Gaussian, gaussian, parents=1),
    "neftune": Operator(Neftune, neftune, parents=1),
    "rank_perturb": Operator(RankPerturb, rank_perturb, parents=1),
}


class OutsideMutation(Outside):
    """A mutation by import path: `function(parent, settings, draws)`."""


def _by_name(value: Any) -> Any:
    return by_name("mutation", MUTATIONS, value)


MutationSettings = Annotated[
    Annotated[SvdJitter, Tag("svd_jitter")]
    | Annotated[LayerGaussian, Tag("layer_gaussian")]
    | Annotated[ComponentMask, Tag("component_mask")]
    | Annotated[Gaussian, Tag("gaussian")]
    | Annotated[Neftune, Tag("neftune")]
    | Annotated[RankPerturb, Tag("rank_perturb")]
    | Annotated[OutsideMutation, Tag("outside")],
    Discriminator(tag),
    BeforeValidator(_by_name),
]
