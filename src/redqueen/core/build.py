"""Putting a run together: engine, sandbox, worlds and ledger, from settings or from a ledger that
is there already.

What can be wrong is looked at before what takes long.
"""

import json
import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from redqueen import __version__
from redqueen.config.machine import check_cores
from redqueen.config.registry import VOUCHED, stored_paths
from redqueen.config.schema import Config
from redqueen.config.toml import config_from_toml, to_toml, validate
from redqueen.core.fit import fit_to_device
from redqueen.core.pipeline import Ports, background_executor
from redqueen.core.stop import check_drift
from redqueen.core.world import World, new_world
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.protocol import Engine, EngineSpec, create_engine
from redqueen.engine.saving import CheckpointContent
from redqueen.engine.text_sampler import EngineTextSampler
from redqueen.errors import ConfigError, plural, unknown
from redqueen.ledger.checkpoint import Checkpoints
from redqueen.ledger.lock import RunLock
from redqueen.ledger.store import Ledger, Rows, about_of, base_weights, last_step, open_to_read
from redqueen.records import Problem
from redqueen.rng import seed_for
from redqueen.sandbox import Sandbox
from redqueen.sandbox.backends import open_sandbox
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import load_kinds
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.sources import load_source, seed_payloads

log = logging.getLogger(__name__)

Arm = tuple[str, Config]
"""A name, and the rules of the world that plays by it."""

SHARED = (
    "steps",
    "base",
    "device",
    "dtype",
    "lora",
    "engine",
    "tasks",
    "verify",
    "ledger",
    "evaluate",
    "sandbox",
)
"""Settings that all worlds of a run have in common: one engine and one sandbox serve them all."""


@dataclass(slots=True)
class Parts:
    """What a run is made of."""

    config: Config
    """Of the first world; what all worlds share is the same in the others."""
    worlds: list[World]
    ports: Ports
    ledger: Ledger
    checkpoints: Checkpoints
    mixes_worlds: bool = True
    """Whether one engine call may serve several worlds."""
    changes: Mapping[str, Rows] = field(default_factory=dict)
    """Rows of the ledger to be written once the run is restored."""


def build_run(stack: ExitStack, arms: Sequence[Arm], make_folder: Callable[[], Path]) -> Parts:
    """A new run, in a folder that is asked for last: where something is wrong, none is made."""
    check_arms(arms)
    _check_machine(arms[0][1])
    configs, fitted = fit_to_device([config for _, config in arms], arms[0][1].base)
    arms = [(arm, config) for (arm, _), config in zip(arms, configs, strict=True)]
    config = arms[0][1]
    engine = open_engine(stack, configs)
    ports = open_ports(stack, config, engine)
    worlds = build_worlds(arms, ports)
    folder = make_folder()
    stack.enter_context(RunLock(folder))
    about = {**_about(config, engine), **fitted}
    ledger = Ledger.create(folder, about, world_rows(arms))
    return _assemble(stack, config, worlds, ports, ledger)


def rebuild_run(stack: ExitStack, folder: Path, steps: int | None, base: str | None) -> Parts:
    """A run that is there, to be restored from its checkpoint; with `steps`, to go further than it
    was to go; `base`: where its base is now. Nothing is written yet: what is refused, here or when
    its checkpoint is loaded, has changed nothing."""
    arms = read_arms(folder)
    before = arms[0][1]
    if steps is not None and steps != before.steps:
        _check_steps(folder, steps)
        arms = [(arm, config.with_settings(steps=steps)) for arm, config in arms]
    config = arms[0][1]
    engine = open_engine(stack, [config for _, config in arms], read_fingerprint(folder), base)
    ports = open_ports(stack, config, engine)
    worlds = build_worlds(arms, ports)
    ledger = Ledger.open(folder)
    _warn_of_changes(ledger.about, _about(before, engine))
    parts = _assemble(stack, config, worlds, ports, ledger)
    if config.steps != before.steps:
        about = {"config": to_toml(config), "steps": str(config.steps), "ended": ""}
        rows = [{"name": name, "value": value} for name, value in about.items()]
        parts.changes = {"run": rows, "worlds": world_rows(arms)}
    return parts


def open_engine(
    stack: ExitStack, configs: Sequence[Config], fingerprint: str = "", base: str | None = None
) -> Engine:
    """One engine for all worlds. Of a run that is there: the fingerprint that its base must have,
    and where that base has moved to."""
    config = configs[0]
    spec = EngineSpec(
        base=base or config.base,
        slots=sum(config.slots for config in configs),
        lora=config.lora,
        config=config.engine,
        device=config.device,
        dtype=config.dtype,
        seed=config.seed,
        fingerprint=fingerprint,
        worlds=tuple(config.slots for config in configs),
        saving=CheckpointContent(
            config.ledger.checkpoint_optimizer, config.ledger.checkpoint_dtype
        ),
    )
    engine = create_engine(config.engine.type, spec)
    stack.callback(engine.close)
    info = engine.base
    log.info(
        "%s, %.1fM parameters, %s on %s; %d members of %sk parameters each",
        info.name,
        info.parameters / 1e6,
        info.dtype,
        info.device,
        spec.slots,
        f"{engine.parameters_each / 1e3:,.0f}",
    )
    return engine


def open_ports(stack: ExitStack, config: Config, engine: Engine) -> Ports:
    """What the stages work with. Beside a GPU there are cores to spare, and what two threads would
    wait for is the interpreter's lock: the sandbox is driven by a process of its own."""
    sandbox = open_sandbox(config.sandbox, beside_gpu=engine.base.on_gpu)
    stack.callback(sandbox.close)
    name = config.tasks.prompt_format
    return Ports(
        EngineTextSampler(engine, engine.tokenizer, engine.base.context),
        engine,
        sandbox,
        load_kinds(*config.tasks.kinds),
        load_prompt_format(engine.base.prompt_format if name == "auto" else name),
        stack.enter_context(background_executor(on_gpu=engine.base.on_gpu)),
    )


def build_worlds(arms: Sequence[Arm], ports: Ports) -> list[World]:
    worlds: list[World] = []
    first_slot = 0
    for number, (arm, config) in enumerate(arms):
        source = load_source(config.fixed, config.tasks.kinds) if config.is_fixed else None
        seeds = verify_seeds(config, ports.sandbox)
        world = new_world(number, arm, config, first_slot, seeds, source)
        for member in world.members:
            # by the world's own seed: a world of a study begins as it would alone
            seed = seed_for(world.seed, "newborn", member.slot)
            ports.engine.new(world.slot(member), seed)
        worlds.append(world)
        first_slot += config.slots
    return worlds


def verify_seeds(config: Config, sandbox: Sandbox) -> list[Problem]:
    """The problems an archive begins with, verified like any other."""
    archive, kinds = config.archive, {**load_kinds(), **load_kinds(*config.tasks.kinds)}
    payloads = seed_payloads(archive, config.tasks.kinds, config.seed)
    if strange := [kind for kind, _ in payloads if kind not in kinds]:
        raise ConfigError(
            f"archive.seeds={archive.seeds}: " + unknown("task kind", strange[0], kinds)
        )
    verdicts = verify_payloads(
        [(kind, payload, None) for kind, payload in payloads], kinds, sandbox, config.verify
    )
    problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    if payloads and not problems:
        raise ConfigError(
            f"none of the {len(payloads)} problems of archive.seeds={archive.seeds} is valid: "
            f"the first is rejected for {verdicts[0]}"
        )
    return problems


def check_arms(arms: Sequence[Arm]) -> None:
    """Of new worlds, before anything is loaded."""
    first = arms[0][1]
    for arm, config in arms:
        check_drift(config)
        for name in SHARED:
            if getattr(config, name) != getattr(first, name):
                raise ConfigError(
                    f"the arms '{arms[0][0]}' and '{arm}' differ in '{name}', which all worlds of "
                    "a run have in common"
                )


def _check_machine(config: Config) -> None:
    """Before the base is loaded. Workers of Ray have machines of their own."""
    if config.engine.type != "ray":
        check_cores("engine.threads", config.engine.threads)
    if config.sandbox.type == "ray":
        return
    config.sandbox.worker_count()
    total = config.sandbox.total_memory_mb()
    if config.verify.memory_mb > total:
        raise ConfigError(
            f"verify.memory_mb={config.verify.memory_mb}: all programs that run at a time have "
            f"{total:,} MiB here (sandbox.memory_mb)"
        )


def read_arms(folder: Path) -> list[Arm]:
    """The worlds of a run, by their rules, to play on or to use its members. What they name by
    import path is imported, so it is named first: it is code of whoever made the run."""
    with closing(open_to_read(folder)) as connection:
        rows = connection.execute("SELECT arm, config FROM worlds ORDER BY world").fetchall()
        text = connection.execute("SELECT value FROM run WHERE name = 'config'").fetchone()
    config_from_toml(text[0], imports=False)  # an old setting is named as such
    settings = [json.loads(row["config"]) for row in rows]
    if paths := stored_paths(settings):
        log.warning(
            "%s names code that is imported now: %s. Do this with runs that you trust only; %s=%s "
            "says that you do.",
            folder,
            ", ".join(paths),
            VOUCHED,
            ",".join(sorted({path.partition(":")[0].partition(".")[0] for path in paths})),
        )
    return [(row["arm"], validate(own)) for row, own in zip(rows, settings, strict=True)]


def read_fingerprint(folder: Path) -> str:
    """The fingerprint of the base that a run was made with; empty where it does not say."""
    with closing(open_to_read(folder)) as connection:
        return base_weights(about_of(connection))


def _assemble(
    stack: ExitStack, config: Config, worlds: list[World], ports: Ports, ledger: Ledger
) -> Parts:
    stack.enter_context(ledger)
    checkpoints = Checkpoints(ledger.folder, config.ledger.keep)
    return Parts(config, worlds, ports, ledger, checkpoints)


def world_rows(arms: Sequence[Arm]) -> list[dict[str, object]]:
    return [
        {"world": number, "arm": arm, "seed": config.seed, "config": config.model_dump_json()}
        for number, (arm, config) in enumerate(arms)
    ]


def _check_steps(folder: Path, steps: int) -> None:
    with closing(open_to_read(folder)) as connection:
        done = last_step(connection)
    if steps < done:
        raise ConfigError(
            f"the run in {folder} has {plural(done, 'step')} already: --steps says to which step "
            "it is to go on"
        )


def _warn_of_changes(then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Other versions compute the same up to the last digits, and those can decide which token is
    sampled."""
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
        log.warning(
            "the run does not say which weights '%s' had when it was made: if they have changed "
            "since, its members do not fit.",
            now["base"],
        )
    if changed:
        log.warning(
            "since this run began: %s. It goes on, but its records may not be those that it would "
            "have had.",
            "; ".join(changed),
        )


def _about(config: Config, engine: Engine) -> dict[str, str]:
    base = engine.base
    blocks = engine.layout.sizes if isinstance(engine, BlockEngine) else [engine.slots]
    machine = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        **{name: _installed(name) for name in ("torch", "transformers")},
        "device": base.hardware,
    }
    return {
        "config": to_toml(config),
        "steps": str(config.steps),
        "base": base.name,
        "base_weights": base.fingerprint,
        "parameters": str(base.parameters),
        "blocks": json.dumps(blocks),  # slots that were computed together
        "version": __version__,
        "machine": json.dumps(machine),
        "created": today(),
    }


def today() -> str:
    """The date and time for the record: nothing else depends on the clock."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
