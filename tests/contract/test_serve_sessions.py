"""Samplers keep their weights, sessions end, and nothing grows for as long as a server lives."""

import errno
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from redqueen.models.base import load_base
from redqueen.serve import sampling_sessions, sessions
from redqueen.serve.app import ModelServer
from redqueen.serve.commands import SampleOrder
from redqueen.serve.quotas import Quotas
from redqueen.serve.state import SESSION_S
from tests.serving import Tenant, logprobs_of, random_data, serving, tokens_of

PROMPT = [5, 9, 12]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


@pytest.fixture
def server(tokenizer: Any, tmp_path: Path) -> Iterator[ModelServer]:
    with serving(tokenizer, tmp_path / "served") as running:
        yield running


def train(tenant: Tenant) -> None:
    tenant.train(random_data(Random(1)), rate=5e-2)


def save(tenant: Tenant, name: str = "own", kind: str = "save_weights_for_sampler") -> str:
    told = tenant.result(tenant.command(kind, path=name, overwrite=True))
    assert "path" in told, told
    return str(told["path"])


def open_sampler(tenant: Tenant, number: int, path: str | None) -> Any:
    body = {"session_id": tenant.session, "sampling_session_seq_id": 100 + number}
    chosen = {"model_path": path} if path else {"base_model": "tiny"}
    return tenant.http.post("/api/v1/create_sampling_session", json={**body, **chosen})


def sampler_of(tenant: Tenant, number: int, path: str | None) -> str:
    reply = open_sampler(tenant, number, path)
    assert reply.status_code == 200, reply.text
    return str(reply.json()["sampling_session_id"])


def score(tenant: Tenant, sampler: str) -> float:
    """Tells weights apart."""
    return logprobs_of(tenant.sample(sampler, PROMPT, temperature=0.0, max_tokens=4))[0][0]


def is_asked(tenant: Tenant, sampler: str) -> int:
    body = {"sampling_session_id": sampler, "prompt": {"chunks": [{"tokens": PROMPT}]}}
    reply = tenant.http.post("/api/v1/asample", json={**body, "sampling_params": {"max_tokens": 1}})
    return int(reply.status_code)


def evict_all(server: ModelServer) -> None:
    """As if others had needed all slots."""
    with server.service.lock:
        for slot, who in enumerate(server.worker.trainer.slots.occupants):
            if type(who).__name__ == "SamplerWeights":
                server.worker.trainer.slots.occupants[slot] = None


def reopened(tenant: Tenant, server: ModelServer) -> None:
    tenant.http = TestClient(server.app, headers=dict(tenant.http.headers))


def end_by(server: ModelServer, condition: Any) -> None:
    until = time.monotonic() + 20
    while not condition():
        with server.service.lock:
            server.service.lock.notify_all()
        assert time.monotonic() < until and server.worker.failure is None
        time.sleep(0.01)


def folder_of(server: ModelServer, tenant: Tenant) -> Path:
    return server.service.models[tenant.model].files.folder


# weights that are saved over


@pytest.mark.parametrize("kind", ["save_weights", "save_weights_for_sampler"])
def test_a_sampler_keeps_its_weights_when_others_are_saved_under_their_name(
    tokenizer: Any, tmp_path: Path, kind: str
) -> None:
    with serving(tokenizer, tmp_path) as server:
        tenant = Tenant(server)
        train(tenant)
        old = sampler_of(tenant, 0, save(tenant, kind=kind))
        before = score(tenant, old)
        train(tenant)
        new = sampler_of(tenant, 1, save(tenant, kind=kind))
        evict_all(server)
        assert np.isclose(score(tenant, old), before, atol=1e-5)
        after = score(tenant, new)
        assert abs(after - before) > 1e-3
    with serving(tokenizer, tmp_path) as server:
        reopened(tenant, server)
        assert np.isclose(score(tenant, old), before, atol=1e-5)
        assert np.isclose(score(tenant, new), after, atol=1e-5)


def test_weights_that_were_saved_over_go_when_nobody_samples_from_them(
    server: ModelServer,
) -> None:
    tenant = Tenant(server)
    folder = folder_of(server, tenant) / "sampler_weights"
    for _ in range(3):  # nobody has
        save(tenant)
        assert len(list(folder.iterdir())) == 1
    other = Tenant(server)
    sampler_of(other, 0, save(tenant))
    save(tenant)
    assert len(list(folder.iterdir())) == 2
    assert other.http.post(f"/api/v1/sessions/{other.session}/finish", json={}).is_success
    end_by(server, lambda: other.model not in server.service.models)
    save(tenant)
    assert len(list(folder.iterdir())) == 1


def test_a_save_is_there_though_what_it_replaced_cannot_be_removed(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = Tenant(server)
    folder = folder_of(server, tenant) / "sampler_weights"

    def fails(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(sampling_sessions, "discard", fails)
        for _ in range(3):
            save(tenant)
    assert len(list(folder.iterdir())) == 3
    save(tenant)
    assert len(list(folder.iterdir())) == 1


def test_of_samplers_whose_weights_were_saved_over_the_newest_live(
    tokenizer: Any, tmp_path: Path
) -> None:
    """As of unnamed ones: otherwise a loop that saves under one name would fill the disk."""
    with serving(tokenizer, tmp_path, quotas=Quotas(samplers=2)) as server:
        tenant = Tenant(server)
        samplers = [sampler_of(tenant, number, save(tenant)) for number in range(6)]
        assert [is_asked(tenant, one) for one in samplers] == [404] * 3 + [200] * 3
        folder = folder_of(server, tenant) / "sampler_weights"
        assert len(list(folder.iterdir())) == 3


def test_a_name_that_is_deleted_does_not_get_its_old_weights_back(server: ModelServer) -> None:
    tenant = Tenant(server)
    old = sampler_of(tenant, 0, save(tenant))
    path = save(tenant)
    kept = f"/api/v1/training_runs/{tenant.model}/checkpoints"
    assert tenant.http.delete(f"{kept}/sampler_weights/own").status_code == 204
    assert tenant.http.get(kept).json()["checkpoints"] == []
    assert open_sampler(tenant, 1, path).status_code == 404
    assert "was deleted" in tenant.sample(old, PROMPT)["error"]
    assert tenant.loss(random_data(Random(1))) > 0


def test_weights_of_a_server_that_kept_one_save_of_a_name_are_still_there(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path) as server:
        tenant = Tenant(server)
        path = save(tenant)
        (folder,) = (folder_of(server, tenant) / "sampler_weights").iterdir()
    folder.rename(folder.with_name("own"))
    with serving(tokenizer, tmp_path) as server:
        reopened(tenant, server)
        old = sampler_of(tenant, 0, path)
        before = score(tenant, old)
        train(tenant)
        save(tenant)
        evict_all(server)
        assert np.isclose(score(tenant, old), before, atol=1e-5)


# sessions


def finish(tenant: Tenant) -> None:
    reply = tenant.http.post(f"/api/v1/sessions/{tenant.session}/finish", json={})
    assert reply.status_code == 200


def test_a_session_that_is_closed_takes_what_was_not_saved_with_it(server: ModelServer) -> None:
    tenant, other = Tenant(server), Tenant(server, "t1")
    train(tenant)
    sampler, path = tenant.snapshot(), save(tenant, kind="save_weights")
    folder = folder_of(server, tenant)
    last = tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
    finish(tenant)
    assert "grad_norm" in tenant.result(last)["metrics"]  # it was acknowledged
    end_by(server, lambda: tenant.session not in server.service.sessions.all)
    assert {one.name for one in folder.iterdir()} == {"model.json", "journal", "weights"}
    assert (folder / "journal").stat().st_size == 0
    body = {"session_id": tenant.session}
    assert tenant.http.post("/api/v1/session_heartbeat", json=body).status_code == 410
    assert is_asked(tenant, sampler) == 404
    refused = tenant.http.post(
        "/api/v1/optim_step",
        json={"model_id": tenant.model, "seq_id": tenant.next(), "adam_params": {}},
    )
    assert refused.status_code == 410 and "load what you saved" in refused.text
    again = Tenant(server)
    told = again.result(again.command("load_weights", path=path, optimizer=True))
    assert told["path"] == path
    train(other)


@pytest.mark.parametrize("is_saved", [False, True])
def test_samples_that_are_on_their_way_when_their_session_is_closed_are_of_its_weights(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_saved: bool
) -> None:
    with serving(tokenizer, tmp_path, turn_tokens=2) as server:
        owner, service = Tenant(server), server.service
        train(owner)
        tenant = Tenant(server) if is_saved else owner
        path = save(owner)
        sampler = sampler_of(tenant, 0, path) if is_saved else owner.snapshot()
        before = tenant.sample(sampler, PROMPT, temperature=0.0, max_tokens=16)
        save(owner)  # of what was saved over nothing stays but what somebody needs
        sample, turns = server.engine.sample, list[int]()

        def closing(*arguments: Any, **options: Any) -> Any:
            turns.append(len(turns))
            if turns == [0]:
                service.sessions.finish("t0", tenant.session)
            service.sampling.drop_replaced(service.models[owner.model])
            evict_all(server)
            return sample(*arguments, **options)

        monkeypatch.setattr(server.engine, "sample", closing)
        after = tenant.sample(sampler, PROMPT, temperature=0.0, max_tokens=16)
        assert len(turns) > 1 and tokens_of(after) == tokens_of(before)
        assert np.allclose(logprobs_of(after), logprobs_of(before), atol=1e-5)
        end_by(server, lambda: tenant.session not in service.sessions.all)


def test_a_session_ends_however_much_others_sample_from_the_base(server: ModelServer) -> None:
    tenant = Tenant(server)
    sampler_of(tenant, 0, None)
    server.service.base.tasks += 1
    finish(tenant)
    end_by(server, lambda: tenant.session not in server.service.sessions.all)


def test_samples_that_come_as_their_session_ends_are_refused(server: ModelServer) -> None:
    tenant, service = Tenant(server), server.service
    train(tenant)
    weights = service.samplers[tenant.snapshot()]  # found before it ends
    save(tenant)  # so that the model stays
    finish(tenant)
    end_by(server, lambda: tenant.session not in service.sessions.all)
    future = service.sample("t0", weights, SampleOrder((5, 9), 1, 4, stop_tokens=frozenset()))
    assert "was deleted" in tenant.fetch(future.id).json()["error"]


@pytest.mark.parametrize(
    ("route", "number"),
    [("create_model", "model_seq_id"), ("create_sampling_session", "sampling_session_seq_id")],
)
def test_nothing_is_made_in_a_session_that_ends_at_that_moment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, route: str, number: str
) -> None:
    tenant, service = Tenant(server), server.service

    def ends(*_: Any, **__: Any) -> None:
        if tenant.session in service.sessions.of("t0"):
            service.sessions.finish("t0", tenant.session)
            end_by(server, lambda: tenant.session not in service.sessions.all)

    monkeypatch.setattr(service.disk, "check", ends)
    asked = {"session_id": tenant.session, number: 7, "lora_config": {"rank": 2}}
    reply = tenant.http.post(f"/api/v1/{route}", json={**asked, "base_model": "tiny"})
    assert reply.status_code == 404 and "ends when its client is closed" in reply.text
    assert not service.models and not service.samplers


def test_a_session_can_be_closed_twice(server: ModelServer) -> None:
    """The answer may have been lost."""
    tenant, other = Tenant(server), Tenant(server, "t1")
    tenant.sequence = 1  # what waits holds the end up
    tenant.command("optim_step", adam_params={"learning_rate": 1e-2})

    def close_twice() -> None:
        finish(tenant)
        finish(tenant)
        for strange in (tenant.session, "nothing"):
            path = f"/api/v1/sessions/{strange}/finish"
            assert other.http.post(path, json={}).status_code == 404

    close_twice()
    assert tenant.session in server.service.sessions.all
    server.service.models[tenant.model].last_used -= 1000
    end_by(server, lambda: tenant.session not in server.service.sessions.all)
    close_twice()


def test_a_session_that_is_closed_with_nothing_saved_leaves_nothing(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path, checkpoint_every=1) as server:
        tenant = Tenant(server)
        train(tenant)
        folder = folder_of(server, tenant)
        finish(tenant)
        end_by(server, lambda: tenant.session not in server.service.sessions.all)
        assert not folder.exists() and tenant.model not in server.service.models
    with serving(tokenizer, tmp_path) as server:
        assert not server.service.models and not server.service.sessions.all


def test_a_client_that_was_silent_for_hours_goes_on(server: ModelServer) -> None:
    tenant = Tenant(server)
    train(tenant)
    session = server.service.sessions.all[tenant.session]
    session.seen -= sessions.SILENT_S - 60
    server.worker._sweep()
    tenant.post("session_heartbeat", session_id=tenant.session)
    assert session.alive
    train(tenant)


def test_a_session_that_was_silent_for_a_day_ends(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path) as server:
        tenant = Tenant(server)
        train(tenant)
        sampler_of(tenant, 0, save(tenant))
    with serving(tokenizer, tmp_path) as server:
        assert tenant.session in server.service.sessions.all  # its client may still come
        server.service.sessions.all[tenant.session].seen -= sessions.SILENT_S
        end_by(server, lambda: not server.service.sessions.all)
        assert not server.service.samplers
        assert server.service.models[tenant.model].over
    with serving(tokenizer, tmp_path) as server:
        assert server.service.models[tenant.model].over and not server.service.sessions.all


def go_silent(server: ModelServer, tenant: Tenant) -> None:
    server.service.sessions.all[tenant.session].seen -= sessions.SILENT_S + 1
    end_by(server, lambda: tenant.session not in server.service.sessions.all)


def checkpoints_of(tenant: Tenant) -> list[str]:
    told = tenant.http.get(f"/api/v1/training_runs/{tenant.model}/checkpoints").json()
    return [one["tinker_path"] for one in told["checkpoints"]]


@pytest.mark.parametrize("checkpoint_every", [1, 20])
@pytest.mark.parametrize("slots", [1, 8])
def test_what_a_client_had_not_saved_when_it_fell_silent_can_be_loaded(
    tokenizer: Any, tmp_path: Path, checkpoint_every: int, slots: int
) -> None:
    data = random_data(Random(1))
    options: dict[str, Any] = {"checkpoint_every": checkpoint_every, "slots": slots}
    with serving(tokenizer, tmp_path / "reference") as server:
        reference = Tenant(server)
        losses = [reference.train(data) for _ in range(6)]
    with serving(tokenizer, tmp_path / "served", **options) as server:
        tenant = Tenant(server)
        tenant.train(data)
        save(tenant, kind="save_weights")
        for _ in range(2):
            tenant.train(data)
        tenant.result(tenant.forward_backward(data))  # no step follows
        train(Tenant(server, "t1"))  # which takes the only slot
        go_silent(server, tenant)
        assert not list(folder_of(server, tenant).glob("checkpoint-*"))
        path = f"tinker://{tenant.model}/weights/unsaved-7"
        assert checkpoints_of(tenant) == [f"tinker://{tenant.model}/weights/own", path]
    with serving(tokenizer, tmp_path / "served", **options) as server:
        again = Tenant(server)
        assert again.result(again.command("load_weights", path=path, optimizer=True))["path"]
        assert np.allclose([again.train(data) for _ in range(3)], losses[3:], atol=1e-4)


def test_nothing_is_kept_of_a_silent_client_that_has_saved_all(server: ModelServer) -> None:
    tenant, untrained = Tenant(server), Tenant(server)
    train(tenant)
    path = save(tenant, kind="save_weights")
    tenant.loss(random_data(Random(1)))
    go_silent(server, tenant)
    go_silent(server, untrained)
    assert checkpoints_of(tenant) == [path]
    assert untrained.model not in server.service.models


def test_a_silent_session_lives_on_while_the_disk_has_no_room_for_what_it_learned(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, first = Tenant(server), Tenant(server).model
    session, tried = server.service.sessions.all[tenant.session], list[str]()
    train(tenant)

    def full(model: Any, slot: Any) -> None:
        tried.append(model.id)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(server.worker.trainer.checkpoints, "save_unsaved", full)
        session.seen -= sessions.SILENT_S + 1
        end_by(server, lambda: tried and not sessions._is_silent(session))
        for _ in range(3):
            server.worker._sweep()
        assert tried == [tenant.model]  # not with every turn
    train(tenant)
    assert session.alive and first in server.service.models
    go_silent(server, tenant)
    assert checkpoints_of(tenant) == [f"tinker://{tenant.model}/weights/unsaved-4"]


def test_a_client_that_comes_back_while_its_training_is_kept_is_served(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it is closed at once: what it asked for is carried out before."""
    tenant, service = Tenant(server), server.service
    train(tenant)
    body = json.dumps({"adam_params": {"learning_rate": 1e-2}}).encode()
    asked = list[str]()

    def slowly(*_: Any) -> None:
        asked.append(service.submit("t0", tenant.model, 3, "optim_step", body).id)
        service.sessions.finish("t0", tenant.session)

    monkeypatch.setattr(server.worker.trainer.checkpoints, "save_unsaved", slowly)
    go_silent(server, tenant)
    assert "grad_norm" in tenant.result(asked[0])["metrics"] and len(asked) == 1


def test_a_kill_while_a_silent_session_ends_leaves_no_model_without_its_weights(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is over, and the journal of sessions does not say so yet."""
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(tokenizer, first) as server:
        tenant = Tenant(server)
        train(tenant)

        def copy(*_: Any, **__: Any) -> None:
            shutil.copytree(first, second, ignore=shutil.ignore_patterns("lock"))

        monkeypatch.setattr(server.service.sessions, "compact", copy)
        go_silent(server, tenant)
        end_by(server, second.exists)
    with serving(tokenizer, second) as server:
        reopened(tenant, server)
        body = {"model_id": tenant.model, "seq_id": tenant.next(), "adam_params": {}}
        assert tenant.http.post("/api/v1/optim_step", json=body).status_code == 410
        assert checkpoints_of(tenant) == [f"tinker://{tenant.model}/weights/unsaved-2"]


def test_a_kill_after_a_session_was_closed_does_not_bring_it_back(
    tokenizer: Any, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(tokenizer, first) as server:
        tenant = Tenant(server)
        tenant.sequence = 1  # what waits holds the end up
        tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
        finish(tenant)
        shutil.copytree(first, second, ignore=shutil.ignore_patterns("lock"))
    with serving(tokenizer, second) as server:
        reopened(tenant, server)
        body = {"session_id": tenant.session}
        assert tenant.http.post("/api/v1/session_heartbeat", json=body).status_code == 410


def test_sessions_of_clients_that_have_gone_are_not_kept_for_ever(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path, quotas=Quotas(sessions=4)) as server:
        tenant = Tenant(server)
        for _ in range(200):
            for session in server.service.sessions.all.values():
                session.seen -= SESSION_S
            tenant.post("create_session")
        assert len(server.service.sessions.all) == 4
        assert tenant.session in server.service.sessions.all  # it has a model
        assert server.service.tenants["t0"].count < 150
        left = set(server.service.sessions.all)
    with serving(tokenizer, tmp_path) as server:
        end_by(server, lambda: server.service.tenants["t0"].count == 4)
        assert set(server.service.sessions.all) == left


def test_sampling_sessions_are_bounded(tokenizer: Any, tmp_path: Path) -> None:
    """A loop that opens one for every step goes on; what it goes on using stays."""
    with serving(tokenizer, tmp_path, quotas=Quotas(sampling_sessions=3)) as server:
        tenant = Tenant(server)
        reference = sampler_of(tenant, 0, None)
        opened = server.service.sessions.all[tenant.session].samplers
        for number in range(1, 200):
            for one in opened.values():
                one.used -= SESSION_S
            assert is_asked(tenant, reference) == 200
            newest = sampler_of(tenant, number, None)
        assert len(opened) == 3 and set(opened) >= {reference, newest}
        assert server.service.tenants["t0"].count < 100
        for one in opened.values():
            one.used = time.monotonic()
        refused = open_sampler(tenant, 999, None)
        assert refused.status_code == 429 and "Share one" in refused.text
