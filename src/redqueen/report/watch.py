"""A live report: a small HTTP server that reads ledgers, and takes in what people do with a run.

It answers on this machine only unless told otherwise, and then only to readers with its token. To
take part in a run one needs the token on this machine, too, and elsewhere nobody can. It writes
nothing to a ledger: what people do waits in a file beside it for the run (`ledger/people.py`). It
runs at the lowest priority, and gathers figures that take long less often, so that a run beside it
does not wait.
"""

import gzip
import hmac
import ipaddress
import json
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redqueen import __version__
from redqueen.errors import RedQueenError
from redqueen.ledger.lock import is_held
from redqueen.ledger.people import FILE as PEOPLE
from redqueen.ledger.run_reader import open_run
from redqueen.report.actions import act
from redqueen.report.page import gather_report, report_page, to_json

_log = logging.getLogger(__name__)

LIVE_CHARS = 1_500_000
"""Of problems on a live page: it is sent again with every step."""
_REST = 20
"""Pause between two gatherings, in multiples of the CPU time of the last: at most a twentieth of
one core is used."""
_MAX_CLIENTS = 100
"""Connections at a time, each with a thread: more are closed at once."""
_MAX_BODY = 128 * 1024
_LOCAL = ("localhost", "127.0.0.1", "::1")
_TEXT = "text/plain; charset=utf-8"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LiveFigures:
    """The newest figures of some runs, gathered again when they changed and the pause is over."""

    def __init__(self, folders: Sequence[Path], every_s: float) -> None:
        self.folders, self.every_s = list(folders), every_s
        self._lock = threading.Lock()
        self._data: dict[str, Any] | None = None
        self._rest_until = 0.0

    def newest(self) -> dict[str, Any]:
        with self._lock:
            is_due = time.monotonic() >= self._rest_until
            if self._data is None or (is_due and self._data["stamp"] != self._stamp()):
                started = time.thread_time()  # CPU time: other processes need the core, too
                stamp = self._stamp()
                data = gather_report(self.folders, LIVE_CHARS)
                pause_s = _REST * (time.thread_time() - started)
                self._rest_until = time.monotonic() + pause_s
                self._data = {**data, "stamp": stamp, "every_s": max(self.every_s, pause_s)}
            return self._data

    def _stamp(self) -> str:
        """Changes whenever a run has progressed."""
        states = []
        for folder in self.folders:
            with open_run(folder) as run:
                (evals,) = run.connection.execute("SELECT max(rowid) FROM evals").fetchone()
                people = folder / PEOPLE
                waiting = people.stat().st_size if people.is_file() else 0
                states.append([run.steps, evals, len(run.about), is_held(folder), waiting])
        return json.dumps(states)

    def worlds(self) -> list[tuple[Path, int]]:
        """The folder and the number of each world, in the order in which they are shown."""
        places = []
        for folder in self.folders:
            with open_run(folder) as run:
                places += [(folder, world.number) for world in run.worlds]
        return places


class WatchServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folders: Sequence[Path], host: str, port: int, every_s: float = 5.0) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.figures = LiveFigures(folders, every_s)
        self.is_local = is_local(host)
        """Only this machine can connect: anybody there may read, and whoever has the token may take
        part. Elsewhere the token is for reading, and nobody takes part."""
        self.token = secrets.token_urlsafe(24)
        self._room = threading.BoundedSemaphore(_MAX_CLIENTS)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """In the log, where control characters are shown: an error may quote a file."""
        error = sys.exception()
        if not isinstance(error, OSError):  # clients go whenever they like
            _log.error("the live page could not answer: %s: %s", type(error).__name__, error)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Its name: cookies are shared between ports."""
        return f"redqueen_token_{self.server_address[1]}"


def is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def lower_priority() -> None:
    """Let the run that is watched go first."""
    with suppress(OSError):
        os.nice(15)


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    server_version = f"redqueen/{__version__}"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        path, query = self._read_address()
        if not self._authorize(query):
            return
        try:
            if path == "/":
                page = report_page(self._figures(), live=True)
                self._send(200, "text/html; charset=utf-8", page)
            elif path == "/data.json":
                self._send_news(query)
            else:
                self._send(404, _TEXT, "not found\n")
        except RedQueenError as error:  # it was moved, say, or its disk fails
            self._send(503, _TEXT, f"{error}\n")

    def _send_news(self, query: dict[str, list[str]]) -> None:
        data = self._figures()
        if query.get("seen") == [data["stamp"]]:
            self._send(204)
        else:
            body = to_json({"version": __version__, "live": True, **data})
            self._send(200, "application/json", body)

    def _read_address(self) -> tuple[str, dict[str, list[str]]]:
        """The path and the query; of something that is no address an empty path."""
        try:
            parts = urlsplit(self.path)
        except ValueError:
            return "", {}
        return parts.path, parse_qs(parts.query)

    def do_POST(self) -> None:
        """Take in what a person did: a JSON object with view, author, action and content."""
        status, why = self._refusal()
        if status:
            self.close_connection = True  # the body was not read
            self._send(status, _TEXT, f"{why}\n", {"Connection": "close"})
            return
        try:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not isinstance(request, dict):
                raise ValueError("expected an object")
            view, worlds = request.get("view"), self.server.figures.worlds()
            if type(view) is not int or not 0 <= view < len(worlds):
                raise ValueError("there is no such view")
            action = act(*worlds[view], request)
        except (ValueError, RecursionError) as error:
            self._send(400, _TEXT, f"{error}\n")
        except RedQueenError as error:
            self._send(507, _TEXT, f"{error}\n")
        else:
            self._send(200, "application/json", json.dumps({"id": action.id}))

    def _figures(self) -> dict[str, Any]:
        return {**self.server.figures.newest(), "can_write": self._may_write()}

    def _may_write(self) -> bool:
        return self.server.is_local and _equal(self._cookie(), self.server.token)

    def _refusal(self) -> tuple[int, str]:
        """Why somebody may not take part: a status and a reason; 0 where they may. A page of
        another origin gets no cookie of ours, and cannot name our origin as its own."""
        host, length = self.headers.get("Host", ""), self.headers.get("Content-Length", "")
        if self._read_address()[0] != "/people":
            return 404, "not found"
        if not self.server.is_local:
            return 403, "people take part on the machine of the run: use an SSH tunnel"
        if not self._is_local_name(host) or self.headers.get("Origin") != f"http://{host}":
            return 403, "this page is local, and takes nothing from others"
        if not self._may_write():
            return 401, "open the address with the token that `redqueen watch` printed"
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            return 415, "expected application/json"
        if not length.isascii() or not length.isdecimal():
            return 411, "expected a Content-Length"
        if len(length) > 9 or int(length) > _MAX_BODY:
            return 413, f"expected {_MAX_BODY:,} bytes at the most"
        return 0, ""

    def _is_local_name(self, host: str) -> bool:
        try:
            return urlsplit(f"//{host}").hostname in _LOCAL
        except ValueError:
            return False

    def _authorize(self, query: dict[str, list[str]]) -> bool:
        """Answer whoever may not read, and return whether the reader may.

        On this machine only local host names are served: a foreign page cannot read this one by
        pointing its own name here (DNS rebinding).
        """
        server = self.server
        if server.is_local and not self._is_local_name(self.headers.get("Host", "")):
            self._send(403, _TEXT, "this page is local: open it as localhost\n")
            return False
        if _equal(query.get("token", [""])[0], server.token):
            # From here on by cookie, so that the address bar does not show the token.
            cookie = f"{server.cookie}={server.token}; HttpOnly; SameSite=Strict; Path=/"
            self._send(303, headers={"Location": "/", "Set-Cookie": cookie})
            return False
        if server.is_local or _equal(self._cookie(), server.token):
            return True
        self._send(401, _TEXT, "open the address with the token that `redqueen watch` printed\n")
        return False

    def _cookie(self) -> str:
        try:
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return ""
        return morsel.value if morsel else ""

    def _send(
        self,
        status: int,
        content_type: str = "",
        text: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        all_headers = {**_HEADERS, **(headers or {})}
        if content_type:
            all_headers["Content-Type"] = content_type
        body = text.encode()
        if len(body) > 1000 and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 5)
            all_headers["Content-Encoding"] = "gzip"
        if status != 204:
            all_headers["Content-Length"] = str(len(body))
        self.send_response(status)
        for name, value in all_headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name is inherited)
        """Log nothing: requests may hold anything, and the terminal may be the run's."""


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
