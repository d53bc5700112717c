"""The common exam: all students of a world answer the same archived problems, so that they can be
compared. Nobody is trained on it, and held-out problems have no part in it."""

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from random import Random

from redqueen.config.schema import Config
from redqueen.core.archive import Archive
from redqueen.core.pipeline import Ports
from redqueen.core.state import StepState
from redqueen.core.world import Exam
from redqueen.engine.text_sampler import TextRequest
from redqueen.records import Attempt, Member, Problem
from redqueen.rng import seed_for, stream
from redqueen.stages.evolve.rasch import fit_rasch

log = logging.getLogger(__name__)

Answer = Callable[[Config, Sequence[TextRequest], Ports, str], list[Attempt]]
"""Samples and grades answers in a stage; the item of each request is its problem."""

_LEAST_PROBLEMS = 8
"""With fewer, chance decides."""
_MOST_ATTEMPTS = 8


def hold_exams(states: Sequence[StepState], ports: Ports, answer: Answer) -> None:
    """One call of the engine for all worlds."""
    asked: list[tuple[StepState, Member, TextRequest]] = []
    drawn: dict[int, list[Problem]] = {}
    for state in states:
        problems = _draw(state, ports)
        if problems:
            drawn[state.world.number] = problems
            asked += _request(state, problems, ports)
    if not asked:
        return
    requests = [request for _, _, request in asked]
    attempts = answer(states[0].world.config, requests, ports, "evolve")
    answers: dict[int, list[tuple[str, Attempt]]] = defaultdict(list)
    for (state, student, _), attempt in zip(asked, attempts, strict=True):
        answers[state.world.number].append((student.id, attempt))
    for state in states:
        if state.world.number in drawn:
            _conclude(state, drawn[state.world.number], answers[state.world.number])


def draw_problems(
    archive: Archive, count: int, rng: Random, kinds: Container[str] | None = None
) -> list[Problem]:
    """Of these kinds, where some are given, from every teacher and every third of the difficulties
    in turn. Within these, problems that were solved sometimes come first: the others tell nobody
    apart."""
    strata: dict[tuple[str, int], list[Problem]] = defaultdict(list)
    order = [problem for problem in archive if kinds is None or problem.kind in kinds]
    for problem in rng.sample(order, len(order)):
        author = "" if problem.author is None else problem.author.member
        last = archive.last_solved.get(problem.key)
        third = 3 if last is None else min(2, int(3 * last.solve_rate))
        strata[author, third].append(problem)
    for problems in strata.values():
        problems.sort(key=lambda problem: not _was_solved_sometimes(archive, problem))
    chosen: list[Problem] = []
    left = [strata[name] for name in sorted(strata)]
    while len(chosen) < count and left:
        left = [problems for problems in left if problems]
        rng.shuffle(left)
        chosen += [problems.pop(0) for problems in left[: count - len(chosen)]]
    return chosen


def _draw(state: StepState, ports: Ports) -> list[Problem]:
    world, config = state.world, state.world.config.evolve.exam
    rng = stream(world.seed, state.step, "exam")
    problems = draw_problems(world.archive, config.problems, rng, ports.kinds)
    if len(problems) < min(_LEAST_PROBLEMS, config.problems):
        log.info(
            "no exam in step %d: the archive has %d problems, and it takes %d",
            state.step,
            len(problems),
            _LEAST_PROBLEMS,
        )
        return []
    return problems


def _attempts(state: StepState, problems: int) -> int:
    """With fewer problems than asked for, more attempts at each."""
    config = state.world.config.evolve.exam
    wanted = round(config.problems * config.attempts / problems)
    return max(config.attempts, min(_MOST_ATTEMPTS, wanted))


def _request(
    state: StepState, problems: Sequence[Problem], ports: Ports
) -> list[tuple[StepState, Member, TextRequest]]:
    world, solve = state.world, state.world.config.solve
    requests = []
    for problem in problems:
        prompt = ports.prompt_format.render(ports.kinds[problem.kind].ask_answer(problem))
        for student in world.students:
            for number in range(_attempts(state, len(problems))):
                seed = seed_for(world.seed, state.step, "exam", student.id, problem.key, number)
                request = TextRequest(
                    world.slot(student),
                    prompt,
                    solve.max_tokens,
                    seed,
                    student.temperature,
                    problem,
                )
                requests.append((state, student, request))
    return requests


def _conclude(
    state: StepState, problems: Sequence[Problem], answers: Sequence[tuple[str, Attempt]]
) -> None:
    """A problem that an answer shows to be none counts for nobody, and leaves the archive."""
    config = state.world.config.evolve.exam
    voided = {attempt.problem.key for _, attempt in answers if attempt.verdict == "voided"}
    for key in voided:
        state.world.archive.remove(key)
    problems = [problem for problem in problems if problem.key not in voided]
    answers = [pair for pair in answers if pair[1].problem.key not in voided]
    if not problems:
        return
    places = {problem.key: place for place, problem in enumerate(problems)}
    correct = {student.id: [0] * len(problems) for student in state.world.students}
    for student, attempt in answers:
        correct[student][places[attempt.problem.key]] += attempt.verdict == "correct"
    attempts = len(answers) // (len(problems) * len(correct))
    answered = attempts * len(problems)
    skills = [sum(solved) / answered for solved in correct.values()]
    state.metrics["exam/problems"] = len(problems)
    state.metrics["exam/pass_rate"] = sum(skills) / len(skills)
    state.metrics["exam/best"], state.metrics["exam/worst"] = max(skills), min(skills)
    if config.fit == "rasch":
        skills, _ = fit_rasch(list(correct.values()), attempts)
    rollouts = [attempt.rollout for _, attempt in answers if attempt.rollout is not None]
    state.exam = Exam(
        tuple(problems),
        attempts,
        {student: tuple(solved) for student, solved in correct.items()},
        dict(zip(correct, skills, strict=True)),
        sum(len(rollout.tokens) for rollout in rollouts),
    )
    state.metrics["exam/tokens"] = state.exam.tokens


def _was_solved_sometimes(archive: Archive, problem: Problem) -> bool:
    last = archive.last_solved.get(problem.key)
    return last is not None and 0 < last.solve_rate < 1
