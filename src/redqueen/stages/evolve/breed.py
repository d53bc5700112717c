"""Making a child of one or two parents, in weight space."""

from collections.abc import Sequence

import torch

from redqueen.models.adapter import Adapter, LoraPair
from redqueen.stages.evolve.lowrank import NEWBORN_SIZE, Stack, stacks
from redqueen.stages.evolve.operator_rng import OperatorRng
from redqueen.stages.evolve.plan import PlannedOperator


def breed(
    parents: Sequence[Adapter],
    operator: PlannedOperator,
    seed: int,
    device: torch.device | str | None = None,
) -> Adapter:
    """The child is computed on the given device, by default where the parents are, and is left
    where they are."""
    rng = OperatorRng(seed, list(parents[0].projections))
    home = next(iter(parents[0].projections.values())).a.device
    projections: dict[str, LoraPair] = {}
    with torch.no_grad():
        for group in stacks(parents, torch.device(device) if device else home):
            given = (group[0], group[-1]) if operator.crosses else group[:1]
            child = revive(operator.function(*given, operator.settings.options, rng), rng)
            for place, name in enumerate(child.names):
                projections[name] = LoraPair(
                    child.a[place].to(home, copy=True), child.b[place].to(home, copy=True)
                )
    ordered = {name: projections[name] for name in parents[0].projections}
    return Adapter(ordered, parents[0].rank, parents[0].alpha)


def revive(child: Stack, rng: OperatorRng) -> Stack:
    """A component with neither A nor B would never learn, since each one's gradient is a product
    with the other: its A is drawn as a newborn's."""
    lengths = child.a.norm(dim=1)
    others = child.b.abs().amax(2)
    lost = (lengths <= 1e-6 * lengths.amax(1, keepdim=True)) & (
        others <= 1e-6 * others.amax(1, keepdim=True)
    )
    if not bool(lost.any()):
        return child
    fresh = rng.normal(child.names, child.a)
    fresh = fresh * NEWBORN_SIZE / fresh.norm(dim=1, keepdim=True)
    return Stack(
        child.names,
        fresh.where(lost[:, None, :], child.a),
        child.b.masked_fill(lost[:, :, None], 0),
    )
