"""The update stage: rewards become advantages, and every member learns from its own samples, all in
one pass."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from redqueen.core.pipeline import Ports
from redqueen.core.state import ProposalResult, Row, StepState
from redqueen.engine.protocol import OptimizerSettings, SlotStats, TrainSample
from redqueen.stages.update.advantages import Sample, estimate_advantages
from redqueen.stages.update.losses import bind_loss
from redqueen.stages.update.minibatches import merge_stats, split_minibatches


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a sample belongs: to a proposal, or to an attempt at it."""

    result: ProposalResult
    attempt: int | None = None

    def set_advantage(self, advantage: float) -> None:
        if self.attempt is None:
            self.result.advantage = advantage
        else:
            self.result.attempt_advantages[self.attempt] = advantage


def update(states: Sequence[StepState], ports: Ports) -> None:
    samples = [sample for state in states for sample in _train_samples(state)]
    ports.on_progress("update", 0, len(samples))
    config, engine = states[0].world.config.update, ports.engine
    optimizers = {
        state.world.slot(member): OptimizerSettings(
            learning_rate=state.world.learning_rate(member),
            weight_decay=config.weight_decay,
            grad_clip=config.grad_clip,
        )
        for state in states
        for member in state.world.members
    }
    loss = bind_loss(config.loss)
    stats, grad_norms, diverged = [], dict[int, float](), set[int]()
    for minibatch in split_minibatches(samples, config.optimizer_steps):
        stats.append(engine.accumulate(minibatch, loss, config.kl))
        learning = stats[-1].slots.keys() - diverged
        stepped = engine.step({slot: optimizers[slot] for slot in sorted(learning)})
        diverged |= stepped.diverged
        for slot, norm in stepped.grad_norms.items():
            grad_norms[slot] = max(grad_norms.get(slot, 0.0), norm)
    total = merge_stats(stats)
    for state in states:
        state.metrics["update/peak_gb"] = total.peak_gb
        _measure_distances(state, ports)
        world = state.world
        slots = {member.id: world.slot(member) for member in world.members}
        state.diverged = [
            name for name, slot in slots.items() if slot in diverged or name in state.diverged
        ]
        for member in world.members:
            trained = total.slots.get(slots[member.id])
            if trained and slots[member.id] not in diverged:
                row = _update_row(trained, grad_norms[slots[member.id]])
                state.updates.append({"member": member.id, **row})
                world.change(member.id, version=member.version + 1)


def _train_samples(state: StepState) -> list[TrainSample]:
    """Every sample of the members that learn, with its advantage."""
    world = state.world
    samples, places = _collect(state)
    advantages = estimate_advantages(samples, world.config.update.estimator)
    for place, advantage in zip(places, advantages, strict=True):
        place.set_advantage(advantage)
    nonzero = sum(advantage != 0 for advantage in advantages)
    state.metrics["update/samples_frac"] = nonzero / len(advantages) if advantages else 0.0
    train, diverged = [], set()
    for sample, advantage in zip(samples, advantages, strict=True):
        member, rollout = world.by_id(sample.member), sample.rollout
        if math.isnan(rollout.logprob):  # the adapter has diverged: nothing is learned from it
            diverged.add(member.id)
            continue
        train.append(
            TrainSample(
                world.slot(member),
                rollout.prompt,
                rollout.tokens,
                advantage,
                rollout.logprobs,
                world.temperature(member, sample.role),
            )
        )
    state.diverged = [member.id for member in world.members if member.id in diverged]
    return train


def _collect(state: StepState) -> tuple[list[Sample], list[_Place]]:
    """Everything that living members have sampled in this step, and where it belongs."""
    samples: list[Sample] = []
    places: list[_Place] = []
    past = {past.member.id for past in state.world.hall_of_fame}
    alone = state.world.config.propose.samples == 1
    for number, result in enumerate(state.results):
        teacher, student, kind = result.teacher.member, result.student.member, result.proposal.kind
        result.attempt_advantages = [0.0] * len(result.attempts)
        if result.proposal.rollout is not None and teacher not in past:
            group = ("kind", kind) if alone else ("prompt", result.prompt)
            samples.append(
                Sample(teacher, group, "teacher", kind, result.proposal.rollout, result.reward)
            )
            places.append(_Place(result))
        if student in past:
            continue
        for place, attempt in enumerate(result.attempts):
            assert attempt.rollout is not None
            earned = result.attempt_rewards[place]
            samples.append(
                Sample(student, ("problem", number), "student", kind, attempt.rollout, earned)
            )
            places.append(_Place(result, place))
    return samples, places


def _measure_distances(state: StepState, ports: Ports) -> None:
    """How far the members of each role are apart in weight space: on average, and the closest
    two."""
    world = state.world
    distances = ports.engine.distances(world.first_slot, len(world.members))
    for role in ("teacher", "student", "both"):
        slots = [member.slot for member in world.members if member.role == role]
        pairs = [distances[a][b] for a in slots for b in slots if a < b]
        if pairs:
            state.metrics[f"population/distance/{role}"] = sum(pairs) / len(pairs)
            state.metrics[f"population/least_distance/{role}"] = min(pairs)


def _update_row(stats: SlotStats, grad_norm: float) -> Row:
    return {
        "samples": stats.samples,
        "tokens": stats.tokens,
        "loss": stats.loss,
        "grad_norm": grad_norm,
        "entropy": stats.entropy,
        "logprob_gap": stats.logprob_gap,
        "logprob_gap_max": stats.logprob_gap_max,
        "kl": stats.kl,
        "clipped_frac": stats.clipped_frac,
    }
