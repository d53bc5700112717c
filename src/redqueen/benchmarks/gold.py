"""Is the grader to be trusted? The benchmarks' own answers must all be right, and answers that are
known to be wrong all wrong."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redqueen.benchmarks.suite import Benchmark, Item, Judges, Wrong

EXCEPTIONS: dict[str, dict[str, str]] = {}
"""Reference answers that cannot be graded as right, by suite and id, with the reason."""

BATCH = 200  # slow items of a batch run side by side


@dataclass(frozen=True, slots=True)
class GoldResult:
    """What came of one suite. The score is a share of the replies that were fed, all of them right
    (gold) or wrong (wrong)."""

    n: int
    right: int
    failed: tuple[str, ...]
    """Ids whose reference was not right; of wrong answers, `id: which` for those that were taken
    for right."""
    reasons: dict[str, str]
    skipped: str = ""
    """Why the suite was left out."""

    @property
    def score(self) -> float | None:
        return self.right / self.n if self.n else None

    def as_json(self) -> dict[str, Any]:
        score = None if self.score is None else round(self.score, 6)
        found: dict[str, Any] = {"score": score, "n": self.n, "failed": list(self.failed)}
        return (
            found
            | ({"reasons": self.reasons} if self.reasons else {})
            | ({"skipped": self.skipped} if self.skipped else {})
        )


def grade_gold(
    suite: Benchmark, items: Sequence[Item], judges: Judges, done: Callable[[int], None]
) -> GoldResult:
    """The reference answers, as a model would write them, through the whole of the grading."""
    pairs = [(item, reply) for item in items if (reply := suite.gold(item)) is not None]
    if not pairs:
        return GoldResult(0, 0, (), {}, "the benchmark ships no solutions")
    known = EXCEPTIONS.get(suite.name, {})
    failed: dict[str, str] = {}
    for start in range(0, len(pairs), BATCH):
        part = pairs[start : start + BATCH]
        verdicts = suite.grade(
            [item for item, _ in part], [reply for _, reply in part], "chat", judges
        )
        failed |= {
            item.id: verdict.reason
            for (item, _), verdict in zip(part, verdicts, strict=True)
            if not verdict.right
        }
        done(len(part))
    reasons = {name: known.get(name, reason) for name, reason in failed.items()}
    return GoldResult(len(pairs), len(pairs) - len(failed), tuple(failed), reasons)


def grade_wrong(
    suite: Benchmark, items: Sequence[Item], judges: Judges, done: Callable[[int], None]
) -> GoldResult:
    """Answers that are wrong by proof, through the whole of the grading; the score is the share
    that was taken for right."""
    taken, count = list[str](), 0
    for start in range(0, len(items), BATCH):
        places = range(start, min(start + BATCH, len(items)))
        pairs = proven(
            [(items[place], wrong) for place in places for wrong in suite.wrong(items, place)]
        )
        verdicts = suite.grade(
            [item for item, _ in pairs], [wrong.reply for _, wrong in pairs], "chat", judges
        )
        taken += [
            f"{item.id}: {wrong.name}"
            for (item, wrong), verdict in zip(pairs, verdicts, strict=True)
            if verdict.right
        ]
        count += len(pairs)
        done(len(places))
    return GoldResult(count, len(taken), tuple(taken), {})


_PROVER = """
import json, os, resource, signal, sys
for line in sys.stdin:
    program, tests = json.loads(line)
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_PROF, 5)
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        sys.stdin = open(os.devnull)
        null = os.open(os.devnull, os.O_RDWR)
        [os.dup2(null, fd) for fd in (0, 2)]
        out = os.dup(1)
        os.dup2(null, 1)
        try:
            exec(compile(program + chr(10) + tests, "<check>", "exec"), {"__name__": "check"})
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(int(status != 0), flush=True)
"""


def proven(pairs: Sequence[tuple[Item, Wrong]]) -> list[tuple[Item, Wrong]]:
    """Those whose wrongness holds: by the way they were made, or because the benchmark's own tests,
    run by a plain interpreter that knows nothing of our grading, fail. What runs there is the
    benchmark's own code, recombined; no model had a hand in it."""
    checks = [wrong.check for _, wrong in pairs if wrong.check is not None]
    if not checks:
        return list(pairs)
    lines = "".join(json.dumps(check) + "\n" for check in checks)
    run = subprocess.run(
        [sys.executable, "-I", "-c", _PROVER],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    fails = iter(run.stdout.split())
    return [(item, wrong) for item, wrong in pairs if wrong.check is None or next(fails) == "1"]
