"""The update stage: rewards become advantages, and every member learns from its own samples, all in
one pass."""

import math
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from redqueen.config.registry import Choice
from redqueen.config.stages import UpdateConfig
from redqueen.core.pipeline import Ports
from redqueen.core.state import ProposalResult, Row, StepState
from redqueen.engine.protocol import (
    Engine,
    OptimizerSettings,
    SlotStats,
    TrainSample,
    TrainStats,
)
from redqueen.records import Rejection
from redqueen.stages.update.advantages import Sample, estimate_advantages
from redqueen.stages.update.losses import bind_loss
from redqueen.stages.update.minibatches import merge_stats, split_minibatches


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a sample belongs: to a proposal, to an attempt at it, or to a turn of its game."""

    result: ProposalResult
    attempt: int | None = None
    turn: int | None = None

    def set_advantage(self, advantage: float) -> None:
        if self.attempt is not None:
            self.result.attempt_advantages[self.attempt] = advantage
        elif self.turn is not None and self.result.play is not None:
            self.result.play.advantages[self.turn] = advantage
        else:
            self.result.advantage = advantage


@dataclass(slots=True)
class _Trained:
    """What the optimizer steps of this step came to."""

    stats: list[TrainStats] = field(default_factory=list)
    grad_norms: dict[int, float] = field(default_factory=dict)
    """By slot: the largest of them."""
    diverged: set[int] = field(default_factory=set)
    """Slots."""


def update(states: Sequence[StepState], ports: Ports) -> None:
    for state in states:
        _steer_teachers(state)
    samples = [sample for state in states for sample in _train_samples(state)]
    ports.on_progress("update", 0, len(samples))
    trained = _train(samples, states, ports.engine)
    total = merge_stats(trained.stats)
    for state in states:
        _measure(state, trained, total, ports)
        _note_updates(state, trained, total)


def _train(samples: Sequence[TrainSample], states: Sequence[StepState], engine: Engine) -> _Trained:
    config = states[0].world.config.update
    members = [(state.world, member) for state in states for member in state.world.members]
    optimizers = {
        world.slot(member): OptimizerSettings(
            learning_rate=world.learning_rate(member),
            weight_decay=config.weight_decay,
            grad_clip=config.grad_clip,
        )
        for world, member in members
    }
    teachers = {world.slot(member) for world, member in members if member.role == "teacher"}
    trained = _Trained()
    for minibatch in split_minibatches(samples, config.optimizer_steps):
        parts = _accumulate(minibatch, teachers, config, engine)
        trained.stats += parts
        learning = {slot for part in parts for slot in part.slots} - trained.diverged
        stepped = engine.step({slot: optimizers[slot] for slot in sorted(learning)})
        trained.diverged |= stepped.diverged
        for slot, norm in stepped.grad_norms.items():
            trained.grad_norms[slot] = max(trained.grad_norms.get(slot, 0.0), norm)
    return trained


def _measure(state: StepState, trained: _Trained, total: TrainStats, ports: Ports) -> None:
    state.metrics["update/peak_gb"] = total.peak_gb
    state.metrics["time/cores"] = total.cores
    own = merge_stats(_blocks_of(state, trained.stats))
    state.metrics["update/ratio"] = own.ratio
    if own.out_of_memory:
        state.metrics["update/out_of_memory"] = own.out_of_memory
    for position, gap in own.gap_by_position.items():
        state.metrics[f"update/logprob_gap/from_{position}"] = gap
    _measure_distances(state, ports)


def _note_updates(state: StepState, trained: _Trained, total: TrainStats) -> None:
    """Who has learned, and who has diverged."""
    world = state.world
    slots = {member.id: world.slot(member) for member in world.members}
    state.diverged = [
        name for name, slot in slots.items() if slot in trained.diverged or name in state.diverged
    ]
    for member in world.members:
        slot = slots[member.id]
        stats = total.slots.get(slot)
        if stats and slot not in trained.diverged:
            row = _update_row(stats, trained.grad_norms[slot])
            state.updates.append({"member": member.id, **row})
            world.trained_tokens += stats.tokens
            world.change(member.id, version=member.version + 1)


def _blocks_of(state: StepState, stats: Sequence[TrainStats]) -> list[TrainStats]:
    """What was computed for members of this world, and for others as far as it was together."""
    slots = {state.world.slot(member) for member in state.world.members}
    parts = [part for one in stats for part in one.blocks or (one,)]
    return [part for part in parts if slots & set(part.slots)]


def _accumulate(
    samples: Sequence[TrainSample], teachers: Container[int], config: UpdateConfig, engine: Engine
) -> list[TrainStats]:
    """Gradients of all samples: in one pass, or in two where teachers have a loss of their own."""
    teacher_loss = config.loss if config.teacher_loss is None else config.teacher_loss
    teacher_kl = config.kl if config.teacher_kl is None else config.teacher_kl
    own: dict[tuple[str, float], tuple[Choice, list[TrainSample]]] = {}
    for sample in samples:
        teaches = sample.slot in teachers
        loss, kl = (teacher_loss, teacher_kl) if teaches else (config.loss, config.kl)
        own.setdefault((repr(loss), kl), (loss, []))[1].append(sample)
    return [engine.accumulate(mine, bind_loss(loss), kl) for (_, kl), (loss, mine) in own.items()]


def _steer_teachers(state: StepState) -> None:
    """The harder the problems already are, the slower teachers learn."""
    world, config = state.world, state.world.config.update
    rates = [result.solve_rate for result, _ in state.solvable if result.solve_rate is not None]
    if not (config.target_pass_rate and rates):
        return
    too_easy = sum(rates) / len(rates) - config.target_pass_rate
    low, high = config.target_bounds
    factor = world.teacher_rate_factor * math.exp(config.target_gain * too_easy)
    world.teacher_rate_factor = min(high, max(low, factor))
    state.metrics["update/teacher_rate_factor"] = world.teacher_rate_factor


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
        if not world.learning_rate(member):
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
    most = state.world.config.update.attempts
    for number, result in enumerate([*state.results, *state.replays, *state.posed]):
        teacher, kind = result.teacher.member, result.proposal.kind
        result.attempt_advantages = [0.0] * len(result.attempts)
        if result.proposal.rollout is not None and teacher not in past:
            group = ("kind", kind) if alone else ("prompt", result.prompt)
            samples.append(
                Sample(teacher, group, "teacher", kind, result.proposal.rollout, result.reward)
            )
            places.append(_Place(result))
        if isinstance(result.verdict, Rejection):  # a voided problem
            if result.play is not None:
                result.play.advantages = [0.0] * len(result.play.turns)
            continue
        group, counts = ("problem", number), Counter[str]()
        for place, attempt in enumerate(result.attempts):
            assert attempt.rollout is not None and attempt.author is not None
            student, earned = attempt.author.member, result.attempt_rewards[place]
            counts[student] += 1
            if student not in past and (not most or counts[student] <= most):
                samples.append(Sample(student, group, "student", kind, attempt.rollout, earned))
                places.append(_Place(result, place))
        for place, sample in _turn_samples(number, result):
            samples.append(sample)
            places.append(_Place(result, turn=place))
    return samples, places


def _turn_samples(number: int, result: ProposalResult) -> Iterator[tuple[int, Sample]]:
    """What members have sampled in the game about a problem; what came from one prompt is a
    group."""
    play = result.play
    if play is None:
        return
    play.advantages = [0.0] * len(play.turns)
    for place, (turn, reward) in enumerate(zip(play.turns, play.rewards, strict=True)):
        assert turn.rollout is not None and turn.author is not None
        group = ("turn", number, turn.prompt)
        kind = play.problem.kind
        yield place, Sample(turn.author.member, group, turn.role, kind, turn.rollout, reward)


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
