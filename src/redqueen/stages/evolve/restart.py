"""Periodic merging: every few steps students restart from a merge of all students.

Students are noisy walks from one base over different problems; their mean keeps what they have in
common (model soups; WARP, Rame et al. 2024; DiLoCo, Douillard et al. 2023).
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from redqueen.core.state import StepState
from redqueen.core.world import member_id
from redqueen.engine.protocol import Engine
from redqueen.records import Birth, Death, Member, Rating
from redqueen.rng import seed_for
from redqueen.stages.evolve.merge import merge_adapters


def restart_from_merge(state: StepState, engine: Engine, fitness: Mapping[str, float]) -> None:
    """The weakest `merge_share` of the students start anew from the merge of all. Children of this
    step are no parents, since they have learned nothing yet, and stay."""
    world, config = state.world, state.world.config.evolve
    newborn = {birth.member.id for birth in state.births}
    parents = sorted(
        (m for m in world.members if m.role != "teacher" and m.id not in newborn),
        key=lambda member: -fitness[member.id],
    )
    count = math.ceil(config.merge_share * len(parents))
    if len(parents) < 2:
        return
    seed = seed_for(world.seed, state.step, "merge")
    adapter = merge_adapters(
        [engine.read(world.slot(parent)) for parent in parents],
        config.merge,
        [fitness[parent.id] for parent in parents],
        seed,
    )
    rating = Rating(
        sum(parent.rating.mu for parent in parents) / len(parents),
        sum(parent.rating.sigma for parent in parents) / len(parents),
    )
    names = tuple(parent.id for parent in parents)
    for dead in parents[len(parents) - count :]:
        child = _child(dead, rating, state.step)
        # Each goes on with its own moments, as DiLoCo's inner optimizers do. Resetting them because
        # the merged factors are another basis was tried, and was a point worse
        # (docs/results/population.md).
        engine.write(world.slot(dead), adapter, reset_optimizer=False)
        settings = {**config.merge.table(), "seed": seed}
        state.births.append(Birth(child, names, f"merge {config.merge.type}", settings))
        state.deaths.append(Death(dead, "restarts from the merge of all students"))
        world.members = [child if member.id == dead.id else member for member in world.members]
    state.metrics["evolve/merged"] = count


def _child(dead: Member, rating: Rating, step: int) -> Member:
    number = int(dead.id[1:].partition(".")[0])
    return replace(dead, id=member_id(dead.role, number, step), version=0, rating=rating, born=step)
