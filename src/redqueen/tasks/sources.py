"""Problems that nobody had to invent: the seeds of an archive, and what students learn from where
there are no teachers.

Without teachers it is plain reinforcement learning with verifiable rewards, the control for
everything else. Whatever the source, a problem goes through the same verification as a teacher's.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from redqueen.config.registry import Registry
from redqueen.config.stages import ArchiveConfig, FixedConfig
from redqueen.errors import ConfigError, DataError, unknown
from redqueen.jsonl import read_jsonl
from redqueen.rng import stream
from redqueen.tasks import DOMAINS, TaskKind, load_kinds

Payloads = list[tuple[str, Any]]
"""Kinds by name, and payloads of theirs that are not verified yet."""
Source = Callable[[int, int, str, int], Payloads]
"""From a seed, a step, a student and a number: that many payloads."""
Generator = Callable[[Random, int, range, Sequence[str]], Payloads]
"""From random numbers, a number, tiers and kinds: that many payloads. An empty list where it has
none of these kinds."""


def example_payloads(rng: Random, count: int, tiers: range, kinds: Sequence[str]) -> Payloads:
    """The few examples that each kind has to begin with."""
    return [
        (name, payload) for name, kind in load_kinds(*kinds).items() for payload in kind.seeds()
    ]


GENERATORS: Registry[Generator] = Registry(
    "problem source",
    {
        "pawn": "redqueen.pawn.problems:random_payloads",
        "pawn-games": "redqueen.pawn.problems:random_games",
        "examples": example_payloads,
        **{
            name: source
            for domain in DOMAINS.values()
            for name, source in getattr(domain, "SOURCES", {}).items()
        },
    },
)


def load_source(config: FixedConfig, kinds: Sequence[str]) -> Source:
    """Where fixed problems come from."""
    if _is_generator(config.source):
        tiers = _range(config.tiers)
        generate = GENERATORS[config.source]
        if not generate(Random(0), 1, tiers, kinds):
            raise ConfigError(
                f"fixed.source={config.source} has no problems of the kinds "
                f"{', '.join(kinds)}; for these give a JSONL file"
            )
        return lambda seed, step, student, count: generate(
            stream(seed, step, "fixed", student), count, tiers, kinds
        )
    payloads = [row for row in read_payloads(Path(config.source), kinds) if row[0] in kinds]
    if not payloads:
        raise DataError(
            f"{config.source} has no problem of the kinds that are played ({', '.join(kinds)})"
        )
    return lambda seed, step, student, count: stream(seed, step, "fixed", student).sample(
        payloads, min(count, len(payloads))
    )


def seed_payloads(config: ArchiveConfig, kinds: Sequence[str], seed: int) -> Payloads:
    """What an archive begins with, in a run that plays these kinds."""
    if _is_generator(config.seeds):
        tiers = _range(config.seed_tiers)
        rng, generate = stream(seed, "archive"), GENERATORS[config.seeds]
        shown: Sequence[str] = ()
        if generate is example_payloads:  # of every kind that a teacher may be shown
            known = load_kinds(*kinds)
            shown = [name for kind in known for name in (kind, *known[kind].reference_kinds)]
        return generate(rng, config.seed_count, tiers, list(dict.fromkeys(shown)))
    return read_payloads(Path(config.seeds), kinds)


def read_payloads(path: Path, kinds: Sequence[str] = ()) -> Payloads:
    """The problems of a file, as `redqueen verify --out` and `redqueen export --problems` write
    them; rejected proposals are passed over. A file cannot make us import anything: besides the
    kinds of the package it may name those that are played."""
    known = {**load_kinds(), **load_kinds(*kinds)}
    payloads: Payloads = []
    for number, row in read_jsonl(path, required=("kind",)):
        if row.get("valid", True):
            payloads.append((row["kind"], _read_payload(row, known, f"{path}, line {number}")))
    if not payloads:
        raise DataError(f"{path} has no problem")
    return payloads


def _read_payload(row: dict[str, Any], known: Mapping[str, TaskKind], where: str) -> Any:
    kind, payload = row["kind"], row.get("payload", row)
    if kind not in known:
        raise DataError(
            f"{where}: {unknown('task kind', kind, known)} One of your own must be in tasks.kinds."
        )
    if not isinstance(payload, dict):
        raise DataError(f"{where}: the field 'payload' is not an object")
    try:
        return known[kind].load_payload(payload)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error


def _is_generator(source: str) -> bool:
    return source in GENERATORS or (":" in source and not Path(source).exists())


def _range(tiers: tuple[int, int]) -> range:
    return range(tiers[0], tiers[1] + 1)
