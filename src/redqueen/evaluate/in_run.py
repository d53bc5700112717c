"""Measures the students of a live run on its suite, with the base and their vote at the end.

A side exit: results go to the ledger and to the caller, and no reward can read them.
"""

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from redqueen.config.schema import MEMBER_GROUPS, EvaluateConfig
from redqueen.core.run import Run
from redqueen.errors import plural
from redqueen.evaluate.replies import FORCED, VOTE
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.runner import EvalTask, evaluate, load_task
from redqueen.evaluate.targets import target_of_run
from redqueen.ledger.store import open_to_read

log = logging.getLogger(__name__)


def load_run_task(config: EvaluateConfig, suite: str = "") -> EvalTask:
    """What a run is measured on; on demand another of its suites. Raises where there is no such
    suite, or no data for it."""
    data = Path(config.data).expanduser() if config.data else None
    return load_task(suite or config.suite, data, config.limit or None)


def suites_of(config: EvaluateConfig) -> tuple[str, ...]:
    """All that a run is measured on, the one that is shown at its end first."""
    return (config.suite, *config.others) if config.suite else config.others


def measure(run: Run, *, with_base: bool, suite: str = "") -> EvalResult:
    """The members that the settings name on the run's suite, or on another of its suites, greedy;
    the replies go to the ledger."""
    config = run.config.evaluate
    suite = suite or config.suite
    members = _living(run, config.members if with_base else config.between or config.members)
    target = target_of_run(run, members, with_base=with_base)
    task = load_run_task(config, suite)
    if with_base:
        log.info(
            "measuring the base and %s on %s, %d problems each",
            plural(sum(not model.is_reference for model in target.models), "other"),
            task.suite.name,
            len(task.items),
        )
    result = evaluate(target, task)
    run.ledger.add("evals", result.to_rows(suite))
    return result


def _living(run: Run, names: Sequence[str]) -> list[str]:
    """Without members that evolution has replaced: they are named, and the run goes on. Where none
    is left, the students and the soup."""
    ids = {member.id for world in run.worlds for member in world.members}
    left = [name for name in names if name in MEMBER_GROUPS or name.rpartition("/")[2] in ids]
    if len(left) < len(names):
        log.warning(
            "not measured, because replaced: %s", ", ".join(n for n in names if n not in left)
        )
    return left


def measure_vote(run: Run) -> EvalResult | None:
    """The vote of each world's students, and of the base with as many votes; None where answers
    cannot be compared, or there is one vote."""
    config = run.config.evaluate
    task = load_run_task(config.model_copy(update={"limit": config.vote_limit or config.limit}))
    count = config.votes or max(len(world.students) for world in run.worlds)
    if count < 2:
        return None
    target = target_of_run(run, [VOTE]).without(FORCED)
    log.info("asking for %d votes of the students and of the base", count)
    result = evaluate(target, task, samples=count)
    run.ledger.add("evals", result.to_rows(f"{config.suite}, {count} votes"))
    return result


def measure_if_due(run: Run) -> list[EvalResult]:
    """Measure every `evaluate.every` steps. A run that was killed before it did makes up for it."""
    config, step = run.config.evaluate, run.step
    if not config.every or step % config.every or not 0 < step < run.config.steps:
        return []
    pending = [suite for suite in suites_of(config) if not is_measured(run, suite)]
    return [measure(run, with_base=False, suite=suite) for suite in pending]


def is_measured(run: Run, suite: str, subject: str = "") -> bool:
    """After its last step: anybody, or this one."""
    query = "SELECT 1 FROM evals WHERE step = ? AND suite = ? AND ? IN ('', subject)"
    with closing(open_to_read(run.ledger.folder)) as connection:
        row = connection.execute(query, (run.step, suite, subject)).fetchone()
    return row is not None
