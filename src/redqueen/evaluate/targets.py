"""What is evaluated: a base, an adapter on its base, members of a saved run, or a live run.

Models share one engine, side by side in its slots, and are sampled in one call. Beside adapters
and members, the base is one of the models: a new adapter, which adds nothing to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.config.engine import LoraConfig
from redqueen.core.run import Run
from redqueen.core.world import World
from redqueen.engine.protocol import BaseInfo, Engine, EngineSpec, Sampler, create_engine
from redqueen.engine.text_sampler import (
    EngineTextSampler,
    TextCompletion,
    TextRequest,
    TextSampler,
)
from redqueen.errors import ConfigError, DataError
from redqueen.evaluate.replies import BASE, ROUTER, SOUP, VOTE, Model, base_models
from redqueen.evaluate.router import routed
from redqueen.evaluate.run_members import (
    RunMembers,
    check_world,
    load_members,
    select_members,
    select_models,
    world_models,
)
from redqueen.ledger.durable import checksum
from redqueen.ledger.run_reader import RunReader
from redqueen.sandbox import Sandbox
from redqueen.tasks.prompts import PromptFormat, load_prompt_format

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter
    from redqueen.models.base import Dtype


@dataclass(frozen=True, slots=True)
class Batch:
    """Models that are sampled in one engine call."""

    sampler: TextSampler
    models: tuple[Model, ...]


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    base: BaseInfo
    batches: tuple[Batch, ...]
    prompt_format: PromptFormat
    """Of problems of task kinds."""
    provenance: str
    """Tells models of the same name apart."""
    run: Path | None = None
    step: int = 0
    sandbox: Sandbox | None = None
    """That of a live run."""
    unsafe: bool = False
    """Whether walls that cannot be built may be missing."""
    votes: bool = False
    """Whether students are asked for their votes, not each for itself."""
    close: Callable[[], None] = lambda: None

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(model for batch in self.batches for model in batch.models)

    def with_models(self, change: Callable[[Model], Model | None]) -> "Target":
        """Every model as `change` has it; None leaves it out."""
        batches = tuple(
            replace(batch, models=tuple(filter(None, map(change, batch.models))))
            for batch in self.batches
        )
        return replace(self, batches=batches)

    def without(self, name: str) -> "Target":
        return self.with_models(lambda model: None if model.name == name else model)

    @property
    def is_chat(self) -> bool:
        """Whether benchmarks go through the chat template. Pawn's template only joins messages: it
        continues texts."""
        return self.base.has_chat_template and self.base.prompt_format == "chat"


def open_target(
    source: Run | RunReader | str | Path,
    members: Sequence[str] = (),
    world: int | None = None,
    *,
    base: str | None = None,
    device: str = "auto",
    dtype: "Dtype" = "auto",
    devices: int = 0,
) -> Target:
    """A base by name or place, an adapter (a folder with adapter_config.json, or owner/name on the
    hub), a run folder, or a member in it.
    `base`: where the base is, if the adapter or the run does not lead to it. `devices`: so many
    worker processes, one a device, over which models are spread."""
    if isinstance(source, Run):
        return target_of_run(source, members, world)
    source = source.folder if isinstance(source, RunReader) else source
    while (selected := select_members(source, members, world)) is not None:
        try:
            return _open_members(selected, base, device, dtype, devices)
        except DataError:
            if selected.checkpoint.folder.exists():
                raise  # else a run that goes on has deleted it: there is a newer one
    folder = source if is_adapter(source) else download_adapter(str(source))
    if folder is not None:
        place = Path(folder).expanduser()
        name = str(source) if folder is not source else place.name
        return _open_adapter(place, name, base, device, dtype, devices)
    engine = _create_engine(EngineSpec(str(source), 0, device=device, dtype=dtype), devices)
    info = engine.base
    return Target(
        info.name,
        info,
        (Batch(_text_sampler(engine, engine.bare() if devices else engine), base_models()),),
        load_prompt_format(info.prompt_format),
        info.fingerprint,
        close=engine.close,
    )


def download_adapter(source: str) -> str | None:
    """The folder of an adapter on the hub; None where that name is no adapter."""
    from redqueen.models.hub import fetch_adapter, is_hub_name

    return fetch_adapter(source) if is_hub_name(source) else None


def is_adapter(source: str | Path) -> bool:
    return (Path(source).expanduser() / "adapter_config.json").is_file()


def target_of_run(
    run: Run, members: Sequence[str] = (), world: int | None = None, *, with_base: bool = True
) -> Target:
    """The members of a live run: its students with their soup, or those that are named."""
    check_world(world, len(run.worlds))
    info, places = run.engine.base, [w for w in run.worlds if world in (None, w.number)]
    models = [model for place in places for model in _models_of(run, place)]
    models = select_models(models, members or ["students", SOUP])
    if ROUTER in members:
        models = routed(models, run.folder)
    groups = [models]
    if not run.mixes_worlds:
        groups = [[model for model in models if model.world == place.number] for place in places]
    batches = [batch for group in groups for batch in _batches(run, group)]
    if with_base:
        batches.append(Batch(_text_sampler(run.engine, run.engine.bare()), base_models()))
    name = run.folder.resolve().name
    return Target(
        name,
        info,
        tuple(batches),
        run.ports.prompt_format,
        f"{name}, step {run.step} on {info.fingerprint}",
        run.folder,
        run.step,
        run.ports.sandbox,
        run.config.sandbox.unsafe,
        VOTE in members,
    )


def _models_of(run: Run, place: World) -> list[Model]:
    """In their slots; the soup in that of the first student, while it is sampled: an engine has no
    slot to spare."""
    slots = {member.id: place.slot(member) for member in place.members}
    first = place.slot(place.students[0])
    models = world_models(place.members, place.number, place.arm, len(run.worlds), place.chosen)
    return [replace(model, slot=slots.get(model.member, first)) for model in models]


def _batches(run: Run, models: Sequence[Model]) -> list[Batch]:
    """One of members, one of soups."""
    from redqueen.stages.evolve.merge import merge_adapters

    members = tuple(model for model in models if model.role != SOUP)
    soups = tuple(model for model in models if model.role == SOUP)
    adapters = {}
    for soup in soups:
        place = run.worlds[soup.world]
        slots = [place.slot(member) for member in place.students]
        adapters[soup.slot] = merge_adapters(
            [run.engine.read(slot) for slot in slots], place.config.evolve.merge
        )
    batches = [
        Batch(run.ports.sampler, members),
        Batch(_Instead(run.ports.sampler, run.engine, adapters), soups),
    ]
    return [batch for batch in batches if batch.models]


@dataclass(frozen=True, slots=True)
class _Instead:
    """Samples from other adapters than those that are in the slots, which then are as before."""

    sampler: TextSampler
    engine: Engine
    adapters: "Mapping[int, Adapter]"

    def sample(
        self,
        requests: Sequence[TextRequest],
        temperature: float,
        on_finish: Callable[[Sequence[TextCompletion]], None],
    ) -> list[TextCompletion]:
        own = {slot: self.engine.read(slot) for slot in self.adapters}
        try:
            for slot, adapter in self.adapters.items():
                self.engine.write(slot, adapter, reset_optimizer=False)
            return self.sampler.sample(requests, temperature, on_finish)
        finally:
            for slot, adapter in own.items():
                self.engine.write(slot, adapter, reset_optimizer=False)


def _open_adapter(
    folder: Path, name: str, base: str | None, device: str, dtype: "Dtype", devices: int
) -> Target:
    from redqueen.models.peft_io import base_of, load_adapter

    adapter = load_adapter(folder)
    named, fingerprint = base_of(folder)
    if (folder / "base" / "config.json").is_file():  # exported with the adapter
        named = str(folder / "base")
    lora = LoraConfig(rank=adapter.rank, alpha=adapter.alpha, targets=adapter.targets)
    spec = EngineSpec(base or named, 2, lora, device=device, dtype=dtype, fingerprint=fingerprint)
    hint = "" if base else "The adapter names that base; give another place of it with --base."
    engine = _create_engine(spec, devices, hint)
    engine.write(0, adapter, reset_optimizer=False)  # slot 1 stays new: it equals the base
    info = engine.base
    models = Model("adapter" if name == BASE else name, 0), *base_models(1)
    return Target(
        name,
        info,
        (Batch(_text_sampler(engine, engine), models),),
        load_prompt_format(info.prompt_format),
        f"{checksum(folder / 'adapter_model.safetensors')} on {info.fingerprint}",
        close=engine.close,
    )


def _open_members(
    selected: RunMembers, base: str | None, device: str, dtype: "Dtype", devices: int
) -> Target:
    config, step = selected.config, selected.checkpoint.step
    # read first: a run that goes on deletes old checkpoints
    adapters = load_members(selected, base)
    spec = EngineSpec(
        base or config.base,
        len(adapters) + 1,
        config.lora,
        # whoever made the run does not choose a cluster to join
        config.engine.model_copy(update={"gradient_checkpointing": False, "address": "local"}),
        device,
        config.dtype if dtype == "auto" else dtype,
        fingerprint=selected.fingerprint,
    )
    hint = "" if base else "The run was played on that base; give another place of it with --base."
    engine = _create_engine(spec, devices, hint)
    for slot, adapter in enumerate(adapters):
        engine.write(slot, adapter, reset_optimizer=False)
    models = [replace(model, slot=slot) for slot, model in enumerate(selected.models)]
    models += base_models(len(models))
    if selected.routes:
        models = routed(models, selected.folder)
    info, name = engine.base, config.tasks.prompt_format
    return Target(
        selected.name,
        info,
        (Batch(_text_sampler(engine, engine), tuple(models)),),
        load_prompt_format(info.prompt_format if name == "auto" else name),
        f"{selected.folder.resolve().name} of {selected.created}, step {step} "
        f"on {info.fingerprint}",
        selected.folder,
        step,
        votes=selected.votes,
        close=engine.close,
    )


_PARTS = 8
"""Of the items of a base that is measured on several devices: their number decides last bits, so it
does not follow from the devices."""


def _create_engine(spec: EngineSpec, devices: int, hint: str = "") -> Engine:
    """With devices, a model is a block of its own."""
    if devices:
        spread = {"type": "processes", "workers": devices, "block": 1 if spec.slots else "world"}
        config = spec.config.model_copy(update=spread)
        spec = replace(spec, config=config, worlds=() if spec.slots else (0,) * _PARTS)
    try:
        return create_engine(spec.config.type, spec)
    except ConfigError as error:
        raise ConfigError(f"{error}\n{hint}".rstrip()) from error


def _text_sampler(engine: Engine, sampler: Sampler) -> TextSampler:
    return EngineTextSampler(sampler, engine.tokenizer, engine.base.context)
