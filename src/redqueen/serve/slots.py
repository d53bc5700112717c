"""Which model or sampler sits in which slot of the engine. When all slots are taken, whoever was
not used for longest leaves: a model to its checkpoint on disk, where the page cache keeps it in
memory while there is room; a sampler to nowhere, as its weights are elsewhere."""

from collections.abc import Callable, Collection
from itertools import count

from redqueen.engine.shared import SharedEngine
from redqueen.models.peft_io import load_adapter
from redqueen.serve.commands import Command, ForwardBackward, Refused
from redqueen.serve.losses import bind
from redqueen.serve.restore import unpack_record
from redqueen.serve.state import Model, SamplerWeights
from redqueen.serve.store import MODEL
from redqueen.serve.weights import pad_adapter, shape_adapter

Occupant = Model | SamplerWeights
_PARKED_BYTES = 4e9
"""Of gradients that are kept for models that left, in memory."""


class SlotPool:
    def __init__(
        self,
        engine: SharedEngine,
        park: Callable[[Model, int], None],
        decode: Callable[[str, bytes], Command],
    ) -> None:
        self.engine, self.park, self.decode = engine, park, decode
        """`park` writes a model that is about to leave its slot."""
        self.occupants: list[Occupant | None] = [None] * engine.slots
        self.last_used = [0] * engine.slots
        self._clock = count(1)
        self.parked: dict[str, object] = {}
        """Gradients of models that had to leave before their step, by id, oldest first."""
        self.template = engine.read(0)
        """Of what shape adapters are in slots."""

    def slot_of(self, who: Occupant) -> int | None:
        return next((slot for slot, one in enumerate(self.occupants) if one is who), None)

    def place(self, who: Occupant, pinned: Collection[int] = ()) -> int | None:
        """The slot of a model or a sampler, which is brought in if it is not there. None: all
        others are needed at the moment."""
        slot = self.slot_of(who)
        if slot is None:
            slot = self._free(pinned)
            if slot is None:
                return None
            if isinstance(who, Model):
                self._load_model(who, slot)
            else:
                self._load_sampler(who, slot)
            self.occupants[slot] = who
        self.last_used[slot] = next(self._clock)
        return slot

    def leave(self, who: Occupant) -> None:
        slot = self.slot_of(who)
        if slot is not None:
            self.occupants[slot] = None
            self.last_used[slot] = 0

    def _free(self, pinned: Collection[int]) -> int | None:
        slots = [slot for slot in range(len(self.occupants)) if slot not in pinned]
        if not slots:
            return None

        def cost(slot: int) -> tuple[bool, int]:
            who = self.occupants[slot]
            has_gradients = isinstance(who, Model) and who.has_gradients
            return has_gradients, self.last_used[slot]

        slot = min(slots, key=cost)
        if isinstance(leaving := self.occupants[slot], Model):
            self.park(leaving, slot)
            self._keep_gradients(leaving, slot)
        self.occupants[slot] = None
        return slot

    def _load_model(self, model: Model, slot: int) -> None:
        if model.checkpointed:
            self.engine.load(model.files.checkpoint(model.checkpointed), {slot: MODEL})
        else:
            self.engine.new(slot, model.shape.seed)
            fresh = shape_adapter(self.engine.read(slot), model.shape)
            self.engine.write(slot, fresh, reset_optimizer=True)
        self._restore_gradients(model, slot)

    def _keep_gradients(self, model: Model, slot: int) -> None:
        if not model.has_gradients:
            return
        self.parked[model.id] = self.engine.read_gradients(slot)
        while len(self.parked) * 4 * self.engine.parameters_each > _PARKED_BYTES:
            del self.parked[next(iter(self.parked))]

    def drop_gradients(self, model: Model) -> None:
        """Those that are kept are not to be used: a part of them belongs to a pass that failed."""
        self.parked.pop(model.id, None)

    def _restore_gradients(self, model: Model, slot: int) -> None:
        """Those that wait for a step; if they are not kept, they are computed again from what was
        sent."""
        kept = self.parked.pop(model.id, None)
        if kept is not None:
            self.engine.write_gradients(slot, kept)
            return
        self.engine.clear_gradients([slot])
        for record in model.pending:
            command = self.decode(*unpack_record(record)[1:])
            assert isinstance(command, ForwardBackward)
            self._accumulate(command, len(command.data), slot)
        if begun := model.begun:
            assert isinstance(begun.command, ForwardBackward)
            self._accumulate(begun.command, begun.progress.done, slot)

    def _accumulate(self, command: ForwardBackward, count: int, slot: int) -> None:
        samples = [datum.to_sample(slot) for datum in command.data[:count]]
        self.engine.score(samples, bind(command.loss), backward=True)

    def _load_sampler(self, weights: SamplerWeights, slot: int) -> None:
        adapter = weights.adapter
        if adapter is None:
            if weights.folder is None or not weights.folder.is_dir():
                raise Refused("what this samples from was deleted, or its time is over", 404)
            adapter = load_adapter(weights.folder)
        self.engine.write(slot, pad_adapter(adapter, self.template), reset_optimizer=True)
        self.engine.clear_gradients([slot])
