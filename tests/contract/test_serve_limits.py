"""What a tenant could do to the server with requests that are well formed: nothing."""

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from safetensors import SafetensorError
from starlette.testclient import TestClient
from tinker.proto import tinker_public_pb2 as pb

from redqueen.models.base import load_base
from redqueen.serve import backlog, checkpoints, futures, journal, sessions
from redqueen.serve.app import ModelServer
from redqueen.serve.commands import SampleOrder
from redqueen.serve.futures import FutureTable
from redqueen.serve.journal import Journal
from redqueen.serve.quotas import Quotas
from redqueen.serve.store import size_of
from redqueen.serve.tenants import Keys
from tests.serving import Tenant, datum, random_data, serving, tokens_of


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


@pytest.fixture
def server(tokenizer: Any, tmp_path: Path) -> Iterator[ModelServer]:
    with serving(tokenizer, tmp_path / "served", checkpoint_every=1) as running:
        yield running


def curve(tenant: Tenant, steps: int = 3) -> list[float]:
    data = random_data(Random(1))
    return [tenant.train(data) for _ in range(steps)]


# numbers of requests


def test_a_number_that_is_no_name_of_a_file_is_refused(server: ModelServer) -> None:
    tenant, other = Tenant(server), Tenant(server, "t1")
    huge = 10**300
    failed = tenant.result(tenant.command("save_weights_for_sampler", sampling_session_seq_id=huge))
    assert "sampling_session_seq_id" in failed["error"]
    for route, name in (
        ("create_model", "model_seq_id"),
        ("create_sampling_session", "sampling_session_seq_id"),
    ):
        body = {"session_id": tenant.session, name: huge, "lora_config": {"rank": 2}}
        assert tenant.http.post(f"/api/v1/{route}", json=body).status_code == 400
    assert curve(tenant)[-1] > 0 and curve(other)[-1] > 0 and server.worker.failure is None


@pytest.mark.parametrize("stop", [[10**30], [-1], [97], [2**31]])
def test_a_stop_token_that_there_is_not_is_refused(server: ModelServer, stop: list[int]) -> None:
    tenant = Tenant(server)
    body = {
        "sampling_session_id": tenant.snapshot(),
        "prompt": {"chunks": [{"tokens": [5]}]},
        "sampling_params": {"max_tokens": 2, "stop": stop},
    }
    assert tenant.http.post("/api/v1/asample", json=body).status_code == 400
    assert curve(tenant) and server.worker.failure is None


def test_a_request_far_ahead_does_not_make_the_server_count(server: ModelServer) -> None:
    tenant = Tenant(server)
    body = {"model_id": tenant.model, "seq_id": 2_000_000_000, "adam_params": {}}
    assert tenant.http.post("/api/v1/optim_step", json=body).status_code == 429
    tenant.sequence = 3000
    late = tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
    with server.service.lock:
        server.service.models[tenant.model].last_used -= 1000
        server.service.lock.notify_all()
    # All that never came are given up in one go.
    with server.service.lock:
        backlog.sweep(server.service, 120.0)
        server.service.lock.notify_all()
    assert "grad_norm" in tenant.result(late)["metrics"]


def test_sampling_that_fails_for_one_request_fails_for_no_other(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, other = Tenant(server), Tenant(server, "t1")
    sample = server.engine.sample

    def fails(requests: Any, *rest: Any, **options: Any) -> Any:
        if any(request.prompt[0] == 66 for request in requests):
            raise ValueError("of an odd value")
        return sample(requests, *rest, **options)

    monkeypatch.setattr(server.engine, "sample", fails)
    good, bad = other.snapshot(), tenant.snapshot()
    with server.service.lock:  # so that both are in one call
        first = _ask(server, "t1", good, 5)
        second = _ask(server, "t0", bad, 66)
    assert len(tokens_of(_samples(other.fetch(first)))[0]) == 4
    assert "odd value" in tenant.fetch(second).json()["error"]


def _ask(server: ModelServer, name: str, sampler: str, token: int) -> str:
    service = server.service
    order = SampleOrder((token, 6), 1, 4, stop_tokens=frozenset())
    return str(service.sample(name, service.samplers[sampler], order).id)


def _samples(reply: Any) -> Any:
    return pb.SampleResponse.FromString(reply.content)


# memory


def test_answers_that_nobody_fetches_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(futures, "HELD", 1000)
    table = FutureTable()
    other = table.add("b0", "b")
    table.resolve(other, {"type": "optim_step"})
    for number in range(50):
        future = table.add(f"a{number}", "a")
        table.resolve(future, {"type": "forward_backward", "logprobs": ((0.0,) * 84,)})
        future.fetched = number % 2 == 0
        assert table.held["a"] <= 1100
    assert "b0" in table.futures and "a49" in table.futures and "a0" not in table.futures
    kept = [one for one in table.futures.values() if one.tenant == "a"]
    assert sum(one.fetched for one in kept) < len(kept) / 2  # those that were fetched went first
    assert table.held["a"] == sum(one.size for one in kept)


def test_passes_without_steps_do_not_fill_memory_and_journal(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "HISTORY_BYTES", 2000)
    monkeypatch.setattr("redqueen.serve.training.HISTORY_BYTES", 2000)
    data = random_data(Random(1))
    with serving(tokenizer, tmp_path) as server:
        tenant = Tenant(server)
        curve(tenant, 2)
        sampler = tenant.snapshot()
        tokens = tokens_of(tenant.sample(sampler, [5, 9], temperature=0.0))
        losses = [tenant.loss(data) for _ in range(20)]
        model = server.service.models[tenant.model]
        assert model.history_bytes < 4000 and model.settled > model.stepped
        assert model.journal.path.stat().st_size < 4000
        tenant.forward_backward(data)
        crashed = tmp_path / "crashed"
        _copy(tmp_path, crashed)
    with serving(tokenizer, crashed) as server:
        model = server.service.models[tenant.model]
        tenant.http = TestClient(server.app, headers={"X-API-Key": "tml-secret-t0"})
        assert np.isclose(tenant.loss(data), losses[-1], atol=1e-5) and model.steps == 2
        assert tokens_of(tenant.sample(sampler, [5, 9], temperature=0.0)) == tokens


def _copy(source: Path, target: Path) -> None:
    """What a kill at this moment would have left."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("crashed", "lock"))


def test_gradients_that_wait_for_a_step_are_bounded(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path, quotas=Quotas(tokens_to_step=30)) as server:
        tenant = Tenant(server)
        item = datum([5] * 13, [1.0] * 12)
        told = [tenant.result(tenant.forward_backward([item])) for _ in range(3)]
        assert len(told[1]) == 2 and "Step more often" in told[2]["error"]
        tenant.result(tenant.command("optim_step", adam_params={"learning_rate": 1e-2}))
        assert len(tenant.result(tenant.forward_backward([item]))) == 2


def test_sessions_are_bounded(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path, quotas=Quotas(sessions=2)) as server:
        tenant = Tenant(server)
        tenant.post("create_session")
        assert tenant.http.post("/api/v1/create_session", json={}).status_code == 429
        Tenant(server, "t1")


# the disk


def test_what_a_full_disk_left_in_a_journal_hides_nothing_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Journal(tmp_path / "journal")
    log.append([b"one"])
    write = journal._write

    def full(file: Any, records: Any) -> int:
        file.write(b"\x03\x00\x00\x00half")
        file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "_write", full)
    with pytest.raises(OSError, match="No space"):
        log.append([b"two"])
    monkeypatch.setattr(journal, "_write", write)
    log.append([b"three"])
    assert log.records() == Journal(tmp_path / "journal").records() == [b"one", b"three"]


def test_what_a_full_disk_has_not_taken_is_not_there_and_can_be_asked_again(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = Tenant(server)
    body = {"session_id": tenant.session, "sampling_session_seq_id": 7, "base_model": "tiny"}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write", full)
        refused = tenant.http.post("/api/v1/create_sampling_session", json=body)
        assert refused.status_code == 503 and "No space left" in refused.json()["detail"]
    assert tenant.http.get(f"/api/v1/samplers/{tenant.session}:sample:7").status_code == 404
    assert tenant.http.post("/api/v1/create_sampling_session", json=body).status_code == 200


def test_nobody_waits_while_the_folder_of_another_is_measured(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = list[bool]()

    def measure(*_: Any, **__: Any) -> None:
        def take() -> None:
            free.append(server.service.lock.acquire(timeout=5))
            server.service.lock.release()

        other = Thread(target=take)
        other.start()
        other.join()

    monkeypatch.setattr(server.service.disk, "check", measure)
    Tenant(server)
    assert free and all(free)


def test_a_checkpoint_that_cannot_be_written_stops_nobody(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = Tenant(server)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_folder", full)
        assert len(curve(tenant)) == 3
    curve(tenant, 1)
    model, end = server.service.models[tenant.model], time.monotonic() + 10
    while model.checkpointed < model.stepped:  # it comes after the answer
        assert server.worker.failure is None and time.monotonic() < end
        time.sleep(0.01)


def test_a_checkpoint_that_the_library_cannot_write_stops_nobody(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a full disk safetensors makes an error of its own."""
    tenant = Tenant(server)

    def full(*_: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("redqueen.models.peft_io.save_file", full)
    assert len(curve(tenant)) == 3
    assert "No space left" in tenant.result(tenant.command("save_weights", path="own"))["error"]
    assert server.worker.failure is None and len(curve(tenant)) == 3


def test_what_a_full_disk_has_not_taken_takes_no_room(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = Tenant(server)

    def full(tensors: Any, file: Path, *_: Any) -> None:
        file.write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr("redqueen.models.peft_io.save_file", full)
        tenant.result(tenant.command("save_weights", path="own"))
    places = server.service.models[tenant.model].files.folder.rglob("*")
    assert {place.name for place in places} == {"model.json", "journal", "weights"}

    def half(file: Any, records: Any) -> int:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    log = Journal(tmp_path / "journal")
    log.append([b"one"])
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(journal, "_write", half)
        log.keep([b"two"])
    assert log.records() == [b"one"] and not (tmp_path / "journal.new").exists()


@pytest.fixture
def short_journals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has room for an entry, and for no journal that is written anew."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "keep", full)


@pytest.mark.usefixtures("short_journals")
def test_a_session_that_ends_on_a_full_disk_stops_nobody(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path) as server:
        tenant, other = Tenant(server), Tenant(server, "t1")
        tenant.post(f"sessions/{tenant.session}/finish")
        end = time.monotonic() + 10
        while tenant.session in server.service.sessions.all:
            assert server.worker.failure is None and time.monotonic() < end
            time.sleep(0.01)
        assert len(curve(other)) == 3 and server.worker.failure is None
    with serving(tokenizer, tmp_path) as server:
        Tenant(server)


@pytest.mark.usefixtures("short_journals")
def test_what_was_made_on_a_full_disk_is_not_answered_as_refused(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_GROWN", -1)
    tenant = Tenant(server)
    server.service.tenants["t0"].count += 100
    body = {"session_id": tenant.session, "sampling_session_seq_id": 7, "base_model": "tiny"}
    assert tenant.http.post("/api/v1/create_session", json={}).status_code == 200
    assert tenant.http.post("/api/v1/create_sampling_session", json=body).status_code == 200


def test_a_folder_can_be_measured_while_others_remove_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b/adapters", "c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "weights").write_bytes(b"1234")
    assert size_of(tmp_path) == 12
    scan = os.scandir

    def vanishing(path: Any) -> Any:
        if str(path) == str(tmp_path / "b"):  # as it is about to be read
            shutil.rmtree(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert size_of(tmp_path) == 8


def test_journals_count_as_disk(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path, quotas=Quotas(disk_mb=0.5)) as server:
        tenant = Tenant(server)
        server.service.disk._known["t0"] = time.monotonic(), 490_000
        large = [datum([5] * 100, [1.0] * 99) for _ in range(100)]
        assert "Delete saved checkpoints" in tenant.result(tenant.forward_backward(large))["error"]
        assert len(curve(tenant)) == 3  # what is small still goes


def test_a_step_is_small_or_counts_as_disk(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path, quotas=Quotas(disk_mb=0.5)) as server:
        tenant = Tenant(server)
        server.service.disk._known["t0"] = time.monotonic(), 600_000
        steps = [{"adam_params": {"learning_rate": 1e-2}, "more": "x" * n} for n in (0, 200_000)]
        small, large = (tenant.result(tenant.command("optim_step", **step)) for step in steps)
        assert "metrics" in small and "Delete saved checkpoints" in large["error"]
        assert server.service.models[tenant.model].journal.path.stat().st_size < 1000


class Uploading:
    """A command that is always on its way to the disk, until it is let go, or refused."""

    def __init__(self, tenant: Tenant, patch: pytest.MonkeyPatch) -> None:
        self.model = tenant.server.service.models[tenant.model]
        self.begun, self.goes = Event(), Event()
        self.fails, self.status, self._append = False, 0, self.model.journal.append
        patch.setattr(self.model.journal, "append", self.append)
        adam = {"learning_rate": 1e-2}
        body = {"model_id": tenant.model, "seq_id": 100, "adam_params": adam}

        def send() -> None:
            self.status = tenant.http.post("/api/v1/optim_step", json=body).status_code

        self.thread = Thread(target=send)
        self.thread.start()
        assert self.begun.wait(10)

    def append(self, records: list[bytes]) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.goes.wait(60)
            if self.fails:
                raise OSError(errno.ENOSPC, "No space left on device")
        self._append(records)

    def end(self, fails: bool = False) -> int:
        self.fails = fails
        self.goes.set()
        self.thread.join(10)
        return self.status


@pytest.mark.parametrize("fails", [False, True])
def test_a_journal_is_bounded_though_something_is_always_being_written_to_it(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(checkpoints, "HISTORY_BYTES", 1000)
    with serving(tokenizer, tmp_path, checkpoint_every=1) as server:
        tenant = Tenant(server)
        upload = Uploading(tenant, monkeypatch)
        curve(tenant, 10)
        assert upload.model.journal.size < 4000
        tenant.loss(random_data(Random(1)))  # so that the last checkpoint is written
        assert upload.end(fails) == (503 if fails else 200)
        if fails:
            tenant.sequence = 100
            tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
        crashed = tmp_path / "crashed"
        with server.service.lock:
            upload.model.last_used -= 1000
            backlog.sweep(server.service, 120.0)  # whatever has not come is skipped
            _copy(tmp_path, crashed)
    with serving(tokenizer, crashed) as server:
        model, end = server.service.models[tenant.model], time.monotonic() + 20
        while model.executed < 100 + fails:
            assert server.worker.failure is None and time.monotonic() < end
            time.sleep(0.01)
        assert model.steps == 11  # acknowledged were ten, and one after them


def test_a_kill_while_a_sampler_is_removed_does_not_stop_the_restart(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path, checkpoint_every=1) as server:
        tenant = Tenant(server)
        for _ in range(3):
            tenant.snapshot()
            curve(tenant, 1)
        folder = server.service.models[tenant.model].files.folder
    half = sorted((folder / "samplers").iterdir())[0]
    (half / "about.json").unlink()
    with serving(tokenizer, tmp_path) as server:
        assert not half.exists() and len(server.service.models[tenant.model].samplers) == 2


def test_a_sampler_that_a_restart_has_not_taken_again_yet_is_asked_for_later(
    server: ModelServer,
) -> None:
    tenant = Tenant(server)
    tenant.sequence = 1  # what comes before it is missing: it waits, as it does after a restart
    waiting = tenant.command("save_weights_for_sampler", sampling_session_seq_id=7)
    body: dict[str, Any] = {"sampling_session_id": f"{tenant.session}:sample:7"}
    body |= {"prompt": {"chunks": [{"tokens": [5]}]}, "sampling_params": {"max_tokens": 2}}
    assert tenant.http.post("/api/v1/asample", json=body).status_code == 503
    tenant.sequence = 0
    tenant.forward_backward(random_data(Random(1)))
    tenant.result(waiting)
    assert tenant.http.post("/api/v1/asample", json=body).status_code == 200


def test_after_a_restart_only_sessions_that_are_heard_from_count(
    tokenizer: Any, tmp_path: Path
) -> None:
    quotas = Quotas(models=2)
    with serving(tokenizer, tmp_path, quotas=quotas) as server:
        Tenant(server), Tenant(server)
    with serving(tokenizer, tmp_path, quotas=quotas) as server:
        Tenant(server)


def test_a_command_that_a_restarted_server_no_longer_takes_fails_alone(
    tokenizer: Any, tmp_path: Path
) -> None:
    path = "tests.outside.things:loss"
    item = datum([5, 9, 12], [1.0, 1.0], [-1.0, -1.0])
    with serving(tokenizer, tmp_path, losses=(path,)) as server:
        tenant = Tenant(server)
        asked = tenant.forward_backward([item], path)
        tenant.result(asked)
    with serving(tokenizer, tmp_path) as server:
        tenant.http = TestClient(server.app, headers={"X-API-Key": "tml-secret-t0"})
        assert "not supported" in tenant.result(asked)["error"] and curve(tenant)


# pages and texts


def test_a_page_of_another_site_cannot_use_a_local_server(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path, keys=Keys()) as server:
        http = TestClient(server.app, base_url="http://localhost")
        for origin, status in (("https://evil.example", 403), ("null", 403)):
            reply = http.post("/api/v1/create_session", json={}, headers={"Origin": origin})
            assert reply.status_code == status
        own = {"Origin": "http://localhost:3000"}
        assert http.post("/api/v1/create_session", json={}, headers=own).status_code == 200


def test_odd_texts_get_an_answer(server: ModelServer) -> None:
    tenant = Tenant(server)
    for body in (b'{"\\ud800": 1}', b'{"model": "\\ud800", "prompt": "x"}'):
        assert tenant.http.post("/v1/completions", content=body).status_code in (400, 404)
    odd = (
        f'{{"model_id": "{tenant.model}", "seq_id": 1, "optimizer_params": {{"type": "\\ud800"}}}}'
    )
    asked = tenant.http.post("/api/v1/optim_step", content=odd.encode()).json()["request_id"]
    assert "not supported" in tenant.result(asked)["error"]
    for metadata in ('{"a": NaN}', '{"a": "\\ud800"}', '["a"]', f'{{"a": "{"x" * 70_000}"}}'):
        body = f'{{"session_id": "{tenant.session}", "model_seq_id": 5, "lora_config": {{"rank": 2}}, "user_metadata": {metadata}}}'.encode()
        assert tenant.http.post("/api/v1/create_model", content=body).status_code == 400
    assert tenant.http.get("/api/v1/training_runs").status_code == 200


def test_a_text_that_cannot_fit_is_refused_before_it_is_encoded(server: ModelServer) -> None:
    tenant = Tenant(server)
    long = "x" * 1_000_000
    for route, asked in (
        ("completions", {"prompt": long}),
        ("chat/completions", {"messages": [{"role": "user", "content": long}]}),
    ):
        reply = tenant.http.post(f"/v1/{route}", json={"model": "tiny", **asked})
        assert reply.status_code == 413 and "characters" in reply.text
