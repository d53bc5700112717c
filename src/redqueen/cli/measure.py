"""Students measured while a run is played, and with the base at its end.

A side exit: it goes into the ledger and onto the screen, and no reward can read it.
"""

from contextlib import closing
from typing import TYPE_CHECKING

from redqueen.cli.console import note
from redqueen.cli.final import shown_as
from redqueen.config.schema import Config
from redqueen.core.run import Run
from redqueen.engine.text_sampler import EngineTextSampler
from redqueen.ledger.store import reader

if TYPE_CHECKING:
    from redqueen.evaluate.members import Verdicts


def check_suite(config: Config) -> None:
    """A wrong name of a suite, or data that is not there, is said before a run, not at its end."""
    from redqueen.evaluate.members import exam_of
    from redqueen.tasks.prompts import load_prompt_format

    if config.evaluate.suite:
        exam_of(config.evaluate, load_prompt_format("chat"))


def measure_if_due(run: Run) -> None:
    """The students on the suite, where it is time for it. It may have been time when the run was
    killed: a resume makes up for it."""
    every, step = run.config.evaluate.every, run.step
    if (
        not every
        or not run.config.evaluate.suite
        or step % every
        or not 0 < step < run.config.steps
        or _is_measured(run)
    ):
        return
    for number, verdicts in measure(run, with_base=False).items():
        scores = ", ".join(
            f"{name} {100 * sum(right) / len(right):.1f} %" for name, right in verdicts.items()
        )
        note(
            f"  {shown_as(run.config.evaluate.suite)}{f', world {number}' if len(run.worlds) > 1 else ''}: {scores}"
        )


def _is_measured(run: Run) -> bool:
    with closing(reader(run.ledger.folder)) as connection:
        query = "SELECT 1 FROM evals WHERE step = ? AND suite = ?"
        return (
            connection.execute(query, (run.step, run.config.evaluate.suite)).fetchone() is not None
        )


def measure(run: Run, with_base: bool) -> "dict[int, Verdicts]":
    """Students, and the base, by world."""
    from redqueen.benchmarks.maths.judge import MathsJudge
    from redqueen.benchmarks.suite import Judges
    from redqueen.evaluate.members import Asked, answer, eval_rows, exam_of
    from redqueen.evaluate.targets import style_of

    sampler = run.ports.sampler
    assert isinstance(sampler, EngineTextSampler)
    exam, style = exam_of(run.config.evaluate, run.ports.prompt_format), style_of(run.engine.base)
    asked: list[Asked] = [
        (world.number, one.id, world.slot(one))
        for world in run.worlds
        for one in world.members
        if one.role != "teacher"
    ]
    if with_base:
        note(
            f"measuring the base and {len(asked)} students on {exam.suite.name}, {len(exam.items)} problems each"
        )
    found: dict[int, Verdicts] = {world.number: {} for world in run.worlds}
    groups = (
        [asked]
        if run.mixes_worlds
        else [[one for one in asked if one[0] == world.number] for world in run.worlds]
    )
    with MathsJudge() as maths:
        judges = Judges(run.ports.sandbox, maths)
        if with_base:
            bare = EngineTextSampler(run.engine.bare(), sampler.tokenizer, sampler.context)
            (right,) = answer(bare, exam, style, [0], judges)
            for verdicts in found.values():
                verdicts["base"] = right
        for group in groups:
            answers = answer(sampler, exam, style, [slot for _, _, slot in group], judges)
            for (world, member, _), right in zip(group, answers, strict=True):
                found[world][member] = right
    run.ledger.add(
        "evals",
        [
            row
            for world, verdicts in found.items()
            for row in eval_rows(world, run.step, exam, verdicts)
        ],
    )
    return found
