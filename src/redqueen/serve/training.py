"""Carries out the commands of models: those of all tenants that are ready, in as few passes as
their losses allow."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.errors import EngineError, RedQueenError
from redqueen.models.peft_io import load_adapter, save_adapter
from redqueen.serve.checkpoints import HISTORY_BYTES, Checkpoints
from redqueen.serve.commands import (
    ForwardBackward,
    LoadWeights,
    LossSettings,
    OptimStep,
    Refused,
    SaveWeights,
    Skip,
    Snapshot,
)
from redqueen.serve.losses import bind
from redqueen.serve.shares import Work
from redqueen.serve.slots import SlotPool
from redqueen.serve.state import Model, Queued
from redqueen.serve.store import MODEL
from redqueen.serve.weights import pad_adapter, trim_adapter

if TYPE_CHECKING:
    from redqueen.serve.service import Service

log = logging.getLogger(__name__)
_SAVED = {
    "weights": "save_weights",
    "sampler_weights": "save_weights_for_sampler",
    "external_weights": "save_weights_external",
}


class Trainer:
    """Runs in the engine's thread."""

    def __init__(self, service: "Service", checkpoint_every: int) -> None:
        self.service, self.engine = service, service.engine
        self.checkpoint_every, self.checkpoints = checkpoint_every, Checkpoints(service)
        self.slots = SlotPool(self.engine, self.checkpoints.park, service.decode)
        self.passes: list[int] = []
        """Models in each training pass, for whoever measures."""

    def run(self, works: Sequence[Work]) -> None:
        """One command of each model."""
        placed: dict[int, tuple[Work, int]] = {}
        pinned: set[int] = set()
        for work in works:
            slot = self._attempt(work, lambda model, queued: self._admit(model, queued, pinned))
            if slot is None:
                self._put_back(work)
            else:
                pinned.add(slot)
                placed[id(work[0])] = work, slot
        groups: dict[tuple[LossSettings, bool], list[tuple[Work, int]]] = {}
        steps: list[tuple[Work, int]] = []
        for work, slot in placed.values():
            command = work[1].command
            if isinstance(command, ForwardBackward):
                groups.setdefault((command.loss, command.backward), []).append((work, slot))
            elif isinstance(command, OptimStep):
                steps.append((work, slot))
            else:
                self._attempt(work, self._one)
        for (loss, backward), group in groups.items():
            self._pass(group, loss, backward)
        if steps:
            self._step(steps)
        for (model, _), slot in placed.values():
            if model.history_bytes > HISTORY_BYTES and not model.pending:
                self.checkpoints.write_in_passing(model, slot)

    def _admit(self, model: Model, queued: Queued, pinned: set[int]) -> int | None:
        if isinstance(queued.command, ForwardBackward) and queued.command.backward:
            self.service.quotas.check_step(model.pending_tokens, queued.command.tokens)
        return self.slots.place(model, pinned)

    def keep(self, model: Model) -> bool:
        """What a model has learned outlives a client of which nothing is heard any more. False: the
        disk does not take it at the moment."""
        try:
            self.checkpoints.save_unsaved(model, self.slots.slot_of(model))
        except OSError:
            log.exception("%s goes on: there is no room for what it has not saved", model.id)
            return False
        return True

    def end(self, model: Model) -> None:
        """Its session is over: what was saved is left of it, if anything was."""
        self.slots.leave(model)
        self.slots.drop_gradients(model)
        try:
            self.checkpoints.end(model)
        except OSError:
            log.exception("could not remove what %s has not saved", model.id)

    # passes

    def _pass(self, group: list[tuple[Work, int]], loss: LossSettings, backward: bool) -> None:
        """Forward and backward of equal losses, together; where that fails, one by one, so that
        nobody fails for another's request."""
        before = self._gradients(group) if backward else {}
        try:
            self._score(group, loss, backward)
            return
        except EngineError:
            raise
        except Exception:  # a custom loss may raise anything
            if len(group) > 1:
                log.exception("a shared pass failed: its requests run one by one")
        for work, slot in group:
            self._restore(before, slot)
            self._attempt(work, self._alone(work, slot, loss, backward))

    def _gradients(self, group: list[tuple[Work, int]]) -> dict[int, object]:
        """By slot, as they are before a pass; None where there are none."""
        before: dict[int, object] = {}
        for (model, queued), slot in group:
            before[slot] = self.engine.read_gradients(slot) if model.has_gradients else None
            if not queued.progress.done:
                queued.progress.before = before[slot]
        return before

    def _restore(self, before: Mapping[int, object], slot: int) -> None:
        gradients = before.get(slot)
        if gradients is not None:
            self.engine.write_gradients(slot, gradients)
        elif slot in before:
            self.engine.clear_gradients([slot])

    def _alone(
        self, work: Work, slot: int, loss: LossSettings, backward: bool
    ) -> Callable[[Model, Queued], None]:
        """One request by itself. If it fails, nothing is left of it, nor of its parts before."""

        def run(model: Model, queued: Queued) -> None:
            try:
                self._score([(work, slot)], loss, backward)
            except Exception:
                if backward:
                    self._restore({slot: queued.progress.before}, slot)
                raise

        return run

    def _score(self, group: list[tuple[Work, int]], loss: LossSettings, backward: bool) -> None:
        samples, counts = [], []
        for (_, queued), slot in group:
            assert isinstance(queued.command, ForwardBackward)
            part = slice(queued.progress.done, queued.progress.until)
            own = [datum.to_sample(slot) for datum in queued.command.data[part]]
            samples += own
            counts.append(len(own))
        scored = self.engine.score(samples, bind(loss), backward=backward)
        self.passes.append(len(group))
        start = 0
        for (work, slot), count in zip(group, counts, strict=True):
            progress = work[1].progress
            progress.logprobs += scored.logprobs[start : start + count]
            progress.loss += scored.losses.get(slot, 0.0)
            progress.done = progress.until
            start += count
            self._scored(work)

    def _scored(self, work: Work) -> None:
        """The answer to a pass, or, after a part of it, another turn."""
        model, queued = work
        command, progress = queued.command, queued.progress
        assert isinstance(command, ForwardBackward)
        if progress.done < len(command.data):
            self._put_back(work)
            return
        if command.backward:
            model.pending.append(queued.record)
            model.pending_tokens += command.tokens
        metrics = {"loss:sum": progress.loss if math.isfinite(progress.loss) else math.nan}
        logprobs = tuple(progress.logprobs)
        result = {"type": "forward_backward", "logprobs": logprobs, "metrics": metrics}
        self._finish(model, queued, result)

    def _step(self, group: list[tuple[Work, int]]) -> None:
        settings = {}
        for (model, queued), slot in group:
            assert isinstance(queued.command, OptimStep)
            settings[slot] = queued.command.settings
            self.checkpoints.read_samplers(model, slot)
        stats = self.engine.step_only(settings)
        for (model, queued), slot in group:
            model.forget_gradients()
            norm = stats.grad_norms[slot]
            model.stepped = queued.sequence
            if slot in stats.diverged:
                self._fail(
                    model,
                    queued,
                    "the gradient is not finite: nothing was changed, and the gradient is cleared. "
                    "Lower the learning rate, or look for infinities in advantages and logprobs.",
                )
                continue
            model.steps += 1
            metrics = {"grad_norm": norm, "step": float(model.steps)}
            self._finish(model, queued, {"type": "optim_step", "metrics": metrics})
            if model.steps - model.steps_at_checkpoint >= self.checkpoint_every:
                self.checkpoints.write_in_passing(model, slot)

    # one model

    def _one(self, model: Model, queued: Queued) -> None:
        slot = self.slots.slot_of(model)
        assert slot is not None
        command = queued.command
        if isinstance(command, Skip):
            self._fail(model, queued, command.reason)
        elif isinstance(command, Snapshot):
            self.service.sampling.take(model, command.sampler)
            result = {"type": "save_weights_for_sampler", "sampling_session_id": command.sampler}
            self._finish(model, queued, result)
        elif isinstance(command, SaveWeights):
            self._save(model, slot, command, queued.sequence)
            self.service.sampling.drop_replaced(model)
            path = f"tinker://{model.id}/{command.kind}/{command.name}"
            self._finish(model, queued, {"type": _SAVED[command.kind], "path": path})
        else:
            assert isinstance(command, LoadWeights)
            self._load(model, slot, command)
            model.stepped = queued.sequence
            result = {"type": "load_weights", "path": command.path, "model_id": model.id}
            # What it was loaded from may be deleted later: it is not loaded again after a kill.
            self.checkpoints.write(model, slot, {str(queued.sequence): result})
            self._finish(model, queued, result)

    def _save(self, model: Model, slot: int, command: SaveWeights, sequence: int) -> None:
        if before := model.saved.current(command.kind, command.name):
            if before.sequence >= sequence:  # after a kill: it was saved already
                return
            if not command.overwrite:
                raise Refused(
                    f"{command.kind}/{command.name} is there already: save with overwrite=True, or "
                    "under another name"
                )
        factor = 3 if command.kind == "weights" else 1
        needed = factor * 4 * self.engine.parameters_each
        self.service.disk.check(model.tenant, needed, fresh=True)

        def write(folder: Path) -> None:
            if command.kind == "weights":
                self.engine.save(folder, {slot: MODEL})
            else:
                self._write_adapter(model, slot, folder)

        about = {"metadata": dict(command.metadata), **model.shape.describe()}
        model.saved.add(command.kind, command.name, sequence, about, command.ttl_s, write)

    def _write_adapter(self, model: Model, slot: int, folder: Path) -> None:
        trimmed = trim_adapter(self.engine.read(slot), model.shape)
        base = self.engine.base
        save_adapter(trimmed, folder, base=base.name, fingerprint=base.fingerprint)

    def _load(self, model: Model, slot: int, command: LoadWeights) -> None:
        save = self.service.saved(model.tenant, command.path)
        folder, about = save.folder, save.about
        own = model.shape.describe()
        if any(about[name] != value for name, value in own.items()):
            saved, here = (
                f"rank {shape['rank']}, train_attn={shape['train_attn']}, "
                f"train_mlp={shape['train_mlp']}"
                for shape in (about, own)
            )
            raise Refused(
                f"{command.path} was saved with {saved}, and this model has {here}: weights are "
                "loaded into a model of the same shape"
            )
        self.checkpoints.read_samplers(model, slot)
        inner = folder / "adapters" / MODEL
        if command.optimizer:
            if not inner.is_dir():
                raise Refused(f"{command.path} holds no optimizer state: load it without")
            self.engine.load(folder, {slot: MODEL})
        else:
            adapter = load_adapter(inner if inner.is_dir() else folder)
            padded = pad_adapter(adapter, self.slots.template)
            self.engine.write(slot, padded, reset_optimizer=True)
        self.engine.clear_gradients([slot])
        model.forget_gradients()

    # results

    def _attempt(self, work: Work, do: Callable[[Model, Queued], Any]) -> Any:
        """What goes wrong with one command is its own answer."""
        model, queued = work
        try:
            return do(model, queued)
        except EngineError:
            raise
        except RedQueenError as error:
            self._fail(model, queued, str(error))
        except Exception as error:  # a custom loss may raise anything
            log.exception("command %s of %s failed", queued.sequence, model.id)
            self._fail(model, queued, f"{type(error).__name__}: {error}", "server")
        return None

    def _put_back(self, work: Work) -> None:
        with self.service.lock:
            work[0].busy = False

    def _finish(self, model: Model, queued: Queued, result: dict[str, Any]) -> None:
        self.service.finish(model, queued, result)

    def _fail(self, model: Model, queued: Queued, message: str, category: str = "user") -> None:
        if queued.begun:
            self.slots.drop_gradients(model)
        self.service.finish(model, queued, {"error": message, "category": category})
