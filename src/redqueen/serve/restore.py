"""What was there when the server ended: commands since the checkpoints are queued again, and are
carried out as if they had just come."""

import struct
from typing import TYPE_CHECKING

from redqueen.serve.commands import Command, ModelShape, Refused, Skip
from redqueen.serve.journal import Journal
from redqueen.serve.state import Model, Queued, SamplerWeights
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


def open_tenant(service: "Service", tenant: str, place: TenantFolder) -> None:
    entries = place.entries()
    service.sessions.restore(tenant, entries)
    for folder in place.model_folders():
        _open_model(service, tenant, ModelFolder(folder))
    service.sampling.restore(tenant, entries)
    for model in service.models_of(tenant):
        service.sampling.drop_replaced(model)
        if model.over and (session := service.sessions.all.get(model.session)):
            session.over = True  # the kill came before its journal said so
    service.sessions.compact(tenant, now=True)


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
    model.over = state.get("over", False)
    service.models[model.id] = model
    if model.over:
        files.sweep(0, ())
        return
    service.sessions.expect(tenant, model.session)
    futures = service.futures
    created = futures.add(model.request_id(0), tenant)
    futures.resolve(created, {"type": "create_model", "model_id": model.id})
    for sequence, result in state["answers"].items():
        future = futures.add(model.request_id(int(sequence)), tenant)
        futures.resolve(future, result)
    # What was being appended as the journal was written anew is there twice. If the disk refused
    # it, the last record of its number is what came in its place.
    records = {unpack_record(record)[0]: record for record in model.journal.records()}
    for sequence, record in records.items():
        _, kind, body = unpack_record(record)
        if sequence > done:
            command = _read_command(service, kind, body)
            future = futures.add(model.request_id(sequence), tenant, command.tokens)
            model.waiting[sequence] = Queued(sequence, command, future, record)
    for about in sorted((files.folder / "samplers").glob("[!.]*/about.json")):
        folder = about.parent
        weights = SamplerWeights(read_json(about)["id"], tenant, model)
        weights.folder = folder
        service.samplers[weights.id] = model.samplers[weights.id] = weights
    files.sweep(model.checkpointed, list(model.samplers))


def _read_command(service: "Service", kind: str, body: bytes) -> Command:
    """One that this server no longer takes, as it was started with other options, fails alone."""
    try:
        return Skip(body.decode()) if kind == "skip" else service.decode(kind, body)
    except Refused as error:
        return Skip(str(error))
