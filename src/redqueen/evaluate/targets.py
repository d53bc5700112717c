"""What is evaluated: a base, an adapter on its base, members of a saved run, or a live run.

Models share one engine, side by side in its slots, and are sampled in one call. Beside adapters
and members, the base is one of the models: a new adapter, which adds nothing to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from redqueen.config.engine import LoraConfig
from redqueen.core.run import Run
from redqueen.engine.protocol import BaseInfo, Engine, EngineSpec, Sampler, create_engine
from redqueen.engine.text_sampler import EngineTextSampler, TextSampler
from redqueen.errors import ConfigError
from redqueen.evaluate.replies import BASE, Model
from redqueen.evaluate.run_members import RunMembers, load_members, select_members
from redqueen.ledger.durable import checksum
from redqueen.ledger.run_reader import RunReader
from redqueen.sandbox import Sandbox
from redqueen.tasks.prompts import PromptFormat, load_prompt_format

if TYPE_CHECKING:
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
    close: Callable[[], None] = lambda: None

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(model for batch in self.batches for model in batch.models)

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
) -> Target:
    """A base by name or place, a folder with adapter_config.json, a run folder, or a member in it.
    `base`: where the base is, if the adapter or the run does not lead to it."""
    if isinstance(source, Run):
        return target_of_run(source, members, world)
    source = source.folder if isinstance(source, RunReader) else source
    selected = select_members(source, members, world)
    if selected is not None:
        return _open_members(selected, base, device, dtype)
    if is_adapter(source):
        return _open_adapter(Path(source).expanduser(), base, device, dtype)
    engine = create_engine("torch", EngineSpec(str(source), 0, device=device, dtype=dtype))
    info = engine.base
    return Target(
        info.name,
        info,
        (Batch(_text_sampler(engine, engine), (Model(BASE),)),),
        load_prompt_format(info.prompt_format),
        info.fingerprint,
        close=engine.close,
    )


def is_adapter(source: str | Path) -> bool:
    return (Path(source).expanduser() / "adapter_config.json").is_file()


def target_of_run(
    run: Run, members: Sequence[str] = (), world: int | None = None, *, with_base: bool = True
) -> Target:
    """The members of a live run: the students, or those that are named."""
    sampler, info = run.ports.sampler, run.engine.base
    models = [
        Model(
            member.id if len(run.worlds) == 1 else f"{place.number}/{member.id}",
            place.slot(member),
            member.id,
            member.role,
            place.number,
            place.arm,
        )
        for place in run.worlds
        if world in (None, place.number)
        for member in place.members
        if (member.id in members if members else member.role != "teacher")
    ]
    groups = [models]
    if not run.mixes_worlds:
        worlds = [place.number for place in run.worlds]
        groups = [[model for model in models if model.world == number] for number in worlds]
    batches = [Batch(sampler, tuple(group)) for group in groups]
    if with_base:
        batches.append(Batch(_text_sampler(run.engine, run.engine.bare()), (Model(BASE),)))
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
    )


def _open_adapter(folder: Path, base: str | None, device: str, dtype: "Dtype") -> Target:
    from redqueen.models.peft_io import base_of, load_adapter

    adapter = load_adapter(folder)
    named, fingerprint = base_of(folder)
    lora = LoraConfig(rank=adapter.rank, alpha=adapter.alpha, targets=adapter.targets)
    spec = EngineSpec(base or named, 2, lora, device=device, dtype=dtype, fingerprint=fingerprint)
    hint = "" if base else "The adapter names that base; give another place of it with --base."
    engine = _create_engine("torch", spec, hint)
    engine.write(0, adapter, reset_optimizer=False)  # slot 1 stays new: it equals the base
    info = engine.base
    models = Model("adapter" if folder.name == BASE else folder.name, 0), Model(BASE, 1)
    return Target(
        folder.name,
        info,
        (Batch(_text_sampler(engine, engine), models),),
        load_prompt_format(info.prompt_format),
        f"{checksum(folder / 'adapter_model.safetensors')} on {info.fingerprint}",
        close=engine.close,
    )


def _open_members(selected: RunMembers, base: str | None, device: str, dtype: "Dtype") -> Target:
    config, step = selected.config, selected.checkpoint.step
    # read first: a run that goes on deletes old checkpoints
    adapters = load_members(selected, base)
    spec = EngineSpec(
        base or config.base,
        len(adapters) + 1,
        config.lora,
        config.engine.model_copy(update={"gradient_checkpointing": False}),
        device,
        config.dtype if dtype == "auto" else dtype,
        fingerprint=selected.fingerprint,
    )
    hint = "" if base else "The run was played on that base; give another place of it with --base."
    engine = _create_engine(config.engine.type, spec, hint)
    for slot, adapter in enumerate(adapters):
        engine.write(slot, adapter, reset_optimizer=False)
    models = [replace(model, slot=slot) for slot, model in enumerate(selected.models)]
    models.append(Model(BASE, len(models)))
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
        close=engine.close,
    )


def _create_engine(name: str, spec: EngineSpec, hint: str) -> Engine:
    try:
        return create_engine(name, spec)
    except ConfigError as error:
        raise ConfigError(f"{error}\n{hint}".rstrip()) from error


def _text_sampler(engine: Engine, sampler: Sampler) -> TextSampler:
    return EngineTextSampler(sampler, engine.tokenizer, engine.base.context)
