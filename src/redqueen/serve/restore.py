"""What was there when the server ended: commands since the checkpoints are queued again, and are
carried out as if they had just come."""

import struct
from typing import TYPE_CHECKING

from redqueen.serve.commands import Command, ModelShape, Refused, Skip
from redqueen.serve.journal import Journal
from redqueen.serve.state import SESSION_S, Model, Queued, SamplerWeights, Session
from redqueen.serve.store import ModelFolder, read_json
from redqueen.serve.tenant_folders import TenantFolder

if TYPE_CHECKING:
    from redqueen.serve.service import Service

_RECORD = struct.Struct("<IB")


def pack_record(sequence: int, kind: str, body: bytes) -> bytes:
    """A command as it is in a journal: its place, its kind, and the request as it was sent."""
    return _RECORD.pack(sequence, len(kind)) + kind.encode() + body


def pack_skip(sequence: int, error: Refused) -> tuple[Skip, bytes]:
    """What a command becomes that cannot be carried out."""
    told = str(error).encode("utf-8", "replace")
    return Skip(told.decode()), pack_record(sequence, "skip", told)


def unpack_record(record: bytes) -> tuple[int, str, bytes]:
    sequence, length = _RECORD.unpack_from(record)
    end = _RECORD.size + length
    return sequence, record[_RECORD.size : end].decode(), record[end:]


def forget_old(service: "Service", tenant: str) -> None:
    """Of a tenant's sessions that ended without models, and of its samplers of saved weights, the
    newest stay. The service's lock is held."""
    most = service.quotas.remembered
    used = {model.session for model in service.models.values()}
    ended = [
        one.id
        for one in service.sessions.values()
        if one.tenant == tenant and not one.alive and one.id not in used
    ]
    for id_ in ended[: max(0, len(ended) - most)]:
        del service.sessions[id_]
    named = [id_ for id_, one in service.samplers.items() if _is_named(service, tenant, id_, one)]
    for id_ in named[: max(0, len(named) - most)]:
        del service.samplers[id_]


def _is_named(service: "Service", tenant: str, id_: str, weights: SamplerWeights) -> bool:
    session = service.sessions.get(id_.partition(":")[0])
    owner = weights.tenant if session is None else session.tenant
    return weights.model is None and not weights.tasks and owner in (tenant, None)


def open_tenant(service: "Service", tenant: str, place: TenantFolder) -> None:
    entries = place.entries()
    for entry in entries:
        if id_ := entry.get("session"):
            service.sessions[id_] = Session(id_, tenant, -SESSION_S)  # until it is heard from
    for folder in place.model_folders():
        _open_model(service, tenant, ModelFolder(folder))
    for entry in entries:
        if id_ := entry.get("sampler"):
            try:
                service.samplers[id_] = service.sampler_of(tenant, id_, entry["path"])
            except Refused:
                continue  # what it sampled from was deleted
    forget_old(service, tenant)
    place.keep(service.sessions, service.samplers)


def _open_model(service: "Service", tenant: str, files: ModelFolder) -> None:
    state = read_json(files.folder / "model.json")
    model = Model(
        state["id"],
        tenant,
        state["session"],
        ModelShape(**state["shape"]),
        files,
        Journal(files.folder / "journal"),
        state["metadata"],
    )
    model.stepped = model.checkpointed = state["checkpoint"]
    done = model.executed = model.settled = state.get("settled", state["checkpoint"])
    model.steps = model.steps_at_checkpoint = state["steps"]
    futures = service.futures
    created = futures.add(model.request_id(0), tenant)
    futures.resolve(created, {"type": "create_model", "model_id": model.id})
    for sequence, result in state["answers"].items():
        future = futures.add(model.request_id(int(sequence)), tenant)
        futures.resolve(future, result)
    for record in model.journal.records():
        sequence, kind, body = unpack_record(record)
        if sequence > done and sequence not in model.waiting:
            command = _read_command(service, kind, body)
            future = futures.add(model.request_id(sequence), tenant, command.tokens)
            model.waiting[sequence] = Queued(sequence, command, future, record)
    for about in sorted((files.folder / "samplers").glob("[!.]*/about.json")):
        folder = about.parent
        weights = SamplerWeights(read_json(about)["id"], tenant, model)
        weights.folder = folder
        service.samplers[weights.id] = model.samplers[weights.id] = weights
    files.sweep(model.checkpointed, list(model.samplers))
    service.models[model.id] = model


def _read_command(service: "Service", kind: str, body: bytes) -> Command:
    """One that this server no longer takes, as it was started with other options, fails alone."""
    try:
        return Skip(body.decode()) if kind == "skip" else service.decode(kind, body)
    except Refused as error:
        return Skip(str(error))
