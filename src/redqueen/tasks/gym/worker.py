"""A process that makes entries of reasoning-gym and scores answers to them: one JSON request a line
in, one JSON reply a line out, with the number of its request.

Entries are made here: nothing in them is a model's. An answer is hostile to its scorer, and scored
in a fork without these pipes, behind the system call filter, with limits on CPU time and memory.
Without the filter this process refuses to work. What an answer may say there, and so what it can do
to its own verdict, is up to `guarded_eval` alone.
"""

import json
import logging
import re
import resource
import sys
import warnings
from functools import lru_cache
from typing import Any

from redqueen.sandbox import lockdown
from redqueen.sandbox.forks import Channel, in_fork, try_filter
from redqueen.tasks.gym.guarded_eval import guard_evaluation
from redqueen.tasks.gym.number_games import TARGETS, makes_target

MEMORY_BYTES = 4 << 30
SCORE = 0.999
"""From which on an answer is correct: scorers give a little for any answer, and more for a part."""

_WORD = re.compile(r"[A-Za-z]{2}")
WARM_UP = (
    "Abs(x) + 2",
    "Chi(x)",
    "Max(x, 2)",
    "sqrt(3*x + 2)*asin(x)",
    "exp(x)*sin(x)**2 - log(x)",
)
"""With these sympy has imported all that it imports when it reads a formula, or compares two."""


def main() -> None:
    cpu_s, channel = float(sys.argv[1]), Channel()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    try:
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        channel.send({"refused": f"the package reasoning-gym cannot be imported ({error})"})
        return
    prepare()
    lockdown.limit(resource.RLIMIT_CORE, 0)
    lockdown.limit(resource.RLIMIT_FSIZE, 0)
    lockdown.limit(resource.RLIMIT_AS, MEMORY_BYTES)
    try:
        lockdown.no_new_privileges()
        seccomp = try_filter()
    except OSError as error:
        channel.send({"refused": f"answers cannot be scored safely on this machine: {error}"})
        return
    channel.send({"datasets": sorted(DATASETS)})
    for request in channel:
        try:
            said = reply(request, cpu_s, seccomp, channel)
        except Exception as error:  # noqa: BLE001 - a data set may raise anything for a seed
            said = {"error": f"{type(error).__name__}: {error}"[:200]}
        channel.send({"request": request["request"], **said})


def prepare() -> None:
    """Behind the walls no file can be opened: without this, a verdict would follow from what was
    scored before."""
    if "sympy" not in sys.modules:
        return
    from sympy import Symbol, diff, parse_expr, simplify  # type: ignore[import-untyped]

    for formula in map(parse_expr, WARM_UP):
        simplify(diff(formula, Symbol("x")) - formula)


def reply(
    request: dict[str, Any], cpu_s: float, seccomp: lockdown.SeccompFilter, channel: Channel
) -> dict[str, Any]:
    dataset, entry = make(request["dataset"], request["seed"], request["index"])
    answer = request.get("answer")
    if answer is None:
        metadata = json.dumps(entry.get("metadata", {}), default=str, sort_keys=True)
        solved = entry.get("answer")
        return {"question": str(entry["question"]), "gold": solved, "metadata": metadata}

    def is_correct() -> bool:
        return score(request["dataset"], dataset, answer, entry) >= SCORE

    scored = in_fork(cpu_s, seccomp, is_correct, channel)
    return {"correct": scored is True, "reason": scored if isinstance(scored, str) else ""}


def score(name: str, dataset: Any, answer: str, entry: Any) -> float:
    """In a fork, which is for this answer alone."""
    guard_evaluation()
    if name in TARGETS and not makes_target(name, answer, entry["metadata"]):
        return 0.0
    if is_nan_for_a_number(answer, str(entry["answer"])):
        return 0.0
    return float(dataset.score_answer(answer, entry))


def is_nan_for_a_number(answer: str, gold: str) -> bool:
    """Which some scorers take for near: Python's `min(1.0, nan)` is 1."""
    return "nan" in answer.lower() and not _WORD.search(gold)


@lru_cache(maxsize=2000)
def make(name: str, seed: int, index: int) -> tuple[Any, Any]:
    """The entry, once its own answer was scored: what a scorer imports is loaded before the walls
    are up."""
    import reasoning_gym

    dataset = reasoning_gym.create_dataset(name, seed=seed, size=index + 1)
    entry = dataset[index]
    if entry.get("answer") is not None:
        dataset.score_answer(str(entry["answer"]), entry)
    return dataset, entry


if __name__ == "__main__":
    main()
