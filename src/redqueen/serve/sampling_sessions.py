"""Sampling sessions: samplers of saved weights or of the base, and those of a model's moment that
have no name."""

import logging
import time
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from redqueen.serve.commands import Refused, Snapshot
from redqueen.serve.state import SESSION_S, Model, Opened, SamplerWeights, long_ago
from redqueen.serve.store import MODEL, discard, parse_path
from redqueen.serve.tenant_folders import ENTRY_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from redqueen.serve.service import Service
    from redqueen.serve.state import Session
    from redqueen.serve.tenant_folders import Entry

log = logging.getLogger(__name__)


class SamplingSessions:
    def __init__(self, service: "Service") -> None:
        self.service = service
        self._by_path: WeakValueDictionary[str, SamplerWeights] = WeakValueDictionary()
        """By folder, as long as they are in a slot or asked for."""

    def create(self, tenant: str, session: str, number: int, path: str | None) -> str:
        service = self.service
        service.sessions.find(tenant, session)
        id_, place = f"{session}:sample:{number}", service.tenants[tenant]
        service.disk.check(tenant, ENTRY_BYTES)
        with place.lock:
            with service.lock:
                if id_ in service.samplers:  # the request was repeated
                    return id_
                owner = service.sessions.find(tenant, session)  # it may have ended meanwhile
                weights, sequence = self._of_path(tenant, id_, path)
                self._make_room(tenant)
                owner.touch()
                # From now on its folder stays.
                opened = owner.samplers[id_] = Opened(id_, path, sequence)
                service.samplers[id_] = weights
            try:
                place.log(opened.entry())
            except OSError:
                with service.lock:
                    self._forget(owner, id_)
                raise
        service.sessions.compact(tenant)
        return id_

    def find(self, tenant: str, id_: object) -> SamplerWeights:
        weights = self.service.samplers.get(id_) if isinstance(id_, str) else None
        if weights is None and self._is_coming(tenant, id_):
            raise Refused("this sampler is not taken yet: ask again in a moment", 503)
        session = self.service.sessions.all.get(str(id_).partition(":")[0])
        if weights is None or session is None or session.tenant != tenant or session.over:
            quotas = self.service.quotas
            raise Refused(
                f"you have no sampler {str(id_)[:120]!r}. The newest {quotas.samplers} unnamed "
                "ones of a model live, and as many of weights that were saved over: name those "
                f"that are to stay. Of others the {quotas.sampling_sessions} that were used last "
                "live, until their client's session ends.",
                404,
            )
        session.touch()
        if opened := session.samplers.get(str(id_)):
            opened.used = time.monotonic()
        return weights

    def by_path(self, tenant: str, path: str) -> SamplerWeights:
        """For requests that name a path: all that name it share a slot."""
        with self.service.lock:
            weights, _ = self._of_path(tenant, path, path)
            return self._by_path.setdefault(str(weights.folder), weights)

    def _of_path(
        self, tenant: str, id_: str, path: str | None
    ) -> tuple[SamplerWeights, int | None]:
        if path is None:
            return self.service.base, None
        save = self.service.saved(tenant, path)
        return _weights_of(tenant, id_, save.folder), save.sequence

    def _is_coming(self, tenant: str, id_: object) -> bool:
        """Whether a command that waits makes this sampler: after a restart it was there before."""
        with self.service.lock:
            models = self.service.models_of(tenant)
            waiting = [one for model in models for one in model.waiting.values()]
        commands = (one.command for one in waiting)
        return any(isinstance(one, Snapshot) and one.sampler == id_ for one in commands)

    def _make_room(self, tenant: str) -> None:
        """For one more: those that were not used for longest go, if that was a while ago."""
        own = [
            (opened.used, session, id_)
            for session in self.service.sessions.all.values()
            if session.tenant == tenant
            for id_, opened in session.samplers.items()
        ]
        surplus = max(0, len(own) + 1 - self.service.quotas.sampling_sessions)
        for used, session, id_ in sorted(own, key=lambda one: one[0])[:surplus]:
            if time.monotonic() - used < SESSION_S:
                self.service.quotas.refuse_sampler(len(own))
            self._forget(session, id_)

    def _forget(self, session: "Session", id_: str) -> None:
        session.samplers.pop(id_, None)
        self.service.samplers.pop(id_, None)

    # of a model

    def take(self, model: Model, id_: str) -> None:
        """One of the weights as they are now."""
        service = self.service
        with service.lock:
            weights = SamplerWeights(id_, model.tenant, model)
            model.samplers[id_] = service.samplers[id_] = weights
            surplus = len(model.samplers) - service.quotas.samplers
            idle = [one for one in model.samplers.values() if not one.tasks and one is not weights]
            for old in idle[: max(surplus, 0)]:
                del model.samplers[old.id]
                service.samplers.pop(old.id, None)

    def drop_replaced(self, model: Model) -> None:
        """Remove weights that were saved over and that nobody samples from; of the others the
        oldest, if they are too many. In the engine's thread."""
        service, folders = self.service, model.saved.replaced()
        with service.lock:
            replaced = {folder: self._users(folder) for folder in folders}
            used = [folder for folder, users in replaced.items() if users]
            idle = [one for one in used if not any(user.tasks for user in replaced[one])]
            surplus = idle[: max(0, len(used) - service.quotas.samplers)]
            for user in (user for folder in surplus for user in replaced[folder]):
                if session := service.sessions.all.get(user.id.partition(":")[0]):
                    self._forget(session, user.id)
            gone = [one for one, users in replaced.items() if not users or one in surplus]
        for folder in gone:  # nobody can ask for it any more
            try:
                discard(folder)
            except OSError:  # the disk, or somebody else has just done it: another time
                log.exception("could not remove %s, which was saved over", folder)

    def _users(self, folder: "Path") -> list[SamplerWeights]:
        users = [*self.service.samplers.values(), *self._by_path.values()]
        return [
            one for one in users
            if one.folder is not None and folder in (one.folder, *one.folder.parents)
        ]  # fmt: skip

    # after a restart

    def restore(self, tenant: str, entries: "list[Entry]") -> None:
        for entry in entries:
            id_, path = entry.get("sampler"), entry.get("path")
            session = self.service.sessions.all.get(str(id_).partition(":")[0])
            if not isinstance(id_, str) or session is None:
                continue
            try:
                weights, sequence = self._restored(tenant, id_, path, entry.get("sequence"))
            except Refused:
                continue  # what it sampled from was deleted
            session.samplers[id_] = Opened(id_, path, sequence, long_ago())
            self.service.samplers[id_] = weights

    def _restored(
        self, tenant: str, id_: str, path: str | None, sequence: int | None
    ) -> tuple[SamplerWeights, int | None]:
        if path is None or sequence is None:
            return self._of_path(tenant, id_, path)
        model_id, kind, name = parse_path(path)
        folder = self.service.model(tenant, model_id).saved.find(kind, name, sequence)
        if folder is None:
            raise Refused("deleted", 404)
        return _weights_of(tenant, id_, folder), sequence


def _weights_of(tenant: str, id_: str, folder: "Path") -> SamplerWeights:
    inner = folder / "adapters" / MODEL
    return SamplerWeights(id_, tenant, folder=inner if inner.is_dir() else folder)
