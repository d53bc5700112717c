"""One step over worlds, from match to evolve. It reads top to bottom; what a stage does is in the
stage's own module.

Texts are verified and graded while others are still being written. Nothing that comes of it depends
on how long anything took.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from redqueen.core.pipeline import Overlap, Result, waiting
from redqueen.core.state import ProposalResult, StepState
from redqueen.engine.protocol import Engine, TrainSample, TrainSettings
from redqueen.engine.text_sampler import TextCompletion, TextRequest, TextSampler
from redqueen.records import Attempt, Author, Member, Pairing, Problem, Proposal, Rejection, Rollout
from redqueen.rng import seed_for, stream
from redqueen.sandbox import Sandbox
from redqueen.stages.evolve.hall_of_fame import admit, with_veterans
from redqueen.stages.evolve.stage import evolve
from redqueen.stages.match.schemes import match
from redqueen.stages.propose import Request, requests
from redqueen.stages.rate.outcome import games, rated
from redqueen.stages.record import measure
from redqueen.stages.reward import solve_rate, student_reward, teacher_reward
from redqueen.stages.solve import answer_prompt, grade
from redqueen.stages.update.advantages import Sample, advantages
from redqueen.stages.verify import judge, judge_drafts, without_duplicates
from redqueen.tasks import TaskKind
from redqueen.tasks.code.coverage import behaviour, probe
from redqueen.tasks.prompts import PromptFormat

FIXED = Member("fixed", "teacher", -1)
"""Stands where a teacher would, when problems are fixed ones."""


@dataclass(slots=True)
class Tools:
    """What a step works with, the same for all worlds."""

    sampler: TextSampler
    engine: Engine
    sandbox: Sandbox
    kinds: dict[str, TaskKind]
    prompt_format: PromptFormat
    tell: Callable[[str, int, int], None] = lambda phase, done, total: None
    """Told the phase, and how many of how many are done."""
    thread: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "beside"))
    """Works for the sandbox while the engine writes."""
    timings: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By stage: seconds, and of these, waiting for the sandbox."""

    @contextmanager
    def timed(self, stage: str) -> Iterator[list[float]]:
        """Within: what the stage has waited is added to the list."""
        started, waited = time.monotonic(), list[float]()
        yield waited
        seconds, before = self.timings.get(stage, (0.0, 0.0))
        self.timings[stage] = seconds + time.monotonic() - started, before + sum(waited)


def play(turns: Sequence[StepState], tools: Tools) -> None:
    """One step of worlds that share engine calls: what such a call is told, such as a temperature,
    they have in common."""
    for turn in turns:
        turn.pairings = _pairings(turn)
    with tools.timed("propose") as waited:
        propose(turns, tools, waited)
    with tools.timed("solve") as waited:
        solve(turns, tools, waited)
    with tools.timed("update"):
        for turn in turns:
            reward(turn)
        update(turns, tools)
    with tools.timed("evolve"):
        for turn in turns:
            remember(turn)
            measure(turn)
            evolve(turn, tools.engine)
            admit(turn.world, turn.step, tools.engine)


def _pairings(turn: StepState) -> list[Pairing]:
    world = turn.world
    if world.config.is_fixed:
        return [Pairing(FIXED, student, 0.5) for student in world.members]
    pairings = match(
        world.members, turn.step, stream(world.seed, turn.step, "match"), world.config.match
    )
    return (
        with_veterans(pairings, world, stream(world.seed, turn.step, "hall"))
        if world.hall
        else pairings
    )


def propose(turns: Sequence[StepState], tools: Tools, waited: list[float]) -> None:
    """Teachers write proposals; the sandbox turns them into problems or rejections."""
    config = turns[0].world.config
    with waiting(waited):  # on a CPU it is done at once
        fixed = [
            (turn, tools.thread.submit(_fixed, turn, tools))
            for turn in turns
            if turn.world.config.is_fixed
        ]
    asked = [
        (turn, request)
        for turn in turns
        if not turn.world.config.is_fixed
        for request in _requests(turn, tools)
    ]
    asks = []
    for turn, request in asked:
        teacher = turn.pairings[request.pairing].teacher
        asks.append(
            TextRequest(
                turn.world.slot(teacher),
                request.prompt,
                turn.world.config.propose.max_tokens,
                request.seed,
                teacher.temperature,
            )
        )

    first: dict[tuple[int, int], int] = {}
    questions = [
        first.setdefault((turn.world.number, request.prompt_number), number)
        for number, (turn, request) in enumerate(asked)
    ]

    def proposal(number: int, text: str, rollout: Rollout | None = None) -> Proposal:
        turn, request = asked[number]
        teacher = turn.pairings[request.pairing].teacher
        return Proposal(
            request.kind, text, request.references, Author(teacher.id, teacher.version), rollout
        )

    def judged(some: list[Answer]) -> list[Problem | Rejection]:
        return judge(
            [proposal(*one) for one in some],
            tools.kinds,
            tools.prompt_format,
            tools.sandbox,
            config.verify,
        )

    written, found = _written(
        tools, "propose", asks, questions, config.propose.temperature, judged, waited
    )
    for number, ((turn, request), one, verdict) in enumerate(
        zip(asked, written, found, strict=True)
    ):
        turn.posed.append(
            ProposalResult(
                request.pairing,
                request.prompt_number,
                proposal(number, one.text, one.rollout),
                verdict,
            )
        )
    for turn in turns:
        for posed, verdict in zip(
            turn.posed,
            without_duplicates([posed.verdict for posed in turn.posed], turn.world.known),
            strict=True,
        ):
            posed.verdict = verdict
    with waiting(waited):
        for turn, future in fixed:
            turn.posed = future.result()


def _requests(turn: StepState, tools: Tools) -> list[Request]:
    world = turn.world
    config = world.config
    return requests(
        turn.pairings,
        world.archive,
        tools.kinds,
        tools.prompt_format,
        config.propose,
        world.seed,
        turn.step,
        config.archive.rarity,
    )


def _fixed(turn: StepState, tools: Tools) -> list[ProposalResult]:
    """The fixed problems of each student: they may come again in a later step, and to other
    students, but not twice to one."""
    world = turn.world
    assert world.source is not None
    drafts = [
        (number, kind, draft)
        for number, pairing in enumerate(turn.pairings)
        for kind, draft in world.source(
            world.seed, turn.step, pairing.student.id, world.config.fixed.problems
        )
    ]
    verdicts = judge_drafts(
        [(kind, draft, None) for _, kind, draft in drafts],
        tools.kinds,
        tools.sandbox,
        world.config.verify,
    )
    found = [
        ProposalResult(number, place, Proposal(kind, ""), verdict)
        for place, ((number, kind, _), verdict) in enumerate(zip(drafts, verdicts, strict=True))
    ]
    for number in range(len(turn.pairings)):
        mine = [posed for posed in found if posed.pairing == number]
        for posed, verdict in zip(
            mine, without_duplicates([posed.verdict for posed in mine], ()), strict=True
        ):
            posed.verdict = verdict
    return found


def solve(turns: Sequence[StepState], tools: Tools, waited: list[float]) -> None:
    """Students attempt the problems; the sandbox grades them. Meanwhile it also looks how the new
    programs behave."""
    config = turns[0].world.config
    posed = [
        (turn, one, one.verdict)
        for turn in turns
        for one in turn.problems
        if isinstance(one.verdict, Problem)
    ]
    with waiting(waited):
        probes = tools.thread.submit(tools.sandbox.run, [probe(problem) for _, _, problem in posed])
    asks: list[TextRequest] = []
    questions: list[int] = []
    for question, (turn, one, problem) in enumerate(posed):
        student = turn.pairings[one.pairing].student
        prompt = answer_prompt(problem, tools.kinds[problem.kind], tools.prompt_format)
        for number in range(turn.world.config.solve.attempts):
            seed = seed_for(turn.world.seed, turn.step, "solve", student.id, problem.key, number)
            asks.append(
                TextRequest(
                    turn.world.slot(student),
                    prompt,
                    turn.world.config.solve.max_tokens,
                    seed,
                    student.temperature,
                )
            )
            questions.append(question)

    def graded(some: list[Answer]) -> list[Attempt]:
        return grade(
            [(posed[question][2], text) for question, text in some],
            tools.kinds,
            tools.prompt_format,
            tools.sandbox,
            config.verify,
        )

    written, found = _written(
        tools, "solve", asks, questions, config.solve.temperature, graded, waited
    )
    for question, text, attempt in zip(questions, written, found, strict=True):
        turn, one, _ = posed[question]
        student = turn.pairings[one.pairing].student
        one.attempts.append(
            replace(attempt, author=Author(student.id, student.version), rollout=text.rollout)
        )
    with waiting(waited):
        outcomes = probes.result()
    for (_, one, problem), outcome in zip(posed, outcomes, strict=True):
        one.behaviour = behaviour(problem, outcome)


Answer = tuple[int, str]
"""A question by number, and a text that answers it."""


def _written(
    tools: Tools,
    stage: str,
    asks: Sequence[TextRequest],
    questions: Sequence[int],
    temperature: float,
    work: Callable[[list[Answer]], Sequence[Result]],
    waited: list[float],
) -> tuple[list[TextCompletion], list[Result]]:
    """The texts that were asked for, and what the sandbox makes of each, which begins while others
    are still being written. A text that answers the same question a second time is not worked on
    again."""
    if not asks:
        return [], []
    known: dict[Answer, Result] = {}

    def once(some: list[Answer]) -> list[Result]:
        new = [answer for answer in dict.fromkeys(some) if answer not in known]
        known.update(zip(new, work(new), strict=True))
        return [known[answer] for answer in some]

    results: Overlap[Answer, Result] = Overlap(tools.thread, once, waited)
    count = 0

    def receive(some: Sequence[tuple[int, TextCompletion]]) -> None:
        nonlocal count
        results.add((number, (questions[number], written.text)) for number, written in some)
        count += len(some)
        tools.tell(stage, count, len(asks))

    tools.tell(stage, 0, len(asks))
    written = tools.sampler.sample(asks, temperature, receive)
    return written, results.results()


def reward(turn: StepState) -> None:
    """What everybody earned, who won, and what that says about their skill."""
    world, config = turn.world, turn.world.config
    shown = set(world.behaviours)
    for posed in turn.posed:
        if isinstance(posed.verdict, Problem):
            posed.solve_rate = solve_rate(posed.attempts)
            posed.novel = posed.behaviour not in shown
            shown.add(posed.behaviour)
        posed.reward = teacher_reward(posed.verdict, posed.solve_rate, posed.novel, config.reward)
        posed.attempt_rewards = [
            student_reward(attempt, config.reward) for attempt in posed.attempts
        ]
    turn.games = [[] for _ in turn.pairings]
    if config.is_fixed:
        return
    for number, pairing in enumerate(turn.pairings):
        turn.games[number] = games(
            pairing,
            [posed.solve_rate for posed in turn.posed if posed.pairing == number],
            config.match,
        )
        teacher, student = world.by_id(pairing.teacher.id), world.by_id(pairing.student.id)
        after = rated(teacher.rating, student.rating, turn.games[number], config.match)
        if turn.games[number]:
            world.change(teacher.id, rating=after[0])
            world.change(student.id, rating=after[1])


def update(turns: Sequence[StepState], tools: Tools) -> None:
    """Every member learns from what it wrote, all in one pass."""
    rows: list[TrainSample] = []
    rates: dict[int, float] = {}
    broken: set[int] = set()
    config = turns[0].world.config.update
    for turn in turns:
        own = turn.world.config
        samples, places = _samples(turn)
        found = advantages(samples, own.update)
        for (posed, attempt), advantage in zip(places, found, strict=True):
            if attempt is None:
                posed.advantage = advantage
            else:
                posed.attempt_advantages[attempt] = advantage
        turn.metrics["update/samples_frac"] = (
            sum(value != 0 for value in found) / len(found) if found else 0.0
        )
        for sample, advantage in zip(samples, found, strict=True):
            writing, member = sample.rollout, turn.world.by_id(sample.member)
            if math.isnan(
                writing.logprob
            ):  # its weights have grown beyond all measure: nothing is learned from it
                broken.add(turn.world.slot(member))
                continue
            temperature = turn.world.temperature(member, sample.sort[0])
            rows.append(
                TrainSample(
                    turn.world.slot(member),
                    writing.prompt,
                    writing.tokens,
                    advantage,
                    writing.logprobs,
                    temperature,
                )
            )
        rates |= {
            turn.world.slot(member): turn.world.learning_rate(member)
            for member in turn.world.members
        }
    tools.tell("update", 0, len(rows))
    settings = TrainSettings(
        learning_rates=rates,
        weight_decay=config.weight_decay,
        grad_clip=config.grad_clip,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        kl=config.kl,
        optimizer_steps=config.optimizer_steps,
    )
    stats = tools.engine.train(rows, settings)
    broken |= stats.broken
    for turn in turns:
        turn.metrics["update/peak_gb"] = stats.peak_gb
        turn.metrics |= _distances(
            turn, tools.engine.distances(turn.world.first_slot, len(turn.world.members))
        )
        turn.broken = [
            member.id for member in turn.world.members if turn.world.slot(member) in broken
        ]
        for member in turn.world.members:
            if learned := stats.members.get(turn.world.slot(member)):
                turn.updates.append(
                    {
                        "member": member.id,
                        "samples": learned.rows,
                        **{name: getattr(learned, name) for name in _LEARNED},
                    }
                )
                turn.world.change(member.id, version=member.version + 1)


def _distances(turn: StepState, apart: Sequence[Sequence[float]]) -> dict[str, float]:
    """How far the members of each role are apart in weight space: on average, and the two that are
    closest."""
    found = {}
    for role in ("teacher", "student", "both"):
        slots = [member.slot for member in turn.world.members if member.role == role]
        pairs = [apart[one][other] for one in slots for other in slots if one < other]
        if pairs:
            found[f"population/distance/{role}"] = sum(pairs) / len(pairs)
            found[f"population/least_distance/{role}"] = min(pairs)
    return found


_LEARNED = (
    "tokens",
    "loss",
    "grad_norm",
    "entropy",
    "logprob_gap",
    "logprob_gap_max",
    "kl",
    "clipped_frac",
)


def _samples(turn: StepState) -> tuple[list[Sample], list[tuple[ProposalResult, int | None]]]:
    """All that was written in a turn by members that learn, and where it belongs: to a proposal, or
    to an attempt of it by number."""
    samples: list[Sample] = []
    places: list[tuple[ProposalResult, int | None]] = []
    past = {veteran.member.id for veteran in turn.world.hall}
    alone = turn.world.config.propose.samples == 1
    for number, posed in enumerate(turn.posed):
        pairing, kind = turn.pairings[posed.pairing], posed.proposal.kind
        posed.attempt_advantages = [0.0] * len(posed.attempts)
        if posed.proposal.rollout is not None and pairing.teacher.id not in past:
            group = ("kind", kind) if alone else ("prompt", posed.prompt)
            samples.append(
                Sample(
                    pairing.teacher.id,
                    group,
                    ("teacher", kind),
                    posed.proposal.rollout,
                    posed.reward,
                )
            )
            places.append((posed, None))
        if pairing.student.id in past:
            continue
        for turn_number, (attempt, earned) in enumerate(
            zip(posed.attempts, posed.attempt_rewards, strict=True)
        ):
            assert attempt.rollout is not None
            samples.append(
                Sample(
                    pairing.student.id,
                    ("problem", number),
                    ("student", kind),
                    attempt.rollout,
                    earned,
                )
            )
            places.append((posed, turn_number))
    return samples, places


def remember(turn: StepState) -> None:
    """What the world keeps of a step."""
    world = turn.world
    for posed in turn.problems:
        assert isinstance(posed.verdict, Problem)
        posed.new = posed.verdict.key not in world.known
        world.known.add(posed.verdict.key)
        world.behaviours.add(posed.behaviour)
        world.archive.add(posed.verdict)
    world.steps_without_problem = 0 if turn.problems else world.steps_without_problem + 1
    world.steps_without_update = 0 if turn.updates else world.steps_without_update + 1
