"""Putting a run together: base, engine, sandbox, worlds and ledger, from settings or from a ledger
that is there already.

What can be wrong is looked at before what takes long.
"""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen import __version__
from redqueen.cli.console import note, warn_if_unsafe
from redqueen.config.schema import Config, config_from_toml, to_toml
from redqueen.core.pipeline import beside
from redqueen.core.run import Run
from redqueen.core.step import Tools
from redqueen.core.world import World, new_world
from redqueen.engine.text_sampler import EngineTextSampler
from redqueen.errors import ConfigError, unknown
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.lock import RunLock
from redqueen.ledger.store import Ledger, about_of, base_weights, last_step, reader
from redqueen.records import Problem
from redqueen.rng import seed_for
from redqueen.sandbox import Sandbox
from redqueen.sandbox.backends import open_sandbox
from redqueen.stages.verify import judge_drafts
from redqueen.tasks import KINDS, TaskKind
from redqueen.tasks.code.sources import load_source, seed_drafts

if TYPE_CHECKING:
    from redqueen.models.base import Base

Arm = tuple[str, Config]
"""A name, and the rules of the world that plays by it."""

SHARED = (
    "steps",
    "base",
    "device",
    "lora",
    "dtype",
    "engine",
    "tasks",
    "verify",
    "ledger",
    "evaluate",
    "sandbox",
)
"""Settings that all worlds of a run have in common: one engine and one sandbox serve them all."""


def assemble(stack: ExitStack, arms: Sequence[Arm], place: Callable[[], Path]) -> Run:
    """A new run, in a folder that is asked for last: where something is wrong, none is made."""
    _check_shared(arms)
    _check_measured(arms[0][1])
    run_parts = Parts(stack, [config for _, config in arms])
    worlds = _worlds(arms, run_parts)
    rows = [
        {
            "world": world.number,
            "arm": world.arm,
            "seed": world.seed,
            "config": world.config.model_dump_json(),
        }
        for world in worlds
    ]
    folder = place()
    stack.enter_context(RunLock(folder))
    ledger = Ledger.create(folder, _about(arms[0][1], run_parts.base), rows)
    return run_parts.run(arms[0][1], worlds, ledger)


def reassemble(stack: ExitStack, folder: Path, steps: int | None, base: str | None = None) -> Run:
    """A run that is there, to be restored from its checkpoint; with `steps`, to go further than it
    was to go; `base`: where its base is now."""
    arms = arms_of(folder)
    config = arms[0][1]
    _check_measured(config)
    if steps is not None and steps != config.steps:
        _check_further(folder, steps)
        arms = [(arm, one.model_copy(update={"steps": steps})) for arm, one in arms]
    run_parts = Parts(stack, [one for _, one in arms], weights_of(folder), base)
    ledger = Ledger.open(folder)
    _note_changes(ledger.about, _about(config, run_parts.base))
    if arms[0][1].steps != config.steps:
        _go_further(ledger, arms)
    return run_parts.run(arms[0][1], _worlds(arms, run_parts), ledger)


def _go_further(ledger: Ledger, arms: Sequence[Arm]) -> None:
    """From now on the run is to have another number of steps."""
    config = arms[0][1]
    changed = {"config": to_toml(config), "steps": str(config.steps), "ended": ""}
    ledger.add("run", [{"name": name, "value": value} for name, value in changed.items()])
    ledger.add(
        "worlds",
        [
            {"world": number, "arm": arm, "seed": one.seed, "config": one.model_dump_json()}
            for number, (arm, one) in enumerate(arms)
        ],
    )


def _note_changes(then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Other versions compute the same up to the last digits, and those can decide which token is
    drawn."""
    before, after = (
        {"redqueen": about.get("version", "?"), **json.loads(about.get("machine", "{}"))}
        for about in (then, now)
    )
    changed = [
        f"{name} {before.get(name)} is now {value}"
        for name, value in after.items()
        if before.get(name) != value
    ]
    if not base_weights(then):
        note(
            f"the run does not say which weights '{now['base']}' had when it was made: if they have changed since, its members do not fit."
        )
    if changed:
        note(
            f"since this run began: {'; '.join(changed)}. It goes on, but its records may not be those that it would have had."
        )


def _check_measured(config: Config) -> None:
    """A wrong name of a suite, or data that is not there, is said now, not at the end."""
    from redqueen.evaluate.members import exam_of

    if config.evaluate.suite:
        exam_of(config.evaluate, config.tasks.load_prompt_format())


def _check_further(folder: Path, steps: int) -> None:
    with closing(reader(folder)) as connection:
        done = last_step(connection)
    if steps < done:
        raise ConfigError(
            f"the run in {folder} has {done} steps already: --steps says to which step it is to go on"
        )


def arms_of(folder: Path) -> list[Arm]:
    """The worlds of a run, by their rules."""
    with closing(reader(folder)) as connection:
        rows = connection.execute("SELECT arm, config FROM worlds ORDER BY world").fetchall()
        text = connection.execute("SELECT value FROM run WHERE name = 'config'").fetchone()
    config_from_toml(text[0])  # an old setting is named as such
    return [(row["arm"], Config.model_validate_json(row["config"])) for row in rows]


def weights_of(folder: Path) -> str:
    """The fingerprint of the base that a run was made with; empty where it does not say."""
    with closing(reader(folder)) as connection:
        return base_weights(about_of(connection))


class Parts:
    """What all worlds share. Of a run that is there: `weights`, the fingerprint that its base must
    have, and `base`, where that has moved to."""

    def __init__(
        self,
        stack: ExitStack,
        configs: Sequence[Config],
        weights: str = "",
        base: str | None = None,
    ) -> None:
        self.stack, config = stack, configs[0]
        self.kinds = config.tasks.load_kinds()
        self.sources = [
            load_source(one.fixed, one.tasks.kinds) if one.is_fixed else None for one in configs
        ]
        warn_if_unsafe(config.sandbox.unsafe)
        from redqueen.engine.torch.engine import TorchEngine
        from redqueen.models.base import load_base

        self.base = load_base(base or config.base, device=config.device, dtype=config.dtype)
        self.base.check(weights)
        slots = sum(one.slots for one in configs)
        self.engine = TorchEngine(self.base, slots, config.engine, config.lora, config.seed)
        note(
            f"{self.base.name}, {self.base.parameters / 1e6:.1f}M parameters, {str(self.base.dtype).removeprefix('torch.')} on {self.base.device}; "
            f"{slots} members of {self.engine.parameters_each / 1e3:,.0f}k parameters each"
        )
        beside_gpu = self.base.device.type == "cuda"
        self.sandbox = stack.enter_context(open_sandbox(config.sandbox, beside_gpu))

    def tools(self, config: Config) -> Tools:
        prompt_format = config.tasks.load_prompt_format(self.base.prompt_format)
        tools = Tools(
            EngineTextSampler(self.engine, self.engine.tokenizer, self.engine.base.context),
            self.engine,
            self.sandbox,
            self.kinds,
            prompt_format,
            thread=beside(self.base.device.type),
        )
        self.stack.callback(tools.thread.shutdown, wait=True, cancel_futures=True)
        return tools

    def run(self, config: Config, worlds: list[World], ledger: Ledger) -> Run:
        self.stack.enter_context(ledger)
        checkpoints = Checkpoints(ledger.folder, config.ledger.keep, note)
        return Run(
            config,
            worlds,
            self.tools(config),
            ledger,
            checkpoints,
            mixes_worlds=self.base.device.type == "cuda",
        )


def _worlds(arms: Sequence[Arm], parts: Parts) -> list[World]:
    worlds: list[World] = []
    first_slot = 0
    for number, ((arm, config), source) in enumerate(zip(arms, parts.sources, strict=True)):
        world = new_world(
            number, arm, config, first_slot, _seeds(config, parts.kinds, parts.sandbox), source
        )
        for (
            member
        ) in world.members:  # by the world's own seed: a world of a study begins as it would alone
            parts.engine.newborn(world.slot(member), seed_for(world.seed, "newborn", member.slot))
        worlds.append(world)
        first_slot += config.slots
    return worlds


def _seeds(config: Config, kinds: dict[str, TaskKind], sandbox: Sandbox) -> list[Problem]:
    """The problems an archive begins with, verified like any other."""
    archive = config.archive
    drafts = seed_drafts(archive.seeds, archive.seed_count, archive.seed_tiers, config.seed)
    known = {**KINDS, **kinds}
    if strange := [kind for kind, _ in drafts if kind not in known]:
        raise ConfigError(
            f"archive.seeds={archive.seeds}: " + unknown("task kind", strange[0], known)
        )
    verdicts = judge_drafts(
        [(kind, draft, None) for kind, draft in drafts], known, sandbox, config.verify
    )
    problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    if not problems:
        raise ConfigError(
            f"none of the {len(drafts)} problems of archive.seeds={archive.seeds} is valid: the first is rejected for {verdicts[0]}"
        )
    return problems


def _check_shared(arms: Sequence[Arm]) -> None:
    first = arms[0][1]
    for arm, config in arms:
        for name in SHARED:
            if getattr(config, name) != getattr(first, name):
                raise ConfigError(
                    f"the arms '{arms[0][0]}' and '{arm}' differ in '{name}', which all worlds of a run have in common"
                )


def _about(config: Config, base: "Base") -> dict[str, str]:
    import torch
    import transformers

    machine = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(base.device)
        if base.device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads",
    }
    return {
        "config": to_toml(config),
        "steps": str(config.steps),
        "base": base.name,
        "base_weights": base.fingerprint,
        "parameters": str(base.parameters),
        "version": __version__,
        "machine": json.dumps(machine),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
