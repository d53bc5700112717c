"""Real problems and worlds, made without a sandbox."""

from collections.abc import Sequence
from dataclasses import replace

from redqueen.config.toml import load_config
from redqueen.core.pipeline import Ports
from redqueen.core.world import World, new_world
from redqueen.records import Author, Problem, Rating
from redqueen.tasks import TaskKind
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.programs import Code, load_verified
from redqueen.tasks.prompts.compact import CompactFormat
from tests.scripted import CountingEngine, ScriptedSampler, TrustingSandbox


def code_problem(
    program: str,
    inputs: Sequence[str] = ("1",),
    outputs: Sequence[str] = ("1",),
    kind: str = "code_o",
    message: str = "",
    author: Author | None = None,
) -> Problem:
    """A code problem whose outputs are taken on trust: nothing is run."""
    code = Code(program, tuple(inputs), message)
    return replace(load_verified(kind, code, tuple(outputs), steps=1), author=author)


def addition(number: int, kind: str = "code_o", author: Author | None = None) -> Problem:
    """A small problem; each number gives another one."""
    program = f"def f(x):\n    return x + {number}\n"
    return code_problem(program, ["1"], [str(number + 1)], kind, author=author)


def rated_world(
    teachers: Sequence[float], students: Sequence[float], *settings: str, sigma: float = 1.0
) -> World:
    """A world whose members have these skills."""
    sizes = [f"population.teachers={len(teachers)}", f"population.students={len(students)}"]
    world = new_world(0, "run", load_config(None, [*sizes, *settings]), 0, [])
    world.members = [
        replace(member, rating=Rating(mu, sigma))
        for member, mu in zip(world.members, [*teachers, *students], strict=True)
    ]
    return world


def scripted_ports(kinds: dict[str, TaskKind] | None = None) -> Ports:
    """Ports that no model is behind, for stages that sample nothing."""
    engine, sampler = CountingEngine(0), ScriptedSampler({})
    return Ports(sampler, engine, TrustingSandbox(), kinds or dict(KINDS), CompactFormat())
