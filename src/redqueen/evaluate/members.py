"""Members of a run on a suite while it is played: greedy, all in one engine call, right or wrong
item by item; and rows of the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.benchmarks.data import read_rows
from redqueen.benchmarks.suite import Item, Judges, Style, Suite
from redqueen.benchmarks.suites import BENCHMARKS
from redqueen.engine.text_sampler import EngineTextSampler, TextRequest
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.heldout import NAMES, HeldOut
from redqueen.tasks.prompts import PromptFormat

if TYPE_CHECKING:
    from redqueen.config.schema import EvaluateConfig

Verdicts = dict[str, list[bool]]
"""By member, or `base`: right or wrong, item by item."""


Asked = tuple[int, str, int]
"""A world, a member of it, and its slot."""


@dataclass(frozen=True, slots=True)
class Exam:
    """A suite, and those of its items that are asked."""

    suite: Suite
    items: list[Item]

    @property
    def has_tiers(self) -> bool:
        """Whether its figures are told by kind and tier."""
        return self.suite.name in NAMES


def exam_of(config: "EvaluateConfig", prompt_format: PromptFormat) -> Exam:
    """What a run is measured with. Raises where there is no such suite, or no data for it."""
    if config.suite in NAMES:
        held_out = HeldOut(config.suite, prompt_format)
        return Exam(held_out, held_out.items(config.limit or None))
    if config.suite not in BENCHMARKS:
        raise ConfigError(
            "evaluate.suite: " + unknown("suite", config.suite, [*NAMES, *BENCHMARKS])
        )
    return benchmark_exam(
        config.suite, Path(config.data).expanduser() if config.data else None, config.limit or None
    )


def benchmark_exam(name: str, data: Path | None, limit: int | None) -> Exam:
    suite = BENCHMARKS[name]
    return Exam(suite, suite.items(read_rows(name, suite.source, data))[:limit])


def answer(
    sampler: EngineTextSampler, exam: Exam, style: Style, slots: Sequence[int], judges: Judges
) -> list[list[bool]]:
    """Greedy answers of the members in these slots: right or wrong, slot by slot, item by item."""
    suite, items = exam.suite, exam.items
    prompts = [suite.prompt(item, style) for item in items]
    asks = [
        TextRequest(slot, prompt, item.max_tokens or suite.max_tokens, 0)
        for slot in slots
        for prompt, item in zip(prompts, items, strict=True)
    ]
    replies = [written.text for written in sampler.sample(asks, 0.0)]
    right = [verdict.right for verdict in suite.grade(items * len(slots), replies, style, judges)]
    return [right[number * len(items) : (number + 1) * len(items)] for number in range(len(slots))]


def mean_over(verdicts: Sequence[Sequence[bool]]) -> list[float]:
    """The share of members that have each item right."""
    return [sum(column) / len(column) for column in zip(*verdicts, strict=True)]


def eval_rows(world: int, step: int, exam: Exam, verdicts: Verdicts) -> list[dict[str, Any]]:
    """The verdicts as rows of the ledger."""
    name, version = exam.suite.name, exam.suite.prompt_version
    return [
        eval_row(world, step, name, version, subject, item, 0, right)
        for subject, answers in verdicts.items()
        for item, right in zip(exam.items, answers, strict=True)
    ]


def eval_row(
    world: int,
    step: int,
    suite: str,
    version: str,
    subject: str,
    item: Item,
    sample: int,
    right: bool,
) -> dict[str, Any]:
    """One answer. An item that is of no kind has the version of its prompt there."""
    return {
        "world": world,
        "step": step,
        "suite": suite,
        "subject": subject,
        "item": item.id,
        "kind": item.kind or version,
        "tier": item.tier,
        "sample": sample,
        "correct": int(right),
    }
