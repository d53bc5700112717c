"""The figures of a world's step, named stage/what."""

import statistics
from collections.abc import Iterable

from redqueen.core.state import ProposalResult, StepState, rejections
from redqueen.records import Problem
from redqueen.tasks.code.coverage import cell
from redqueen.tasks.prompts import has_reasoning


def measure(turn: StepState) -> None:
    """Fill in the step's metrics. A mean of nothing is left out."""
    world, posed, problems = turn.world, turn.posed, turn.problems
    world.cells |= {cell(one.verdict) for one in problems if isinstance(one.verdict, Problem)}
    figures = turn.metrics
    figures["propose/count"] = len(posed)
    figures["propose/tokens"] = sum(
        len(one.proposal.rollout.tokens) for one in posed if one.proposal.rollout
    )
    figures["verify/valid_frac"] = len(problems) / len(posed) if posed else 0.0
    for reason, count in rejections(posed).items():
        figures[f"verify/rejected/{reason}"] = count
    attempts = [attempt for one in problems for attempt in one.attempts]
    figures["solve/count"] = len(attempts)
    figures["solve/tokens"] = sum(
        len(attempt.rollout.tokens) for attempt in attempts if attempt.rollout
    )
    _mean(figures, "solve/pass_rate", (attempt.verdict == "correct" for attempt in attempts))
    _mean(figures, "solve/malformed_frac", (attempt.verdict == "malformed" for attempt in attempts))
    for kind in sorted({one.proposal.kind for one in posed}):
        mine = [one for one in posed if one.proposal.kind == kind]
        _mean(
            figures, f"verify/valid_frac/{kind}", (isinstance(one.verdict, Problem) for one in mine)
        )
        _mean(
            figures,
            f"solve/reasoning_frac/{kind}",
            (has_reasoning(attempt.text) for one in mine for attempt in one.attempts),
        )
        _mean(
            figures,
            f"solve/pass_rate/{kind}",
            (one.solve_rate for one in mine if one.solve_rate is not None),
        )
    _mean(figures, "solve/zero_pass_frac", (one.solve_rate == 0 for one in problems))
    _mean(figures, "solve/all_pass_frac", (one.solve_rate == 1 for one in problems))
    _mean(
        figures,
        "propose/nll",
        (-one.proposal.rollout.logprob for one in posed if one.proposal.rollout),
    )
    _mean(
        figures,
        "solve/nll",
        (-attempt.rollout.logprob for attempt in attempts if attempt.rollout),
    )
    _mean(
        figures,
        "propose/length",
        (len(one.proposal.rollout.tokens) for one in posed if one.proposal.rollout),
    )
    _mean(
        figures,
        "solve/length",
        (len(attempt.rollout.tokens) for attempt in attempts if attempt.rollout),
    )
    _mean(figures, "reward/teacher", (one.reward for one in posed))
    _mean(figures, "reward/student", (earned for one in posed for earned in one.attempt_rewards))
    _mean(
        figures,
        "update/advantage",
        (abs(value) for one in posed for value in [one.advantage, *one.attempt_advantages]),
    )
    _complexity(figures, problems)
    figures["coverage/cells"] = len(world.cells)
    figures["coverage/behaviours"] = len(world.behaviours)
    figures["archive/size"] = len(world.archive)


def _complexity(figures: dict[str, float], problems: list[ProposalResult]) -> None:
    """Of the problems that teachers had to write a program for: induction only takes one from the
    archive."""
    invented = [
        one.verdict
        for one in problems
        if isinstance(one.verdict, Problem) and one.proposal.kind != "code_f"
    ]
    for name in ("ast_depth", "cyclomatic", "loc", "variables"):
        _mean(
            figures,
            f"complexity/{name}",
            (getattr(problem.complexity, name) for problem in invented),
        )
    _mean(figures, "complexity/steps_executed", (problem.steps for problem in invented))


def _mean(figures: dict[str, float], name: str, values: Iterable[float]) -> None:
    if found := list(values):
        figures[name] = statistics.fmean(found)
