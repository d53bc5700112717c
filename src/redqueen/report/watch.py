"""A live report: a small HTTP server that reads ledgers and writes nothing.

It answers on this machine only unless told otherwise, and then only to readers with its token. It
runs at the lowest priority, and gathers figures that take long less often, so that a run beside it
does not wait.
"""

import gzip
import hmac
import ipaddress
import json
import os
import secrets
import socket
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
from redqueen.ledger.lock import is_held
from redqueen.ledger.run_reader import open_run
from redqueen.report.page import gather_report, report_page, to_json

LIVE_CHARS = 1_500_000
"""Of problems on a live page: it is sent again with every step."""
_REST = 20
"""Pause between two gatherings, in multiples of the CPU time of the last: at most a twentieth of
one core is used."""
_COOKIE = "redqueen_token"
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
                states.append([run.steps, evals, len(run.about), is_held(folder)])
        return json.dumps(states)


class WatchServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folders: Sequence[Path], host: str, port: int, every_s: float = 5.0) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.figures = LiveFigures(folders, every_s)
        self.token = None if is_local(host) else secrets.token_urlsafe(24)
        """What a reader must present; None where only this machine can connect."""
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/" + (f"?token={self.token}" if self.token else "")


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
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if not self._authorize(query):
            return
        if path == "/":
            page = report_page(self.server.figures.newest(), live=True)
            self._send(200, "text/html; charset=utf-8", page)
        elif path == "/data.json":
            data = self.server.figures.newest()
            if query.get("seen") == [data["stamp"]]:
                self._send(204)
            else:
                body = to_json({"version": __version__, "live": True, **data})
                self._send(200, "application/json", body)
        else:
            self._send(404, _TEXT, "not found\n")

    def _authorize(self, query: dict[str, list[str]]) -> bool:
        """Answer whoever may not read, and return whether the reader may.

        Without a token only local host names are served: a foreign page cannot read this one by
        pointing its own name here (DNS rebinding).
        """
        token = self.server.token
        if token is None:
            if urlsplit(f"//{self.headers.get('Host', '')}").hostname in _LOCAL:
                return True
            self._send(403, _TEXT, "this page is local: open it as localhost\n")
            return False
        if _equal(query.get("token", [""])[0], token):
            # From here on by cookie, so that the address bar does not show the token.
            cookie = f"{_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
            self._send(303, headers={"Location": "/", "Set-Cookie": cookie})
            return False
        if _equal(self._cookie(), token):
            return True
        self._send(401, _TEXT, "open the address with the token that `redqueen watch` printed\n")
        return False

    def _cookie(self) -> str:
        try:
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
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
        with suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name is inherited)
        """Log nothing: requests may hold anything, and the terminal may be the run's."""


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
