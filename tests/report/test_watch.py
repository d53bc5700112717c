"""The live page shows new steps as they come, only reads, and answers nobody it should not."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

import pytest

from redqueen.ledger.store import Ledger, digest
from redqueen.report.chromium import find_chromium, open_tab
from redqueen.report.watch import WatchServer, is_local
from tests.report.synthetic import Synthetic


@pytest.fixture
def run(tmp_path: Path) -> Path:
    Synthetic(steps=3).write(tmp_path / "live")
    return tmp_path / "live"


def serve(server: WatchServer) -> Iterator[WatchServer]:
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def server(run: Path) -> Iterator[WatchServer]:
    yield from serve(WatchServer([run], "127.0.0.1", 0, every_s=0.1))


@pytest.fixture
def open_server(run: Path) -> Iterator[WatchServer]:
    """One that any machine can reach."""
    yield from serve(WatchServer([run], "0.0.0.0", 0))


def ask(server: WatchServer, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_news_are_sent_once(server: WatchServer, run: Path) -> None:
    answer, body = ask(server, "/data.json")
    data = json.loads(body)
    assert answer.status == 200 and data["views"][0]["steps_done"] == 3
    server.figures._rest_until = 0.0
    assert ask(server, f"/data.json?seen={data['stamp'].replace(' ', '%20')}")[0].status == 204
    with Ledger.open(run) as ledger:
        ledger.write(4, {})
    server.figures._rest_until = 0.0
    answer, body = ask(server, f"/data.json?seen={data['stamp'].replace(' ', '%20')}")
    assert answer.status == 200 and json.loads(body)["views"][0]["steps_done"] == 4


def test_watching_changes_nothing(server: WatchServer, run: Path) -> None:
    before = digest(run)
    assert ask(server, "/")[0].status == 200
    assert digest(run) == before


def test_figures_that_took_long_are_not_gathered_again_at_once(
    server: WatchServer, run: Path
) -> None:
    server.figures.newest()
    server.figures._rest_until = float("inf")
    with Ledger.open(run) as ledger:
        ledger.write(4, {})
    assert server.figures.newest()["views"][0]["steps_done"] == 3


def test_a_name_that_is_not_of_this_machine_is_refused(server: WatchServer) -> None:
    assert ask(server, "/", Host="evil.example")[0].status == 403
    assert ask(server, "/", Host="localhost:9999")[0].status == 200
    assert ask(server, "/../../etc/passwd")[0].status == 404


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_address_that_is_none_is_answered(
    server: WatchServer, method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    address = "127.0.0.1", server.server_address[1]
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(f"{method} http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b" 404 " in client.recv(100)
    assert capfd.readouterr().err == ""


def test_a_run_that_has_gone_is_said(
    server: WatchServer, run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run.rename(run.with_name("elsewhere"))
    answer, body = ask(server, "/")
    assert answer.status == 503 and b"no run in" in body
    assert capfd.readouterr().err == ""


def test_without_the_token_nothing_is_shown_elsewhere(open_server: WatchServer) -> None:
    assert open_server.token in open_server.address
    for path, headers in (
        ("/", {}),
        ("/data.json", {}),
        ("/?token=wrong", {}),
        ("/", {"Cookie": f"{open_server.cookie}=wrong"}),
        ("/", {"Cookie": "\x7f;;="}),
    ):
        answer, body = ask(open_server, path, **headers)
        assert answer.status == 401 and b"steps_done" not in body
    answer, _ = ask(open_server, f"/?token={open_server.token}")
    assert answer.status == 303 and "HttpOnly" in (answer.getheader("Set-Cookie") or "")
    assert (
        ask(open_server, "/", Cookie=f"{open_server.cookie}={open_server.token}")[0].status == 200
    )


def test_only_loopback_needs_no_token() -> None:
    assert is_local("127.0.0.1") and is_local("::1") and is_local("localhost")
    assert not is_local("0.0.0.0") and not is_local("192.168.1.2") and not is_local("example.org")


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium in the path")
def test_a_browser_sees_steps_come_without_a_complaint(server: WatchServer, run: Path) -> None:
    with open_tab() as browser:
        browser.resize(1400, 900)
        browser.open(server.address)
        browser.wait_for("document.querySelector('.tiles .tile b').textContent === '3'")
        browser.evaluate("document.querySelectorAll('nav a').forEach(one => one.click())")
        browser.evaluate("document.querySelectorAll('summary, .row').forEach(one => one.click())")
        with Ledger.open(run) as ledger:
            ledger.write(4, {"metrics": [{"world": 0, "name": "solve/pass_rate", "value": 0.25}]})
        server.figures._rest_until = 0.0
        browser.wait_for("document.querySelector('.tiles .tile b').textContent === '4'")
        assert browser.evaluate("document.querySelector('#live').textContent").startswith("live")
        # what a reader has opened stays open
        assert browser.evaluate("document.querySelector('#figure-ratings .explained').open")
        browser.wait_for("document.querySelectorAll('#figure-ratings .numbers table').length === 2")
        assert browser.problems == []


def test_an_error_that_quotes_a_file_goes_to_the_log_and_not_to_the_terminal(
    server: WatchServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise KeyError("\x1b[2J")

    monkeypatch.setattr(server.figures, "newest", fail)
    with pytest.raises(HTTPException):
        ask(server, "/")
    (record,) = caplog.records
    assert "could not answer: KeyError" in record.message
    shown = capfd.readouterr().err  # the log is shown where a command was called in this process
    assert "\x1b" not in shown and "Traceback" not in shown


def test_connections_that_say_nothing_take_no_more_than_so_many_threads(
    server: WatchServer,
) -> None:
    server._room = threading.BoundedSemaphore(3)
    address = "127.0.0.1", server.server_address[1]
    silent = [socket.create_connection(address) for _ in range(3)]
    with socket.create_connection(address) as late:
        assert late.recv(1) == b""  # closed at once
    for connection in silent:
        connection.close()
    for _ in range(100):
        with contextlib.suppress(OSError, HTTPException):
            assert ask(server, "/")[0].status == 200
            return
        time.sleep(0.05)
    raise AssertionError("the server did not recover")
