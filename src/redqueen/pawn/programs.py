"""Random programs that are fit to be problems: a function `f` by the grammar, ten inputs, their
outputs, and a trace of each run."""

import re
import zlib
from dataclasses import dataclass, field
from random import Random

from redqueen.pawn.grammar import NAMES, TIERS
from redqueen.pawn.tree import DeadEnd, Variables, needed, source, words
from redqueen.pawn.writer import Writer, are_varied

INPUTS = 10
"""Inputs of a program: as many as an induction problem needs."""


@dataclass(frozen=True, slots=True)
class Program:
    tier: int
    text: str
    inputs: tuple[str, ...]
    """Arguments of one call each, as literals."""
    outputs: tuple[str, ...]
    """Canonical literals."""
    traces: tuple[tuple[str, ...], ...]
    """The run on each input: a line for each variable that is set, as `name = value`."""
    hint: str
    """What it does, one word per operation."""
    starts: tuple[Variables, ...] = field(default=(), repr=False, compare=False)
    """The arguments of each call as values."""

    @property
    def key(self) -> str:
        return program_key(self.text)


def sample_program(rng: Random, tier: int) -> Program:
    """A program of this tier."""
    while True:
        try:
            return _try_program(rng, tier)
        except DeadEnd:
            continue


def _try_program(rng: Random, tier: int) -> Program:
    writer = Writer(rng, tier, INPUTS)
    body = writer.write()
    _, uses = needed(body)
    arguments = [name for name in writer.arguments if name in uses]
    # the literals are canonical: inputs are sampled in canonical order
    calls = [", ".join([repr(values[name]) for name in arguments]) for values in writer.inputs]
    if not arguments or len(set(calls)) < INPUTS:
        raise DeadEnd
    runs = dict(zip(calls, writer.run(), strict=True))
    starts = dict(zip(calls, writer.inputs, strict=True))
    min_steps = TIERS[tier].trace[0]
    first = next((call for call, run in runs.items() if len(run.trace) >= min_steps), None)
    if first is None or not are_varied([run.output for run in runs.values()]):
        raise DeadEnd
    inputs = [first, *(call for call in runs if call != first)]
    return Program(
        tier=tier,
        text=source(arguments, body),
        inputs=tuple(inputs),
        outputs=tuple(str(runs[call].output) for call in inputs),
        traces=tuple(tuple(runs[call].trace) for call in inputs),
        hint=" ".join(words(body)),
        starts=tuple(starts[call] for call in inputs),
    )


_RESERVED = 8
"""One in so many keys is reserved."""


def is_reserved(key: str) -> bool:
    """Whether programs with this key are kept for `heldout-large`: none is ever trained on."""
    return zlib.crc32(key.encode()) % _RESERVED == 0


_TOKEN = re.compile(r"'[^']*'|[A-Za-z_]\w*")


def program_key(text: str) -> str:
    """The text with its variables renamed in order of appearance: equal for programs with equal
    canonical forms. Cheaper than parsing, and sufficient for programs of this grammar, whose layout
    and names are fixed."""
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        token = match.group()
        return names.setdefault(token, f"v{len(names)}") if token in NAMES else token

    return _TOKEN.sub(rename, text)
