"""The solve stage: students attempt the problems, and their answers are graded while others are
still being sampled."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from redqueen.config.stages import VerifyConfig
from redqueen.core.pipeline import Check, Ports, check_once
from redqueen.core.state import ProposalResult, StepState
from redqueen.engine.text_sampler import TextCompletion, TextRequest
from redqueen.records import Attempt, Problem
from redqueen.rng import seed_for
from redqueen.sandbox import Sandbox
from redqueen.tasks import Malformed, RunRules, TaskKind
from redqueen.tasks.prompts import PromptFormat


@dataclass(slots=True, eq=False)
class _Try:
    """One attempt that is being sampled."""

    result: ProposalResult
    problem: Problem
    attempt: Attempt | None = None


def solve(states: Sequence[StepState], ports: Ports) -> None:
    """Sample and grade all attempts. Meanwhile the sandbox also probes how new problems behave."""
    config = states[0].world.config
    probing: Check[ProposalResult] = Check(ports.background, lambda results: _probe(results, ports))
    probing.add([result for state in states for result, _ in state.solvable])
    known: dict[Hashable, Attempt] = {}

    def grade(completions: list[TextCompletion]) -> None:
        attempts = check_once(completions, _same_answer, judge, known)
        for completion, attempt in zip(completions, attempts, strict=True):
            item: _Try = completion.request.item
            item.attempt = replace(attempt, author=item.result.student, rollout=completion.rollout)

    def judge(completions: list[TextCompletion]) -> list[Attempt]:
        answers = [(completion.request.item.problem, completion.text) for completion in completions]
        return grade_answers(
            answers, ports.kinds, ports.prompt_format, ports.sandbox, config.verify
        )

    requests = [request for state in states for request in _request_attempts(state, ports)]
    grading = Check(ports.background, grade)
    ports.sample("solve", requests, config.solve.temperature, grading.add)
    grading.finish()
    probing.finish()
    ports.add_time("solve", 0.0, waited=grading.blocked_s + probing.blocked_s)
    for request in requests:
        item: _Try = request.item
        assert item.attempt is not None
        item.result.attempts.append(item.attempt)


def grade_answers(
    answers: Sequence[tuple[Problem, str]],
    kinds: Mapping[str, TaskKind],
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    config: VerifyConfig,
) -> list[Attempt]:
    """One attempt for each (problem, text as the model wrote it), in order. All that must be
    executed goes to the sandbox at once."""
    rules = RunRules.of(config)
    read = [_read(text, kinds[problem.kind], prompt_format) for problem, text in answers]
    jobs = [
        None
        if isinstance(answer, Malformed)
        else kinds[problem.kind].grading(problem, answer, rules)
        for (problem, _), answer in zip(answers, read, strict=True)
    ]
    outcomes = iter(sandbox.run([job for job in jobs if job is not None]))
    attempts = []
    for (problem, text), answer, job in zip(answers, read, jobs, strict=True):
        if isinstance(answer, Malformed):
            attempts.append(Attempt(problem, text, "malformed", str(answer)))
            continue
        outcome = None if job is None else next(outcomes)
        correct = kinds[problem.kind].is_correct(problem, answer, outcome)
        failed = outcome is not None and outcome.kind != "value"
        detail = f"{outcome.kind} {outcome.detail}".strip() if outcome and failed else ""
        attempts.append(Attempt(problem, text, "correct" if correct else "wrong", detail))
    return attempts


def _request_attempts(state: StepState, ports: Ports) -> list[TextRequest]:
    """Several attempts of the matched student at every problem."""
    world, config = state.world, state.world.config.solve
    requests = []
    for result, problem in state.solvable:
        student = result.match.pairing.student
        prompt = ports.prompt_format.render(ports.kinds[problem.kind].ask_answer(problem))
        for number in range(config.attempts):
            requests.append(
                TextRequest(
                    world.slot(student),
                    prompt,
                    config.max_tokens,
                    seed_for(world.seed, state.step, "solve", student.id, problem.key, number),
                    student.temperature,
                    _Try(result, problem),
                )
            )
    return requests


def _same_answer(completion: TextCompletion) -> Hashable:
    return completion.request.item.result, completion.text


def _probe(results: list[ProposalResult], ports: Ports) -> None:
    """How each new problem behaves."""
    problems = [result.verdict for result in results if isinstance(result.verdict, Problem)]
    jobs = [ports.kinds[problem.kind].probe(problem) for problem in problems]
    outcomes = iter(ports.sandbox.run([job for job in jobs if job is not None]))
    for result, problem, job in zip(results, problems, jobs, strict=True):
        outcome = None if job is None else next(outcomes)
        result.behaviour = ports.kinds[problem.kind].behaviour(problem, outcome)


def _read(text: str, kind: TaskKind, prompt_format: PromptFormat) -> str | Malformed:
    try:
        return kind.read_answer(prompt_format.parse(text, kind.answer_blocks))
    except Malformed as error:
        return error
