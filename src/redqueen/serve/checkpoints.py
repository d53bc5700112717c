"""Checkpoints of models, while they are in a slot: what a kill cannot take."""

import logging
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

from redqueen.models.peft_io import save_adapter
from redqueen.serve.state import Model, SamplerWeights
from redqueen.serve.store import MODEL, discard, write_folder, write_json
from redqueen.serve.weights import trim_adapter

if TYPE_CHECKING:
    from redqueen.serve.service import Service

log = logging.getLogger(__name__)
_KEPT_ANSWERS = 8
"""Newest answers that a checkpoint keeps even if they were fetched: the reply may be lost."""
HISTORY_BYTES = 16_000_000
"""Of commands since the checkpoint, which are in memory and in the journal: beyond that there is
another, whatever the number of steps."""


class Checkpoints:
    """Runs in the engine's thread."""

    def __init__(self, service: "Service") -> None:
        self.service, self.engine = service, service.engine

    def read_samplers(self, model: Model, slot: int) -> None:
        """Samplers get weights of their own before the model's change."""
        current = [one for one in model.samplers.values() if one.is_current]
        if current:
            adapter = self.engine.read(slot)
            for one in current:
                one.adapter = adapter

    def park(self, model: Model, slot: int) -> None:
        self.read_samplers(model, slot)
        if model.is_changed:
            self.write(model, slot)

    def write_in_passing(self, model: Model, slot: int) -> None:
        """One that nobody waits for: if the disk has no room, the journal still has everything."""
        try:
            self.write(model, slot)
        except OSError:
            log.exception("no checkpoint of %s: its journal grows", model.id)

    def write(self, model: Model, slot: int, also: dict[str, Any] | None = None) -> None:
        """Weights and optimizer to the disk, and the journal without what is in them. A kill at
        any point leaves either this checkpoint or the one before with all commands since. `also`
        are answers that are not given yet."""
        sequence = model.stepped
        # What came after the last step and left no gradient changed nothing.
        settled = sequence if model.pending else max(sequence, model.executed)
        folder = model.files.checkpoint(sequence)
        if settled > sequence:
            self.read_samplers(model, slot)
        if sequence and not folder.exists():
            write_folder(folder, lambda new: _drop(self.engine.save(new, {slot: MODEL})))
        for one in model.samplers.values():
            if one.adapter is not None:
                self._write_sampler(model, one)
        with self.service.lock:
            answers = {**self._answers(model, settled), **(also or {})}
        model.checkpointed, model.steps_at_checkpoint = sequence, model.steps
        model.settled = settled
        model.write(answers)  # without the lock: others need not wait for it
        with self.service.lock:
            model.history = {n: one for n, one in model.history.items() if n > settled}
            model.history_bytes = sum(map(len, model.history.values()))
            # While somebody appends this would wait: next time, unless somebody always does.
            if not model.reserved or model.journal.size > 2 * HISTORY_BYTES:
                waiting = {one.sequence: one.record for one in model.waiting.values()}
                records = model.history | waiting | model.reserved
                model.journal.keep(records[number] for number in sorted(records))
        model.files.sweep(sequence, [one.id for one in model.samplers.values()])

    def save_unsaved(self, model: Model, slot: int | None) -> None:
        """The last step becomes a checkpoint with a name, if nothing that was saved has it. Whether
        that fits into the quota is not asked: the checkpoint without a name goes when the model
        ends."""
        saved = max((one.sequence for one in model.saved.all() if one.kind == "weights"), default=0)
        if not model.steps or saved >= model.stepped:
            return
        if model.is_changed and slot is not None:
            self.write(model, slot)
        last, about = model.files.checkpoint(model.stepped), model.shape.describe()

        def write(folder: Path) -> None:
            copytree(last, folder, dirs_exist_ok=True)

        name = f"unsaved-{model.stepped}"
        model.saved.add("weights", name, model.stepped, {"metadata": {}, **about}, None, write)

    def end(self, model: Model) -> None:
        """Remove what was not saved."""
        service = self.service
        with service.lock:
            for id_ in model.samplers:
                service.samplers.pop(id_, None)
            model.samplers.clear()
            model.history.clear()
            model.forget_gradients()
            model.stepped = model.checkpointed = model.history_bytes = 0
            model.settled = model.executed
        service.sampling.drop_replaced(model)
        if any(model.saved.all()):
            model.write({})
            model.journal.keep(())
            model.files.sweep(0, ())
        else:
            with service.lock:
                del service.models[model.id]
            discard(model.files.folder)

    def _write_sampler(self, model: Model, weights: SamplerWeights) -> None:
        assert weights.adapter is not None
        adapter, base = trim_adapter(weights.adapter, model.shape), self.engine.base
        place = model.files.sampler(weights.id)

        def write(folder: Path) -> None:
            save_adapter(adapter, folder, base=base.name, fingerprint=base.fingerprint)
            write_json(folder / "about.json", {"id": weights.id})

        write_folder(place, write)
        weights.folder, weights.adapter = place, None

    def _answers(self, model: Model, sequence: int) -> dict[str, Any]:
        """Of commands in the checkpoint, which no replay will answer again."""
        answers = dict[str, Any]()
        for number in range(max(1, sequence - 64), sequence + 1):
            future = self.service.futures.futures.get(model.request_id(number))
            recent = number > sequence - _KEPT_ANSWERS
            if future is not None and future.result is not None and (recent or not future.fetched):
                answers[str(number)] = future.result
        return answers


def _drop(value: object) -> None:
    """A result that nobody needs."""
