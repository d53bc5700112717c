"""Clients that go in the middle of something, over real sockets: nothing of them stays, and others
notice nothing."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from redqueen.models.base import load_base
from redqueen.serve.app import ModelServer, http_server, listen
from tests.serving import Tenant, random_data, serving

KEY = "tml-secret-t0"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


@pytest.fixture
def server(tokenizer: Any, tmp_path: Path) -> Iterator[ModelServer]:
    with serving(tokenizer, tmp_path / "served", turn_tokens=4) as running:
        yield running


@pytest.fixture
def port(server: ModelServer) -> Iterator[int]:
    listener = listen("127.0.0.1", 0)
    http = http_server(server)
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: http.started)
    yield listener.getsockname()[1]
    http.should_exit = True
    thread.join(10)
    listener.close()


def until(there: Callable[[], Any], most_s: float = 10.0) -> None:
    end = time.monotonic() + most_s
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def ask(port: int, path: str, body: bytes, length: int | None = None) -> socket.socket:
    """A connection on which a request was sent; `length` says more than there is."""
    connection = socket.create_connection(("127.0.0.1", port))
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\nContent-Length: {size}"
    connection.sendall(head.encode() + b"\r\n\r\n" + body)
    return connection


def drop(connection: socket.socket) -> None:
    """At once, with a reset, as a client does that is killed."""
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()


def learns(tenant: Tenant) -> bool:
    data = random_data(Random(1))
    losses = [tenant.train(data) for _ in range(3)]
    return losses[-1] < losses[0]


def test_a_client_that_goes_during_an_upload_leaves_nothing(server: ModelServer, port: int) -> None:
    tenant, other = Tenant(server, "t0"), Tenant(server, "t1")
    journal = server.service.models[tenant.model].journal
    gate = server.gate
    for _ in range(5):
        connection = ask(port, "/api/v1/forward_backward", b"x" * 50_000, length=1_000_000)
        until(lambda: gate.uploading.get("t0"))
        drop(connection)
        until(lambda: not gate.uploading.get("t0"))
    assert not journal.records() and not server.service.futures.requests.get("t0")
    assert learns(other) and learns(tenant)


def test_a_client_cannot_fill_the_memory_with_uploads_that_never_end(
    server: ModelServer, port: int
) -> None:
    server.gate.limit = 100_000
    connections = [
        ask(port, "/api/v1/forward_backward", b"x" * 90_000, length=99_000) for _ in range(8)
    ]
    replies = []
    for connection in connections:
        connection.settimeout(0.5)
        try:
            replies.append(connection.recv(200))
        except TimeoutError:
            continue
    assert replies and all(b" 429 " in reply for reply in replies)
    assert server.gate.uploading["t0"] <= 400_000
    for connection in connections:
        drop(connection)
    until(lambda: not server.gate.uploading["t0"])
    assert learns(Tenant(server, "t0"))


def test_a_client_that_goes_while_it_waits_can_ask_again(server: ModelServer, port: int) -> None:
    tenant = Tenant(server, "t0")
    tenant.sequence = 1  # the command before it has not come: it waits
    waiting = tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
    future = server.service.futures.futures[waiting]
    polls = []
    for _ in range(5):
        body = json.dumps({"request_id": waiting}).encode()
        polls.append(ask(port, "/api/v1/retrieve_future", body))
    until(lambda: len(future.callbacks) == 5)
    for connection in polls:
        drop(connection)
    tenant.sequence = 0
    tenant.forward_backward(random_data(Random(1)))
    tenant.sequence = 2
    assert "grad_norm" in tenant.result(waiting)["metrics"]
    assert learns(tenant) and learns(Tenant(server, "t1"))


@pytest.fixture
def slow(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling takes long enough for somebody to go in the middle of it."""
    sample = server.engine.sample

    def later(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.2)
        return sample(*arguments, **options)

    monkeypatch.setattr(server.engine, "sample", later)


@pytest.mark.slow
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_nobody_samples_for_a_client_that_has_gone(
    server: ModelServer, port: int, stream: bool, begun: bool
) -> None:
    """In the middle of its answer, or before anything of it was sampled."""
    service, other = server.service, Tenant(server, "t1")
    messages = [{"role": "user", "content": "(x)"}]
    asked = {"model": "tiny", "messages": messages, "max_tokens": 120, "n": 4, "stream": stream}
    for number in range(2):
        body = json.dumps({**asked, "seed": number}).encode()
        connection = ask(port, "/v1/chat/completions", body)
        until(lambda: service.futures.requests.get("t0"))
        if begun and stream:
            assert b"200 OK" in connection.recv(4000) and connection.recv(4000)
        drop(connection)
        until(lambda: not service.futures.requests.get("t0") and not service.queue)
    told = [one.result for one in service.futures.answered["t0"].values()]
    assert [one and one.get("error") for one in told] == ["canceled"] * 2
    assert not service.futures.tokens.get("t0") and service.base.tasks == 0
    assert learns(other)


def test_a_sampler_of_canceled_requests_does_not_stay(server: ModelServer, port: int) -> None:
    tenant, service = Tenant(server, "t0"), server.service
    for _ in range(12):
        sampler = tenant.snapshot()
        asked = {"model": sampler, "prompt": "(x)", "max_tokens": 120, "stream": True}
        connection = ask(port, "/v1/completions", json.dumps(asked).encode())
        connection.recv(1000)
        drop(connection)
    until(lambda: not service.futures.requests.get("t0"))
    tenant.snapshot()
    assert len(service.models[tenant.model].samplers) <= service.quotas.samplers


@pytest.mark.usefixtures("slow")
def test_a_server_ends_whole_while_somebody_streams(
    server: ModelServer,
) -> None:
    """The event loop of the stream is closed before the engine's thread has ended."""
    listener, http = listen("127.0.0.1", 0), http_server(server)
    http.config.timeout_graceful_shutdown = 0
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: http.started)
    asked = {"model": "tiny", "prompt": "(x)", "max_tokens": 120, "n": 8, "stream": True}
    connection = ask(listener.getsockname()[1], "/v1/completions", json.dumps(asked).encode())
    assert b"200 OK" in connection.recv(1000)
    http.should_exit = http.force_exit = True
    thread.join(10)
    drop(connection)
    server.close()
    assert server.worker.failure is None
