"""The record stage: what the world keeps of a step, and the step's metrics, named stage/what."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from redqueen.core.archive import POLICIES
from redqueen.core.pipeline import Ports
from redqueen.core.state import StepState
from redqueen.records import GameTurn, Problem, Rejection, Rollout
from redqueen.tasks import TaskKind
from redqueen.tasks.prompts import has_reasoning
from redqueen.tasks.surface import measure_drift


def record(states: Sequence[StepState], ports: Ports) -> None:
    for state in states:
        _remember(state, ports.kinds)
        _tell_people(state)
        _measure(state, ports.kinds)


def _remember(state: StepState, kinds: dict[str, TaskKind]) -> None:
    world = state.world
    policy = world.config.archive.policy
    admits = POLICIES[policy.type]
    for result, problem in [*state.solvable, *state.posed_problems]:
        result.new = problem.key not in world.known
        world.known.add(problem.key)
        world.behaviours.add(result.behaviour)
        world.cells.add(kinds[problem.kind].cell(problem))
        solve_rate = result.solve_rate or 0.0
        if admits(problem, solve_rate, policy.options):
            world.archive.add(problem)
        world.archive.solved(problem.key, solve_rate, state.step)
    for result, problem in state.replayed:
        world.archive.solved(problem.key, result.solve_rate or 0.0, state.step)
    world.pass_on_role_ratings(state.births)
    world.steps_without_problem = 0 if state.solvable else world.steps_without_problem + 1
    world.steps_without_update = 0 if state.updates else world.steps_without_update + 1


def _tell_people(state: StepState) -> None:
    """What came of the problems that they posed."""
    for result in state.posed:
        assert result.person is not None
        if isinstance(result.verdict, Rejection):
            verdict = result.verdict
            result.person.outcome = "rejected"
            result.person.detail = f"{verdict.reason}: {verdict.detail}".removesuffix(": ")
        else:
            correct = sum(attempt.verdict == "correct" for attempt in result.attempts)
            result.person.outcome, result.person.problem = "accepted", result.verdict.key
            result.person.detail = f"{correct} of {len(result.attempts)} attempts are correct"


def _measure(state: StepState, kinds: dict[str, TaskKind]) -> None:
    """A mean of nothing is left out."""
    world, results, solvable, metrics = state.world, state.results, state.solvable, state.metrics
    attempts = state.attempts
    proposed = _rollouts(result.proposal.rollout for result in results)
    solved = _rollouts(attempt.rollout for attempt in attempts)
    metrics["propose/count"] = len(results)
    metrics["propose/tokens"] = sum(len(rollout.tokens) for rollout in proposed)
    metrics["verify/valid_frac"] = len(solvable) / len(results) if results else 0.0
    rejections = count_rejections(state)
    metrics["verify/voided_frac"] = rejections["voided"] / len(results) if results else 0.0
    for reason, count in rejections.items():
        metrics[f"verify/rejected/{reason}"] = count
    metrics["solve/count"] = len(attempts)
    metrics["solve/tokens"] = sum(len(rollout.tokens) for rollout in solved)
    verdicts = [attempt.verdict for attempt in attempts if attempt.verdict != "voided"]
    _mean(metrics, "solve/pass_rate", (verdict == "correct" for verdict in verdicts))
    _mean(metrics, "solve/malformed_frac", (verdict == "malformed" for verdict in verdicts))
    _measure_kinds(state)
    _mean(metrics, "solve/zero_pass_frac", (result.solve_rate == 0 for result, _ in solvable))
    _mean(metrics, "solve/all_pass_frac", (result.solve_rate == 1 for result, _ in solvable))
    for stage, rollouts in (("propose", proposed), ("solve", solved)):
        _mean(metrics, f"{stage}/nll", (-rollout.logprob for rollout in rollouts))
        _mean(metrics, f"{stage}/length", (len(rollout.tokens) for rollout in rollouts))
        cut_off = (rollout.finish_reason == "length" for rollout in rollouts)
        _mean(metrics, f"{stage}/cut_off_frac", cut_off)
    _mean(metrics, "reward/teacher", (result.reward for result in results))
    _mean(metrics, "reward/student", (r for result, _ in solvable for r in result.attempt_rewards))
    advantages = (
        abs(value) for result in results for value in [result.advantage, *result.attempt_advantages]
    )
    _mean(metrics, "update/advantage", advantages)
    own = [problem for _, problem in solvable if not kinds[problem.kind].derived]
    for name in dict.fromkeys(name for problem in own for name in problem.features):
        values = (problem.features[name] for problem in own if name in problem.features)
        _mean(metrics, f"complexity/{name}", values)
    _measure_race(state)
    _measure_people(state)
    _measure_drift(state, kinds)
    _measure_games(state)
    metrics["coverage/cells"] = len(world.cells)
    metrics["coverage/behaviours"] = len(world.behaviours)
    metrics["archive/size"] = len(world.archive)


def _measure_race(state: StepState) -> None:
    """Whether there is something to learn from, and what replay adds."""
    metrics = state.metrics
    rates = [result.solve_rate for result, _ in state.solvable if result.solve_rate is not None]
    _mean(metrics, "solve/learnable_frac", (0 < rate < 1 for rate in rates))
    if state.replays:
        attempts = [attempt for result in state.replays for attempt in result.attempts]
        rollouts = _rollouts(attempt.rollout for attempt in attempts)
        metrics["replay/count"] = len(state.replays)
        metrics["replay/tokens"] = sum(len(rollout.tokens) for rollout in rollouts)
        _mean(metrics, "replay/pass_rate", (attempt.verdict == "correct" for attempt in attempts))


def _measure_people(state: StepState) -> None:
    if state.posed:
        attempts = [attempt for result in state.posed for attempt in result.attempts]
        rollouts = _rollouts(attempt.rollout for attempt in attempts)
        state.metrics["people/posed"] = len(state.posed)
        state.metrics["people/tokens"] = sum(len(rollout.tokens) for rollout in rollouts)
        verdicts = [attempt.verdict for attempt in attempts if attempt.verdict != "voided"]
        _mean(state.metrics, "people/pass_rate", (one == "correct" for one in verdicts))


def _measure_drift(state: StepState, kinds: dict[str, TaskKind]) -> None:
    """What new problems look like, and in which letters members write."""
    world = state.world
    state.metrics |= measure_drift(
        [(problem.kind, kinds[problem.kind].surface(problem)) for problem in state.problems],
        {
            "teacher": [result.proposal.text for result in state.results],
            "student": [attempt.text for attempt in state.attempts],
        },
    )
    for name, most in world.config.stop.drift.items():
        values = [
            value
            for metric, value in state.metrics.items()
            if f"{metric}/".startswith(f"drift/{name}/")
        ]
        if values:  # a step without such problems says nothing
            above = max(values) > most
            world.steps_adrift[name] = world.steps_adrift.get(name, 0) + 1 if above else 0


def _measure_games(state: StepState) -> None:
    """Of every game that was played, and every role in it."""
    metrics = state.metrics
    if not state.plays:
        return
    rollouts = _rollouts(turn.rollout for play in state.plays for turn in play.turns)
    metrics["games/tokens"] = sum(len(rollout.tokens) for rollout in rollouts)
    for game in sorted({play.game for play in state.plays}):
        plays = [play for play in state.plays if play.game == game]
        metrics[f"games/{game}/count"] = len(plays)
        roles: dict[str, list[tuple[GameTurn, float]]] = defaultdict(list)
        for play in plays:
            for turn, earned in zip(play.turns, play.rewards, strict=True):
                roles[turn.role].append((turn, earned))
        for role, turns in roles.items():
            path = f"games/{game}/{role}"
            _mean(metrics, f"{path}/accuracy", (turn.verdict == "correct" for turn, _ in turns))
            malformed = (turn.verdict == "malformed" for turn, _ in turns)
            _mean(metrics, f"{path}/malformed_frac", malformed)
            _mean(metrics, f"{path}/reward", (earned for _, earned in turns))


def _measure_kinds(state: StepState) -> None:
    metrics = state.metrics
    for kind in sorted({result.proposal.kind for result in state.results}):
        results = [result for result in state.results if result.proposal.kind == kind]
        valid = (isinstance(result.verdict, Problem) for result in results)
        _mean(metrics, f"verify/valid_frac/{kind}", valid)
        texts = (attempt.text for result in results for attempt in result.attempts)
        _mean(metrics, f"solve/reasoning_frac/{kind}", map(has_reasoning, texts))
        rates = (result.solve_rate for result in results if result.solve_rate is not None)
        _mean(metrics, f"solve/pass_rate/{kind}", rates)


def count_rejections(state: StepState) -> Counter[str]:
    verdicts = (result.verdict for result in state.results)
    return Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Rejection))


def _rollouts(rollouts: Iterable[Rollout | None]) -> list[Rollout]:
    return [rollout for rollout in rollouts if rollout is not None]


def _mean(metrics: dict[str, float], name: str, values: Iterable[float]) -> None:
    if numbers := list(values):
        metrics[name] = statistics.fmean(numbers)
