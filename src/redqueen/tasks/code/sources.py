"""Problems that nobody had to invent: the seeds of an archive, and what students learn from where
there are no teachers.

Without teachers it is plain reinforcement with verifiable rewards, the control for everything else.
Whatever the source, a problem goes through the same verification as a teacher's.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from redqueen.config.stages import FixedConfig
from redqueen.errors import ConfigError, DataError
from redqueen.jsonl import read_jsonl
from redqueen.rng import stream
from redqueen.tasks import KINDS, Draft

Drafts = list[tuple[str, Draft]]
"""Kinds and drafts."""
Source = Callable[[int, int, str, int], Drafts]
"""From a seed, a step, a student and a number: so many drafts."""


def load_source(config: FixedConfig, kinds: Sequence[str]) -> Source:
    if config.source == "pawn":
        from redqueen.pawn.problems import random_drafts

        low, high = _tiers(config.tiers, "fixed.tiers")
        kinds = [kind for kind in kinds if kind in KINDS]
        if not kinds:
            raise ConfigError(
                f"fixed.source=pawn has problems of the kinds {', '.join(KINDS)} only; for others give a JSONL file"
            )
        return lambda seed, step, student, count: random_drafts(
            stream(seed, step, "fixed", student), count, range(low, high + 1), kinds
        )
    drafts = [draft for draft in read_drafts(Path(config.source)) if draft[0] in kinds]
    if not drafts:
        raise DataError(
            f"{config.source} has no problem of the kinds that are played ({', '.join(kinds)})"
        )
    return lambda seed, step, student, count: stream(seed, step, "fixed", student).sample(
        drafts, min(count, len(drafts))
    )


def seed_drafts(seeds: str, count: int, tiers: tuple[int, int], seed: int) -> Drafts:
    """What an archive begins with."""
    if seeds == "examples":
        return [("code_o", Draft("\n".join(lines) + "\n", (given,))) for lines, given in _EXAMPLES]
    if seeds == "pawn":
        from redqueen.pawn.problems import random_drafts

        low, high = _tiers(tiers, "archive.seed_tiers")
        return random_drafts(stream(seed, "archive"), count, range(low, high + 1), ("code_o",))
    return read_drafts(Path(seeds))


def read_drafts(path: Path) -> Drafts:
    """The problems of a file, as `redqueen verify --out` and `redqueen export --problems` write
    them; rejected proposals are passed over."""
    found: Drafts = []
    for number, row in read_jsonl(path, required=("kind",)):
        if row.get("valid", True):
            found.append((row["kind"], _draft(row, f"{path}, line {number}")))
    if not found:
        raise DataError(f"{path} has no problem")
    return found


def _draft(row: dict[str, Any], where: str) -> Draft:
    program, inputs, message = row.get("program"), row.get("inputs"), row.get("message", "")
    if isinstance(inputs, str):  # a list in a column of text
        with contextlib.suppress(ValueError):
            inputs = json.loads(inputs)
    if (
        not isinstance(program, str)
        or not isinstance(message, str)
        or not isinstance(inputs, list)
        or not inputs
        or not all(isinstance(one, str) for one in inputs)
    ):
        raise DataError(
            f"{where}: expected the texts 'program' and 'message', and 'inputs' as a list of texts"
        )
    return Draft(program, tuple(inputs), message)


def _tiers(tiers: tuple[int, int], name: str) -> tuple[int, int]:
    if not 1 <= tiers[0] <= tiers[1] <= 10:
        raise ConfigError(
            f"{name}: the lowest and the highest tier, from 1 to 10; got {list(tiers)}"
        )
    return tiers


_EXAMPLES = (
    (("def f(a):", "    return a"), "'hello'"),
    (
        (
            "def f(n):",
            "    total = 0",
            "    for i in range(1, n + 1):",
            "        if i % 3 == 0:",
            "            total += i",
            "    return total",
        ),
        "10",
    ),
    (
        (
            "def f(words):",
            "    counts = {}",
            "    for word in words:",
            "        counts[word[0]] = counts.get(word[0], 0) + len(word)",
            "    return counts",
        ),
        "['sea', 'sun', 'rain']",
    ),
    (
        (
            "def f(text, k):",
            "    return ''.join(c.upper() if i % k == 0 else c for i, c in enumerate(text))[::-1]",
        ),
        "'elephant', 3",
    ),
    (
        (
            "def f(items):",
            "    seen = []",
            "    for item in items:",
            "        if item in seen:",
            "            seen.remove(item)",
            "        else:",
            "            seen.append(item)",
            "    return seen",
        ),
        "[4, 7, 4, 2, 7, 4]",
    ),
    (
        (
            "def f(a, b):",
            "    steps = 0",
            "    while b:",
            "        a, b = b, a % b",
            "        steps += 1",
            "    return a, steps",
        ),
        "84, 30",
    ),
)
"""For bases that were not trained on our own programs: small, of different types, none with a
trick. Lines of a program, and its input."""
