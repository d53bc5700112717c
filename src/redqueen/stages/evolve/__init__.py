"""The evolve stage: the weakest members of each role are replaced by mutations and crossovers of
the strongest, in weight space.

All students of a world sit a common `exam` first. `fitness` says what members are ranked by,
`select` who dies and who breeds, `plan` what each child is made of, `breed` makes it; `mutate/` and
`cross/` hold the operators, `merge` makes one member of many, from which students `restart` where
that is set. Settings and plans need no torch; only making a child does.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from redqueen.core.pipeline import Ports
from redqueen.core.state import StepState
from redqueen.core.world import Evidence, World, member_id
from redqueen.engine.protocol import Engine
from redqueen.records import Birth, Death, Member, Rating
from redqueen.rng import stream
from redqueen.stages.evolve.exam import Answer, hold_exams
from redqueen.stages.evolve.fitness import judge
from redqueen.stages.evolve.hall_of_fame import admit
from redqueen.stages.evolve.plan import Replacement, choose_from_mix, plan_replacements
from redqueen.stages.evolve.restart import restart_from_merge
from redqueen.stages.evolve.select import Standing

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter

_MAX_MUTATIONS = 5
"""Times that a child is mutated further because it is too near to another member, at most."""


def evolve(states: Sequence[StepState], ports: Ports, answer: Answer) -> None:
    for state in states:
        _remember(state)
    judged = [state for state in states if _is_judged(state)]
    hold_exams([state for state in judged if _has_exam(state)], ports, answer)
    for state in judged:
        _judge(state, ports.engine)


def _is_judged(state: StepState) -> bool:
    """Whether fitness is asked for. The weights of a diverged world are no parents."""
    config, step = state.world.config, state.step
    return not state.diverged and (
        _is_replaced(state)
        or config.evolve.hall_of_fame.due(step)
        or config.evolve.merge_due(step)
        or step == config.steps
        or state.world.has_enough_tokens
    )


def _is_replaced(state: StepState) -> bool:
    config = state.world.config
    return config.is_evolving and config.evolve.due(state.step)


def _has_exam(state: StepState) -> bool:
    return len(state.world.students) > 1 and state.world.config.evolve.exam.problems > 0


def _remember(state: StepState) -> None:
    """What the step says about members, until they are judged."""
    evidence = state.world.evidence
    for result in state.results:
        if result.proposal.author is None:  # a fixed problem
            continue
        teacher = result.teacher.member
        total, count = evidence.rewards.get(teacher, (0.0, 0))
        evidence.rewards[teacher] = (total + result.reward, count + 1)
        taught = evidence.taught.setdefault(teacher, Counter())
        taught.update(
            attempt.author.member
            for attempt in result.attempts
            if attempt.author and attempt.verdict != "voided"
        )


def _judge(state: StepState, engine: Engine) -> None:
    """Rank the members, and do what follows from it."""
    world, config = state.world, state.world.config
    world.evidence.exam = state.exam
    judged = judge(world)
    fitness = {name: value for name, (_, value) in judged.items()}
    roles = {member.id: member.role for member in world.members}
    if _is_replaced(state):
        _replace_weakest(state, judged, engine)
    if config.evolve.hall_of_fame.due(state.step):
        admit(world, state.step, fitness, engine)
    if config.evolve.merge_due(state.step):
        restart_from_merge(state, engine, fitness)
    # where all have started anew from their merge, one is as good as another
    world.chosen = max(world.students, key=lambda member: fitness.get(member.id, -math.inf)).id
    state.fitness = [
        {
            "member": name,
            "role": roles[name],
            "measure": measure,
            "fitness": value,
            "exam": _exam_score(state, name),
            "chosen": int(name == world.chosen),
        }
        for name, (measure, value) in judged.items()
    ]
    world.evidence.exam = None
    if _is_replaced(state):
        world.evidence = Evidence(before=dict(state.exam.skills) if state.exam else {})


def _exam_score(state: StepState, member: str) -> float | None:
    """The share of correct answers."""
    if state.exam is None or member not in state.exam.correct:
        return None
    correct = state.exam.correct[member]
    return sum(correct) / (len(correct) * state.exam.attempts)


def _replace_weakest(
    state: StepState, judged: Mapping[str, tuple[str, float]], engine: Engine
) -> None:
    """All children are made before one of them takes a place."""
    from redqueen.stages.evolve.breed import breed

    world, config = state.world, state.world.config.evolve
    replacements = plan_replacements(
        [_standing(member, world, *judged[member.id]) for member in world.members],
        config,
        stream(world.seed, state.step, "evolve"),
    )
    parents = sorted({parent for planned in replacements for parent in planned.parents})
    adapters = {parent: engine.read(world.slot(world.by_id(parent))) for parent in parents}
    children = [
        breed([adapters[parent] for parent in planned.parents], planned.operator, planned.seed)
        for planned in replacements
    ]
    for planned, adapter in zip(replacements, children, strict=True):
        dead = world.by_id(planned.dead)
        child = _child(planned, dead, state)
        engine.write(world.slot(dead), adapter, reset_optimizer=config.child.optimizer == "reset")
        if config.child.optimizer == "parent":
            engine.copy_optimizer(world.slot(world.by_id(planned.parents[0])), world.slot(dead))
        settings = planned.settings()
        if further := _mutate_apart(child, adapter, state, engine):
            settings["further"] = further
        operator = planned.operator.settings.type
        state.births.append(Birth(child, planned.parents, operator, settings))
        state.deaths.append(Death(dead, planned.reason))
        world.members = [child if member.id == dead.id else member for member in world.members]
    state.metrics["evolve/replaced"] = len(replacements)


def _standing(member: Member, world: World, measure: str, fitness: float) -> Standing:
    return Standing(
        member.id,
        member.role,
        member.rating.mu,
        member.rating.sigma,
        fitness,
        measure,
        world.own_learning_rate(member),
        world.temperature(member, member.role),
        tuple(exam.correct.get(member.id, ())) if (exam := world.evidence.exam) else (),
    )


def _child(planned: Replacement, dead: Member, state: StepState) -> Member:
    """The member that takes the place of the dead one."""
    perturb = state.world.config.evolve.perturb
    number = int(dead.id[1:].partition(".")[0])
    rate, temperature = dead.learning_rate, dead.temperature
    return replace(
        dead,
        id=member_id(dead.role, number, state.step),
        version=0,
        rating=Rating(planned.mu, planned.sigma),
        born=state.step,
        learning_rate=planned.learning_rate if perturb.learning_rate_factor != 1 else rate,
        temperature=planned.temperature if perturb.temperature_factor != 1 else temperature,
    )


def _mutate_apart(child: Member, adapter: "Adapter", state: StepState, engine: Engine) -> int:
    """Mutate a child further that is too near to another member of its role, a few times at most;
    how often is returned."""
    from redqueen.stages.evolve.breed import breed

    world, config = state.world, state.world.config.evolve
    others = [
        member.slot
        for member in world.members
        if member.role == child.role and member.slot != child.slot
    ]
    if not config.least_distance or not others or not config.mutations:
        return 0
    rng = stream(world.seed, state.step, "apart", child.id)
    for times in range(_MAX_MUTATIONS):
        distances = engine.distances(world.first_slot, len(world.members))[child.slot]
        if min(distances[slot] for slot in others) >= config.least_distance:
            return times
        operator = choose_from_mix(config.mutations, crosses=False, rng=rng)
        adapter = breed([adapter], operator, rng.getrandbits(63))
        engine.write(world.slot(child), adapter, reset_optimizer=False)
    return _MAX_MUTATIONS
