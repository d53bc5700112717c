"""Tenants, sessions, models and samplers: what may be asked, in which order, and what was answered.
No HTTP here, and no thread but the engine's (worker.py).

Every command of a model is in its journal, on the disk, before its request is acknowledged. A
server that was killed carries out what is there again, and answers under the same ids: clients that
repeat their requests notice nothing.
"""

import threading
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from redqueen.config.engine import LoraConfig
from redqueen.engine.shared import SharedEngine
from redqueen.rng import seed_for
from redqueen.serve.commands import Command, ModelShape, Refused, SampleOrder
from redqueen.serve.disk import DiskUse
from redqueen.serve.futures import Future, FutureTable
from redqueen.serve.journal import Journal
from redqueen.serve.losses import check_importable
from redqueen.serve.quotas import Quotas
from redqueen.serve.restore import open_tenant, pack_record, pack_skip
from redqueen.serve.sampling import SampleQueue
from redqueen.serve.sampling_sessions import SamplingSessions
from redqueen.serve.saved import Save
from redqueen.serve.sessions import Sessions
from redqueen.serve.state import (
    TOKEN_BYTES,
    Model,
    Queued,
    SamplerWeights,
    SampleTask,
    Sequence,
)
from redqueen.serve.store import (
    ModelFolder,
    open_server_folder,
    parse_path,
)
from redqueen.serve.tenant_folders import TenantFolder

BASE = "base"
Decode = Callable[[str, bytes], Command]
"""Reads a command of a kind from the bytes it was sent as."""
_SMALL, _SPARE = 65_536, 0.05
"""A step frees some disk: small ones are always taken, and other small commands up to this much
beyond the quota."""


class Service:
    def __init__(
        self,
        engine: SharedEngine,
        lora: LoraConfig,
        folder: Path,
        tenants: Collection[str],
        decode: Decode,
        quotas: Quotas | None = None,
        losses: Collection[str] = (),
        max_num_seqs: int = 256,
    ) -> None:
        self.engine, self.lora, self.folder = engine, lora, folder
        self.decode, self.quotas = decode, quotas or Quotas()
        self.losses, self.max_num_seqs = frozenset(losses), max_num_seqs
        for loss in losses:
            check_importable(loss)
        self.lock = threading.Condition(threading.RLock())
        self.futures, self.queue = FutureTable(), SampleQueue()
        self.sessions, self.sampling = Sessions(self), SamplingSessions(self)
        self.models: dict[str, Model] = {}
        self.samplers: dict[str, SamplerWeights] = {}
        self.members: dict[str, SamplerWeights] = {}
        """Of a run, by name: everybody may sample from them."""
        self.active: dict[str, float] = {}
        """When each tenant was answered last."""
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self.base = SamplerWeights(BASE, None, adapter=_bare(engine))
        about = {"base": engine.base.fingerprint, "rank": lora.rank, "alpha": lora.alpha}
        open_server_folder(folder, {**about, "targets": list(lora.targets)})
        self.tenants = {name: TenantFolder(folder / name) for name in tenants}
        self.disk = DiskUse({name: folder / name for name in tenants}, self.quotas)
        for name, place in self.tenants.items():
            open_tenant(self, name, place)

    # models

    def create_model(
        self, tenant: str, session: str, number: int, shape: ModelShape, metadata: Any = None
    ) -> Model:
        self.sessions.find(tenant, session)
        if not 1 <= shape.rank <= self.lora.rank:
            raise Refused(
                f"this server has adapters of rank {self.lora.rank} at most; got {shape.rank}. "
                "Take less, or have it started with a larger --rank."
            )
        id_ = f"{session}:train:{number}"
        if id_ not in self.models:  # before the lock: it may walk over many files
            self.disk.check(tenant, 12 * self.engine.parameters_each)
        with self.lock:
            if id_ in self.models:  # the request was repeated
                return self.models[id_]
            owner = self.sessions.find(tenant, session)  # it may have ended meanwhile
            own = self._models_of(tenant)
            alive = [one for one in own if self.sessions.is_alive(one.session)]
            self.quotas.check_models(len(alive), len(own))
            owner.touch()
            files = ModelFolder(self.tenants[tenant].model_folder(id_))
            journal = Journal(files.folder / "journal")
            model = Model(id_, tenant, session, shape, files, journal, metadata or {})
            model.write({})
            self.models[id_] = model
        return model

    def model(self, tenant: str, id_: Any) -> Model:
        model = self.models.get(id_) if isinstance(id_, str) else None
        if model is None or model.tenant != tenant:
            raise Refused(f"you have no model {str(id_)[:120]!r}", 404)
        return model

    def _models_of(self, tenant: str) -> list[Model]:
        return [model for model in self.models.values() if model.tenant == tenant]

    def models_of(self, tenant: str) -> list[Model]:
        with self.lock:
            return self._models_of(tenant)

    def submit(self, tenant: str, model_id: Any, sequence: Any, kind: str, body: bytes) -> Future:
        """A command takes its place in the order of its model. Returns when it is on the disk."""
        model = self.model(tenant, model_id)
        if not isinstance(sequence, int) or not 1 <= sequence < 1 << 31:
            raise Refused(f"seq_id counts a model's requests from 1; got {sequence!r}")
        if sequence > model.executed + self.quotas.requests_in_flight:
            raise Refused(f"request {sequence} is far ahead: {model.executed} were answered", 429)
        try:
            command = self.decode(kind, body)
            is_small, is_step = len(body) <= _SMALL, kind == "optim_step"
            if not (is_step and is_small):
                spare = _SPARE * self.quotas.disk_mb if is_small else 0.0
                self.disk.check(tenant, len(body), spare_mb=spare)
            if not is_step:
                self.quotas.check_unsettled(model.unsettled_bytes)
            record = pack_record(sequence, kind, body)
        except Refused as error:  # it keeps its place, or those after it would wait for ever
            command, record = pack_skip(sequence, error)
        tokens = max(command.tokens, len(record) // TOKEN_BYTES)
        id_ = model.request_id(sequence)
        with self.lock:
            while sequence in model.reserved:  # sent twice at once: not answered before it is safe
                self.lock.wait()
            known = self.futures.find(id_, tenant)
            if known is not None:  # the request was repeated
                return known
            if sequence <= model.executed:
                return Future(id_, tenant)  # answered long ago
            load = self.futures.tokens.get(tenant, 0), self.futures.requests.get(tenant, 0)
            try:
                self.quotas.check_load(tokens, *load)
            except Refused as error:
                if error.status != 413:
                    raise
                command, record = pack_skip(sequence, error)
                tokens = 0
            self.sessions.find(tenant, model.session, 410).touch()
            future = self.futures.add(id_, tenant, tokens)
            model.reserved[sequence] = record
        try:
            model.journal.append([record])
        except OSError as error:
            with self.lock:
                del model.reserved[sequence]
                self.futures.fail(future, "")
                self.futures.forget(future)
                self.lock.notify_all()
            raise Refused(f"the server's disk: {error.strerror}", 503) from error
        with self.lock:
            del model.reserved[sequence]
            model.waiting[sequence] = Queued(sequence, command, future, record)
            model.last_used = time.monotonic()
            self.lock.notify_all()
        return future

    def finish(self, model: Model, queued: Queued, result: dict[str, Any]) -> None:
        """A command was carried out, or failed."""
        with self.lock:
            if model.executed >= queued.sequence:
                return
            model.waiting.pop(queued.sequence, None)
            model.executed, model.busy = queued.sequence, False
            model.history[queued.sequence] = queued.record
            model.history_bytes += len(queued.record)
            self.active[model.tenant] = time.monotonic()
            self.futures.resolve(queued.future, result)

    def answer_at_once(self, tenant: str, id_: str, result: dict[str, Any]) -> Future:
        with self.lock:
            future = self.futures.find(id_, tenant) or self.futures.add(id_, tenant)
            self.futures.resolve(future, result)
        return future

    # samples

    def sample(
        self, tenant: str, weights: SamplerWeights, order: SampleOrder, on_piece: Any = None
    ) -> Future:
        room = self.engine.base.context - len(order.prompt)
        if not order.prompt or room < 1:
            raise Refused(
                f"the prompt has {len(order.prompt)} tokens; this model has a context of "
                f"{self.engine.base.context}"
            )
        if order.max_tokens is not None and order.max_tokens > room:
            raise Refused(
                f"{len(order.prompt)} prompt tokens and max_tokens={order.max_tokens} are more "
                f"than the context of {self.engine.base.context}"
            )
        max_tokens = order.max_tokens or room
        stop_tokens = order.stop_tokens
        if stop_tokens is None:
            stop_tokens = frozenset() if order.stop_texts else self.engine.tokenizer.stops(())[0]
        id_ = f"{weights.id}:{uuid.uuid4().hex}"
        tokens = len(order.prompt) + order.count * max_tokens
        with self.lock:
            load = self.futures.tokens.get(tenant, 0), self.futures.requests.get(tenant, 0)
            self.quotas.check_load(tokens, *load)
            future = self.futures.add(id_, tenant, tokens)
            future.cancelable = True
            task = SampleTask(future, order, weights, max_tokens, stop_tokens, order.stop_texts)
            task.on_piece = on_piece
            seed = uuid.uuid4().int & ((1 << 63) - 1) if order.seed is None else order.seed
            task.sequences = [
                Sequence(task, seed_for(seed, "sample", number)) for number in range(order.count)
            ]
            weights.tasks += 1
            # However it ends: answered, failed, or canceled while it waits.
            future.callbacks.append(weights.release)
            self.queue.add(task)
            self.lock.notify_all()
        return future

    def finish_sample(self, task: SampleTask) -> None:
        if task.done or task.future.done:
            self.active[task.future.tenant] = time.monotonic()
        if task.done:
            self.futures.resolve(task.future, task.to_result())

    def cancel(self, tenant: str, id_: Any) -> None:
        """Nobody waits for these samples any more."""
        with self.lock:
            future = self.futures.find(id_, tenant) if isinstance(id_, str) else None
            if future is not None and future.cancelable:
                self.futures.fail(future, "canceled")

    # what is saved

    def saved(self, tenant: str, path: Any) -> Save:
        model_id, kind, name = parse_path(path)
        save = self.model(tenant, model_id).saved.current(kind, name)
        if save is None:
            raise Refused(f"there is nothing at {path}: it was deleted, or its time is over", 404)
        return save


def _bare(engine: SharedEngine) -> Any:
    """An adapter that adds nothing."""
    engine.new(0, 0)
    return engine.read(0)
