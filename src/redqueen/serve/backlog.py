"""What waits in a service: for the clock, which decides what is computed next, and for clients, who
are told why an answer takes long. The service's lock is held around every call."""

import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from redqueen.serve.commands import Skip
from redqueen.serve.restore import pack_record
from redqueen.serve.state import Model, Queued

if TYPE_CHECKING:
    from redqueen.serve.service import Service

log = logging.getLogger(__name__)


def ready_models(service: "Service") -> dict[str, list[Model]]:
    """Models with a command whose turn it is, by tenant."""
    return by_tenant(model for model in service.models.values() if model.next is not None)


def by_tenant(models: Iterable[Model]) -> dict[str, list[Model]]:
    sorted_: dict[str, list[Model]] = {}
    for model in models:
        sorted_.setdefault(model.tenant, []).append(model)
    return sorted_


def has_work(service: "Service") -> bool:
    return bool(service.queue) or any(model.next for model in service.models.values())


def queue_state(service: "Service") -> tuple[str, str | None]:
    """Why an answer takes long, in the SDK's words and in our own."""
    wanting = sum(len(models) for models in ready_models(service).values())
    slots = service.engine.slots
    if wanting > slots:
        return "paused_capacity", f"{wanting} models take turns in {slots} slots"
    return "active", None


def expects_more(service: "Service", active_s: float) -> bool:
    """Whether a tenant that was answered a moment ago has nothing to compute yet: it has sent
    nothing, or what it has sent is on its way to the disk."""
    now = time.monotonic()
    coming = {model.tenant for model in service.models.values() if model.reserved}
    busy = {model.tenant for model in service.models.values() if model.next is not None}
    busy |= {tenant for tenant, own in service.queue.waiting.items() if own}
    return any(
        now - answered < active_s
        and tenant not in busy
        and (tenant in coming or not service.futures.requests.get(tenant))
        for tenant, answered in service.active.items()
    )


def sweep(service: "Service", gap_s: float) -> None:
    """Forget old answers, and give up commands that never came."""
    service.futures.sweep()
    for model in service.models.values():
        waits = model.has_gap and not model.reserved
        if waits and time.monotonic() - model.last_used > gap_s:
            try:
                _skip(service, model, range(model.executed + 1, min(model.waiting)))
            except OSError:  # the disk: another time
                log.exception("could not skip commands of %s that never came", model.id)


def _skip(service: "Service", model: Model, missing: range) -> None:
    """Go on without commands that never came; after a restart, too."""
    reasons = {number: f"request {number} of this model never came" for number in missing}
    records = {n: pack_record(n, "skip", reason.encode()) for n, reason in reasons.items()}
    model.journal.append(records.values())
    for number, reason in reasons.items():
        future = service.futures.add(model.request_id(number), model.tenant)
        model.waiting[number] = Queued(number, Skip(reason), future, records[number])
