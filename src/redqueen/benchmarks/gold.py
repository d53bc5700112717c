"""Tests of the graders: they must accept the benchmarks' own answers, and reject all that are
known to be wrong, or forged."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.benchmarks.benchmark import Benchmark, WrongReply
from redqueen.benchmarks.programs import read_program
from redqueen.benchmarks.suite import BASE, CHAT, Graders, Item

BATCH = 200  # slow items of a batch run side by side
SMALL_BATCH = 50  # where an item has many replies


@dataclass(frozen=True, slots=True)
class GoldResult:
    """Replies graded for one benchmark, all of them correct (gold) or all wrong."""

    n: int
    correct: int
    failed: tuple[str, ...]
    """Gold: ids of items whose reference answer was rejected. Wrong: `id: reply` of what was
    accepted."""
    reasons: dict[str, str]
    """Of reference answers that were rejected, by id."""
    skipped: str = ""
    """Why nothing was graded."""
    slowest_s: float = 0.0
    """Of the slowest wrong reply."""

    @property
    def score(self) -> float | None:
        return self.correct / self.n if self.n else None

    def to_json(self) -> dict[str, Any]:
        score = None if self.score is None else round(self.score, 6)
        row: dict[str, Any] = {"score": score, "n": self.n, "failed": list(self.failed)}
        return (
            row
            | ({"reasons": self.reasons} if self.reasons else {})
            | ({"skipped": self.skipped} if self.skipped else {})
        )


def grade_gold(
    benchmark: Benchmark,
    items: Sequence[Item],
    graders: Graders,
    on_progress: Callable[[int], None],
) -> GoldResult:
    """The reference answers, written as a model would write them."""
    pairs = [(item, reply) for item in items if (reply := benchmark.gold_reply(item)) is not None]
    if not pairs:
        return GoldResult(0, 0, (), {}, "the benchmark ships no solutions")
    reasons: dict[str, str] = {}
    for start in range(0, len(pairs), BATCH):
        batch_items, replies = zip(*pairs[start : start + BATCH], strict=True)
        verdicts = benchmark.grade(batch_items, replies, CHAT, graders)
        reasons |= {
            item.id: verdict.reason
            for item, verdict in zip(batch_items, verdicts, strict=True)
            if not verdict.correct
        }
        on_progress(len(replies))
    return GoldResult(len(pairs), len(pairs) - len(reasons), tuple(reasons), reasons)


def grade_wrong(
    benchmark: Benchmark,
    items: Sequence[Item],
    graders: Graders,
    on_progress: Callable[[int], None],
) -> GoldResult:
    """Replies that are provably wrong; the score is the share that the grader accepted."""
    return _grade_rejects(benchmark, benchmark.wrong_replies, items, graders, on_progress)


def grade_forged(
    benchmark: Benchmark,
    items: Sequence[Item],
    graders: Graders,
    on_progress: Callable[[int], None],
) -> GoldResult:
    """Every cheat for every item; the score is the share that succeeded."""
    return _grade_rejects(benchmark, benchmark.forged_replies, items, graders, on_progress)


def _grade_rejects(
    benchmark: Benchmark,
    replies_to: Callable[[Sequence[Item], int], list[WrongReply]],
    items: Sequence[Item],
    graders: Graders,
    on_progress: Callable[[int], None],
) -> GoldResult:
    accepted, count, slowest_s = list[str](), 0, 0.0
    for start in range(0, len(items), SMALL_BATCH):
        places = range(start, min(start + SMALL_BATCH, len(items)))
        pairs = keep_proven(
            [(items[place], reply) for place in places for reply in replies_to(items, place)]
        )
        for style in (CHAT, BASE):
            in_style = [(item, wrong) for item, wrong in pairs if wrong.style == style]
            verdicts = benchmark.grade(
                [item for item, _ in in_style],
                [wrong.reply for _, wrong in in_style],
                style,
                graders,
            )
            accepted += [
                f"{item.id}: {wrong.name}"
                for (item, wrong), verdict in zip(in_style, verdicts, strict=True)
                if verdict.correct
            ]
            slowest_s = max([slowest_s, *(verdict.seconds for verdict in verdicts)])
        count += len(pairs)
        on_progress(len(places))
    return GoldResult(count, len(accepted), tuple(accepted), {}, slowest_s=slowest_s)


def keep_proven(pairs: Sequence[tuple[Item, WrongReply]]) -> list[tuple[Item, WrongReply]]:
    """Replies that are wrong by construction, or fail the benchmark's own tests in a plain
    interpreter that shares nothing with our graders. It runs the benchmark's code, recombined; none
    of it was written by a model."""
    checks = [wrong.check for _, wrong in pairs if wrong.check is not None]
    if not checks:
        return list(pairs)
    run = subprocess.run(
        [sys.executable, "-I", "-c", read_program("run_tests")],
        input="".join(json.dumps(check) + "\n" for check in checks),
        capture_output=True,
        text=True,
        check=True,
    )
    failures = iter(run.stdout.split())
    return [(item, wrong) for item, wrong in pairs if wrong.check is None or next(failures) == "1"]
