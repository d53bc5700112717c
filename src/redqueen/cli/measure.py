"""Shows what a run measures of itself: the students between steps, and with the base at its end."""

from redqueen.cli.console import note
from redqueen.cli.final import suite_label
from redqueen.config.schema import Config
from redqueen.core.run import Run
from redqueen.evaluate import in_run
from redqueen.evaluate.in_run import load_run_task, suites_of
from redqueen.evaluate.replies import BASE
from redqueen.evaluate.result import EvalResult


def check_suite(config: Config) -> None:
    """Reports an unknown suite, or missing data, before a run and not at its end."""
    for suite in suites_of(config.evaluate):
        load_run_task(config.evaluate, suite)


def measure_if_due(run: Run) -> None:
    for result in in_run.measure_if_due(run):
        _show(run, result)


def _show(run: Run, result: EvalResult) -> None:
    for world in run.worlds:
        scores = ", ".join(
            f"{member} {100 * sum(scores) / len(scores):.1f} %"
            for member, scores in result.world_scores(world.number).items()
        )
        where = f", world {world.number}" if len(run.worlds) > 1 else ""
        suite = result.config.suite
        label = suite if run.config.evaluate.others else suite_label(suite)
        note(f"  {label}{where}: {scores}")


def measure(run: Run) -> tuple[EvalResult, EvalResult | None] | None:
    """The students, their soup and the base, and the vote; None where the run has no suite. The
    other suites go to the ledger, unless they are there already."""
    for suite in run.config.evaluate.others:
        if not in_run.is_measured(run, suite, BASE):
            in_run.measure(run, with_base=True, suite=suite)
    if not run.config.evaluate.suite:
        return None
    return in_run.measure(run, with_base=True), in_run.measure_vote(run)
