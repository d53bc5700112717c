"""The record stage: what the world keeps of a step, and the step's metrics, named stage/what."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from redqueen.core.archive import POLICIES
from redqueen.core.pipeline import Ports
from redqueen.core.state import StepState
from redqueen.records import Problem, Rejection, Rollout
from redqueen.tasks import TaskKind
from redqueen.tasks.prompts import has_reasoning


def record(states: Sequence[StepState], ports: Ports) -> None:
    for state in states:
        _remember(state, ports.kinds)
        _measure(state, ports.kinds)


def _remember(state: StepState, kinds: dict[str, TaskKind]) -> None:
    world = state.world
    policy = world.config.archive.policy
    admits = POLICIES[policy.type]
    for result, problem in state.solvable:
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
    world.steps_without_problem = 0 if state.solvable else world.steps_without_problem + 1
    world.steps_without_update = 0 if state.updates else world.steps_without_update + 1


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
