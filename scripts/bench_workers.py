"""How much faster several workers are: the same study with one and with more, in turns, so that a
machine that gets slower meanwhile does not decide.

    python scripts/bench_workers.py [WORKERS] [ROUNDS]

Every worker computes with one thread: two workers on two cores against one on one core.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.ledger.store import digest

WORLDS = 4
SETTINGS = (
    "steps=4",
    "base=pawn",
    "device=cpu",
    "population.teachers=2",
    "population.students=2",
    "evaluate.suite=",
    "engine.type=processes",
    "ledger.checkpoint_every=4",
)


def play(workers: int) -> tuple[list[float], str]:
    """Seconds of every step after the first, and the digest."""
    settings = [*SETTINGS, f"engine.workers={workers}"]
    arms = [
        (f"seed{seed}", load_config("pawn-cpu", [*settings, f"seed={seed}"]))
        for seed in range(WORLDS)
    ]
    with tempfile.TemporaryDirectory() as name:
        with Run.create(arms, Path(name, "run")) as run:
            seconds = []
            for step in run:
                seconds.append(step.seconds)
                print(f"  {workers} workers, step {step.number}: {step.seconds:.1f} s", flush=True)
        return seconds[1:], digest(Path(name, "run"))


def main() -> None:
    workers, rounds = (int(word) for word in (*sys.argv[1:], *("2", "2")[len(sys.argv) - 1 :]))
    ratios, digests = [], set()
    for _ in range(rounds):
        started = time.monotonic()
        one, first = play(1)
        many, second = play(workers)
        digests |= {first, second}
        ratios += [single / several for single, several in zip(one, many, strict=True)]
        print(f"round of {time.monotonic() - started:.0f} s", flush=True)
    low, high = min(ratios), max(ratios)
    same = "equal" if len(digests) == 1 else "DIFFERENT"
    median = statistics.median(ratios)
    print(f"{workers} workers: {median:.2f}x ({low:.2f} to {high:.2f}); digests {same}")


if __name__ == "__main__":
    main()
