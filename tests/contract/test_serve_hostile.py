"""A tenant, or a stranger, who means harm: memory, disk and connections are bounded, and others
notice nothing."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tinker.proto import tinker_public_pb2 as pb

from redqueen.models.base import load_base
from redqueen.serve import gate as gates
from redqueen.serve.app import ModelServer, http_server, listen
from redqueen.serve.commands import Refused
from redqueen.serve.connections import PatientProtocol
from redqueen.serve.quotas import Quotas
from redqueen.serve.tinker_wire import Decoder, make_order
from tests.serving import Tenant, datum, random_data, serving


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


@pytest.fixture
def server(tokenizer: Any, tmp_path: Path) -> Iterator[ModelServer]:
    with serving(tokenizer, tmp_path / "served") as running:
        yield running


def learns(tenant: Tenant) -> bool:
    data = random_data(Random(1))
    losses = [tenant.train(data) for _ in range(3)]
    return losses[-1] < losses[0]


# memory and disk


def test_commands_behind_a_gradient_that_never_steps_are_bounded(
    tokenizer: Any, tmp_path: Path
) -> None:
    """No checkpoint can take them up: they stay in memory and in the journal."""
    with serving(tokenizer, tmp_path, quotas=Quotas(unsettled_mb=0.1)) as server:
        tenant = Tenant(server)
        tenant.result(tenant.forward_backward(random_data(Random(1))))
        told = [
            tenant.result(tenant.command("load_weights", path="tinker://x", pad="x" * 20_000))
            for _ in range(12)
        ]
        model = server.service.models[tenant.model]
        assert "step first" in told[-1]["error"] and "step first" not in told[0]["error"]
        assert model.history_bytes < 200_000 and model.journal.path.stat().st_size < 200_000
        tenant.result(tenant.command("optim_step", adam_params={"learning_rate": 1e-2}))
        assert learns(tenant)


def test_bytes_that_are_no_tokens_count_as_tokens_in_flight(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path, quotas=Quotas(tokens_in_flight=1000)) as server:
        tenant = Tenant(server)
        message = pb.ForwardBackwardRequest(
            model_id=tenant.model, seq_id=tenant.next(), loss_fn="cross_entropy"
        )
        message.data.append(datum([5, 6, 7], [1.0, 1.0]))
        padding = bytes([15 << 3 | 2, 0xC0, 0x84, 0x3D]) + bytes(1_000_000)  # a field of no name
        body = message.SerializeToString() + padding
        reply = tenant.http.post("/api/v1/forward_backward", content=body)
        assert "may have 1,000 in flight" in tenant.result(reply.json()["request_id"])["error"]
        assert server.service.futures.tokens["t0"] == 0
        assert learns(tenant)


def test_models_of_sessions_that_ended_are_bounded(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path, quotas=Quotas(models_ever=3)) as server:
        for _ in range(3):
            tenant = Tenant(server)
            tenant.result(tenant.command("save_weights", path="kept"))  # the others leave nothing
            tenant.http.post(f"/api/v1/sessions/{tenant.session}/finish")
        session = tenant.post("create_session")["session_id"]
        body = {"session_id": session, "model_seq_id": 0, "lora_config": {"rank": 2}}
        reply = tenant.http.post("/api/v1/create_model", json=body)
        assert reply.status_code == 403 and "3 models" in reply.json()["error"]
        Tenant(server, "t1")


# requests that are larger when they are read


def test_a_request_counts_until_it_is_answered(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a thread is in memory, too."""
    tenant, seen = Tenant(server), []
    submit = server.service.submit

    def watched(*arguments: Any) -> Any:
        seen.append(server.gate.uploading["t0"])
        return submit(*arguments)

    monkeypatch.setattr(server.service, "submit", watched)
    tenant.forward_backward(random_data(Random(1)))
    assert seen[0] > 100 and server.gate.uploading["t0"] == 0


def test_more_json_than_can_be_in_flight_is_not_read(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "_MOST_JSON", 20_000)
    with serving(tokenizer, tmp_path) as server:
        tenant = Tenant(server)
        bomb = b'{"x":[' + b"[]," * 10_000 + b"[]]}"
        for route in ("/api/v1/asample", "/v1/completions", "/api/v1/create_model"):
            assert tenant.http.post(route, content=bomb).status_code == 413
        large = {"path": "x" * 18_000, "model_id": tenant.model, "seq_id": tenant.next()}
        reply = tenant.http.post("/api/v1/load_weights", json=large)
        assert reply.status_code == 200 and learns(tenant)


def test_data_that_hold_nothing_are_not_looked_at_one_by_one(server: ModelServer) -> None:
    tenant = Tenant(server)
    message = pb.ForwardBackwardRequest(
        model_id=tenant.model, seq_id=tenant.next(), loss_fn="cross_entropy"
    )
    empty = bytes([pb.ForwardBackwardRequest.DESCRIPTOR.fields_by_name["data"].number << 3 | 2, 0])
    body = message.SerializeToString() + empty * 70_000
    reply = tenant.http.post("/api/v1/forward_backward", content=body)
    assert "70,000 data" in tenant.result(reply.json()["request_id"])["error"]
    assert learns(tenant)


def test_a_prompt_that_cannot_fit_is_refused_by_its_length_alone() -> None:
    class Tokens(list[int]):
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("looked at")

    with pytest.raises(Refused, match="the prompt has 1000 tokens; this model has a context of 64"):
        make_order(Decoder(300, 64), Tokens([5] * 1000), {}, {})


# connections


@contextmanager
def listening(server: ModelServer) -> Iterator[int]:
    listener = listen("127.0.0.1", 0)
    http = http_server(server)
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not http.started:
        time.sleep(0.01)
    yield listener.getsockname()[1]
    http.should_exit = True
    thread.join(10)
    listener.close()


HEAD = b"POST /api/v1/create_session HTTP/1.1\r\nHost: localhost\r\nX-API-Key: tml-secret-t0\r\n"


@pytest.mark.parametrize("said", [b"", b"GET", HEAD], ids=["nothing", "a word", "half a head"])
def test_whoever_sends_no_request_is_hung_up_on(
    said: bytes, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientProtocol, "wait_s", 0.1)
    with listening(server) as port, socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.settimeout(10)
        stranger.sendall(said)
        assert stranger.recv(100) == b""


def test_whoever_asks_now_and_then_is_not(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientProtocol, "wait_s", 1.0)
    headers = {"X-API-Key": "tml-secret-t0"}
    with listening(server) as port:
        client = HTTPConnection("127.0.0.1", port, timeout=10)
        client.connect()
        connection = client.sock
        for _ in range(5):
            client.request("POST", "/api/v1/create_session", b"{}", headers)
            reply = client.getresponse()
            assert reply.status == 200 and reply.read()
            time.sleep(0.3)
        assert client.sock is connection
        client.close()


def test_a_body_that_stops_coming_is_given_up(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "_IDLE_S", 0.1)
    with listening(server) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(10)
        client.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
        assert b" 408 " in client.recv(10_000)
    assert server.gate.uploading["t0"] == 0
