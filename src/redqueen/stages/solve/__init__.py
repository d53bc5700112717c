"""The solve stage: students attempt the problems, and their answers are graded while others are
still being sampled. Then come the games that go on from there."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from redqueen.config.schema import Config
from redqueen.core.pipeline import Check, Ports, check_once
from redqueen.core.state import PairingState, ProposalResult, StepState
from redqueen.engine.text_sampler import TextCompletion, TextRequest
from redqueen.records import (
    Attempt,
    Author,
    GameTurn,
    Member,
    Pairing,
    Problem,
    Proposal,
    Rejection,
)
from redqueen.rng import seed_for, stream
from redqueen.stages.solve.games import play_games
from redqueen.stages.solve.grading import grade_answers

__all__ = ["answer", "grade_answers", "solve"]

REPLAYED = Member("replayed", "teacher", -1)
"""Stands in for a teacher where a problem comes from the archive."""


def solve(states: Sequence[StepState], ports: Ports) -> None:
    """Sample and grade all attempts. Meanwhile the sandbox also probes how new problems behave."""
    probing: Check[ProposalResult] = Check(ports.background, lambda results: _probe(results, ports))
    probing.add(
        [result for state in states for result, _ in [*state.solvable, *state.posed_problems]]
    )
    for state in states:
        state.replays = list(_replay(state))
    asked = [one for state in states for one in _request_attempts(state, ports)]
    attempts = answer(states[0].world.config, [request for _, _, request in asked], ports)
    probing.finish()
    ports.add_time("solve", 0.0, waited=probing.blocked_s)
    for (result, student, _), attempt in zip(asked, attempts, strict=True):
        author = Author(student.id, student.version)
        result.attempts.append(replace(attempt, author=author))
    for state in states:
        _void_problems(state)
    play_games(states, ports)
    for state in states:
        _void_problems(state)  # a repaired answer may show it, too


def answer(
    config: Config, requests: Sequence[TextRequest], ports: Ports, stage: str = "solve"
) -> list[Attempt]:
    """Sample answers and grade them, in order; the item of each request is its problem."""
    known: dict[Hashable, Attempt] = {}
    attempts: dict[int, Attempt] = {}

    def grade(completions: list[TextCompletion]) -> None:
        graded = check_once(completions, _same_answer, judge, known)
        for completion, attempt in zip(completions, graded, strict=True):
            attempts[id(completion.request)] = replace(attempt, rollout=completion.rollout)

    def judge(completions: list[TextCompletion]) -> list[Attempt]:
        answers = [(completion.request.item, completion.text) for completion in completions]
        return grade_answers(
            answers, ports.kinds, ports.prompt_format, ports.sandbox, config.verify
        )

    grading = Check(ports.background, grade)
    ports.sample(stage, requests, config.solve.temperature, grading.add)
    grading.finish()
    ports.add_time(stage, 0.0, waited=grading.blocked_s)
    return [attempts[id(request)] for request in requests]


def _void_problems(state: StepState) -> None:
    """What one attempt shows to be no problem is none for all who attempted it in this step: nobody
    learns from it, and its proposal is rejected after all."""
    attempted = state.attempted
    reasons: dict[str, str] = {}
    for result, problem in attempted:
        texts: list[Attempt | GameTurn] = [*result.attempts, *result.turns]
        for text in texts:
            if text.verdict == "voided":
                reasons[problem.key] = text.detail
    for result, problem in attempted:
        if problem.key in reasons:
            state.world.archive.remove(problem.key)
            result.verdict = Rejection("voided", reasons[problem.key])
            result.attempts = [replace(attempt, verdict="voided") for attempt in result.attempts]
            if result.play is not None:
                result.play.turns = [replace(turn, verdict="voided") for turn in result.turns]


def _replay(state: StepState) -> Iterator[ProposalResult]:
    """For each student a share of problems from the archive."""
    world, config = state.world, state.world.config.archive
    if not config.replay_share:
        return
    own_problems = world.config.match.scheme.type == "self_play"
    fresh = Counter(s.id for result, _ in state.solvable for s in state.students_of(result))
    for student in world.students:
        count = round(fresh[student.id] * config.replay_share / (1 - config.replay_share))
        rng = stream(world.seed, state.step, "replay", student.id)
        problems = world.archive.sample_to_replay(
            count, state.step, config.replay_staleness, rng, "" if own_problems else student.id
        )
        for problem in problems:
            match = PairingState(-1, Pairing(REPLAYED, student, 0.5))
            yield ProposalResult(match, -1, Proposal(problem.kind, ""), verdict=problem)


def _request_attempts(
    state: StepState, ports: Ports
) -> Iterator[tuple[ProposalResult, Member, TextRequest]]:
    """Several attempts at every problem, split between the students that meet it. A problem that a
    person posed is attempted as often by each of them."""
    world, config = state.world, state.world.config.solve
    for result, problem in state.attempted:
        students = state.students_of(result)
        attempts = config.attempts * (1 if result.person is None else len(students))
        prompt = ports.prompt_format.render(ports.kinds[problem.kind].ask_answer(problem))
        for number in range(attempts):
            student = students[number * len(students) // attempts]
            yield (
                result,
                student,
                TextRequest(
                    world.slot(student),
                    prompt,
                    config.max_tokens,
                    seed_for(world.seed, state.step, "solve", student.id, problem.key, number),
                    student.temperature,
                    problem,
                ),
            )


def _same_answer(completion: TextCompletion) -> Hashable:
    return id(completion.request.item), completion.text


def _probe(results: list[ProposalResult], ports: Ports) -> None:
    """How each new problem behaves."""
    problems = [result.verdict for result in results if isinstance(result.verdict, Problem)]
    jobs = [ports.kinds[problem.kind].probe(problem) for problem in problems]
    outcomes = iter(ports.sandbox.run([job for job in jobs if job is not None]))
    for result, problem, job in zip(results, problems, jobs, strict=True):
        outcome = None if job is None else next(outcomes)
        result.behaviour = ports.kinds[problem.kind].behaviour(problem, outcome)
