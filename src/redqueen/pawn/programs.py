"""Random programs fit to be problems: a function `f` by the grammar, ten inputs, their outputs, and
a trace of each run."""

import re
from dataclasses import dataclass
from random import Random

from redqueen.pawn.grammar import NAMES, TIERS
from redqueen.pawn.tree import NoWay, needed, source, words
from redqueen.pawn.writer import Writer, varied

INPUTS = 10
"""Inputs of a program: what an induction problem needs."""


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
    """What it does, one word an operation."""

    @property
    def key(self) -> str:
        return program_key(self.text)


def draw_program(draw: Random, tier: int) -> Program:
    """A program of this tier; draws until one is fit."""
    while True:
        try:
            return _draw(draw, tier)
        except NoWay:
            continue


def _draw(draw: Random, tier: int) -> Program:
    writer = Writer(draw, tier, INPUTS)
    body = writer.body()
    _, uses = needed(body)
    arguments = [name for name in writer.arguments if name in uses]
    given = [
        ", ".join([repr(values[name]) for name in arguments]) for values in writer.inputs
    ]  # inputs are drawn in canonical order
    if not arguments or len(set(given)) < INPUTS:
        raise NoWay
    runs = dict(zip(given, writer.finished(), strict=True))
    fewest_steps = TIERS[tier].trace[0]
    first = next((text for text, run in runs.items() if len(run.trace) >= fewest_steps), None)
    if first is None or not varied([run.output for run in runs.values()]):
        raise NoWay
    inputs = [first, *(text for text in runs if text != first)]
    return Program(
        tier=tier,
        text=source(arguments, body),
        inputs=tuple(inputs),
        outputs=tuple(str(runs[text].output) for text in inputs),
        traces=tuple(tuple(runs[text].trace) for text in inputs),
        hint=" ".join(words(body)),
    )


_TOKEN = re.compile(r"'[^']*'|[A-Za-z_]\w*")


def program_key(text: str) -> str:
    """The text with its variables renamed in order of appearance: equal for programs whose
    canonical forms are equal.

    Cheaper than parsing, and enough for texts by this grammar, whose layout and names are fixed.
    """
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        token = match.group()
        return names.setdefault(token, f"v{len(names)}") if token in NAMES else token

    return _TOKEN.sub(rename, text)
