"""Sessions of clients, and what goes with them when they end.

A client sends a heartbeat every ten seconds. After five minutes without one its session counts no
more against quotas, but goes on with the next heartbeat: computers sleep, and servers are
restarted. It ends for good when the client says so: its samplers go then, and what its models have
not saved. After a day of silence it ends too, but what its models have learned is saved before.
"""

import logging
import time
import uuid
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from redqueen.serve.commands import Refused
from redqueen.serve.state import Model, Session, long_ago
from redqueen.serve.tenant_folders import ENTRY_BYTES

if TYPE_CHECKING:
    from redqueen.serve.service import Service
    from redqueen.serve.tenant_folders import Entry
    from redqueen.serve.training import Trainer

log = logging.getLogger(__name__)
SILENT_S = 24 * 3600.0
_AGAIN_S = 600.0
"""After which the end of a silent session is tried again, if the disk was full."""
_ENDED = 256
_GROWN = 64
"""Entries more than are needed, and more than needed ones twice over: the journal is written
anew."""


class Sessions:
    def __init__(self, service: "Service") -> None:
        self.service = service
        self.all: dict[str, Session] = {}
        self._ended = defaultdict[str, deque[str]](lambda: deque(maxlen=_ENDED))
        """The newest that were forgotten, by tenant."""

    def create(self, tenant: str) -> str:
        service, id_ = self.service, uuid.uuid4().hex
        place = service.tenants[tenant]
        service.disk.check(tenant, ENTRY_BYTES)
        with place.lock:
            with service.lock:
                own = self._of(tenant)
                service.quotas.check_sessions(sum(one.alive for one in own))
                spare = self._spare(own)
                for old in spare:
                    self._forget(old)
                session = self.all[id_] = Session(id_, tenant)
            try:
                place.log(session.entry(), *({"over": old.id} for old in spare))
            except OSError:
                with service.lock:
                    del self.all[id_]
                raise
        self.compact(tenant)
        return id_

    def of(self, tenant: str) -> list[str]:
        with self.service.lock:
            return [one.id for one in self._of(tenant) if not one.over]

    def _of(self, tenant: str) -> list[Session]:
        return [one for one in self.all.values() if one.tenant == tenant]

    def find(self, tenant: str, id_: object, status: int = 404) -> Session:
        session = self.all.get(id_) if isinstance(id_, str) else None
        if session is None or session.tenant != tenant or session.over:
            raise Refused(
                f"you have no session {str(id_)[:80]!r}. One ends when its client is closed, or "
                "after a day without a heartbeat. Make a new client, and load what you saved; what "
                "was not saved after that day is weights/unsaved-N of the model.",
                status,
            )
        return session

    def heartbeat(self, tenant: str, id_: object) -> None:
        self.find(tenant, id_, 410).touch()  # so that the SDK sends no more

    def is_alive(self, id_: str) -> bool:
        session = self.all.get(id_)
        return session is not None and session.alive

    def finish(self, tenant: str, id_: str) -> None:
        """It ends as soon as what was acknowledged is carried out. A request that is repeated, as
        its answer was lost, changes nothing."""
        place = self.service.tenants[tenant]
        with place.lock:
            if self._has_ended(tenant, id_):
                return
            session = self.find(tenant, id_)
            place.log({"over": id_})
            with self.service.lock:
                session.over = True
                self.service.lock.notify_all()

    def _has_ended(self, tenant: str, id_: str) -> bool:
        session = self.all.get(id_)
        if session is None:
            return id_ in self._ended[tenant]
        return session.tenant == tenant and session.over

    # the end. In the engine's thread, without the service's lock: folders are removed

    def sweep(self, trainer: "Trainer") -> None:
        """End sessions that are over, and those of which nothing was heard for a day."""
        with self.service.lock:
            ending = [one for one in self.all.values() if one.over or _is_silent(one)]
        ended = [one for one in ending if self._end(one, trainer)]
        for tenant in {one.tenant for one in ended}:
            self.compact(tenant, now=True)

    def _end(self, session: Session, trainer: "Trainer") -> bool:
        """False: another time."""
        with self.service.lock:
            closed, models = session.over, self._models_of(session)
            if self._is_busy(session, models):
                return False  # what was acknowledged is carried out
        if not closed and not all(trainer.keep(model) for model in models):
            session.seen = max(session.seen, time.monotonic() - SILENT_S + _AGAIN_S)
            return False
        with self.service.lock:
            if not closed and (session.over or not _is_silent(session)):
                return False  # its client has come back
            session.over = True
            for model in models:
                model.over = True
        for model in models:
            trainer.end(model)
        with self.service.lock:
            self._forget(session)
        return True

    def compact(self, tenant: str, *, now: bool = False) -> None:
        """Write the journal anew if most of it is of sessions that are over. It says the same as
        before: if the disk is full, it only stays long."""
        place = self.service.tenants[tenant]
        if not now and place.count <= _GROWN:
            return
        with place.lock:
            with self.service.lock:
                entries = [entry for one in self._of(tenant) for entry in one.entries()]
            if (now and place.count != len(entries)) or place.count > 2 * len(entries) + _GROWN:
                try:
                    place.keep(entries)
                except OSError:
                    log.exception("the journal of sessions of %s was not written anew", tenant)

    def expect(self, tenant: str, id_: str) -> None:
        """One that has a model."""
        if id_ not in self.all:
            self.all[id_] = Session(id_, tenant, long_ago())

    def restore(self, tenant: str, entries: "list[Entry]") -> None:
        """As they are in the journal. None is alive until it is heard from."""
        for entry in entries:
            if "session" in entry:
                id_ = str(entry["session"])
                self.all[id_] = Session(id_, tenant, long_ago())
            elif (session := self.all.get(str(entry.get("over")))) is not None:
                session.over = True

    def _models_of(self, session: Session) -> list[Model]:
        models = self.service.models.values()
        return [one for one in models if one.session == session.id and not one.over]

    def _is_busy(self, session: Session, models: list[Model]) -> bool:
        """Whether anything of it is still to be carried out: commands, or samples from weights of
        its own."""
        ids = [*session.samplers, *(id_ for model in models for id_ in model.samplers)]
        weights = [self.service.samplers[id_] for id_ in ids if id_ in self.service.samplers]
        sampling = any(one.tasks for one in weights if one is not self.service.base)
        return sampling or any(one.waiting or one.reserved or one.busy for one in models)

    def _spare(self, own: list[Session]) -> list[Session]:
        """Those that make room for another one: their clients are silent and have no model."""
        surplus = len(own) + 1 - self.service.quotas.sessions
        if surplus <= 0:
            return []
        silent = [one for one in own if not one.alive and not self._models_of(one)]
        return sorted(silent, key=lambda one: one.seen)[:surplus]

    def _forget(self, session: Session) -> None:
        self.all.pop(session.id, None)
        self._ended[session.tenant].append(session.id)
        for id_ in session.samplers:
            self.service.samplers.pop(id_, None)


def _is_silent(session: Session) -> bool:
    return time.monotonic() - session.seen > SILENT_S
