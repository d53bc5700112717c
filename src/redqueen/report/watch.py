"""The report of runs that go on, as a page that looks for news: a small server that reads ledgers
and writes nothing.

It answers on this machine alone unless told otherwise, and then only to those who have its token.
It takes the processor as others leave it, and figures that took long to gather are gathered less
often, so that a run beside it does not wait.
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
from contextlib import closing, suppress
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redqueen import __version__
from redqueen.ledger.lock import is_held
from redqueen.ledger.store import last_step, reader
from redqueen.report.gather import gather_runs
from redqueen.report.page import as_json, page, title_of

LIVE_CHARS = 1_500_000
"""Of problems on a live page: it is sent again with every step."""
_REST = 20
"""So many times as long as the last gathering took the processor, nothing is gathered: a twentieth
of one core at most."""
_COOKIE = "redqueen_token"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Figures:
    """The newest figures of some runs, gathered when there is something new and the last time is
    long enough ago."""

    def __init__(self, folders: Sequence[Path], every_s: float) -> None:
        self.folders, self.every_s = list(folders), every_s
        self._lock = threading.Lock()
        self._data: dict[str, Any] | None = None
        self._seen, self._rest_until = "", 0.0

    def newest(self) -> dict[str, Any]:
        with self._lock:
            if self._data is None or (
                time.monotonic() >= self._rest_until and self._seen != self._look()
            ):
                started = (
                    time.thread_time()
                )  # of the processor, not of the clock: others are at it, too
                self._seen = self._look()
                sides = gather_runs(self.folders, LIVE_CHARS)
                cost = time.thread_time() - started
                self._rest_until = time.monotonic() + _REST * cost
                self._data = {
                    "sides": sides,
                    "title": title_of(self.folders),
                    "stamp": self._seen,
                    "every_s": max(self.every_s, _REST * cost),
                }
            return self._data

    def _look(self) -> str:
        """Something that changes when a run has got on."""
        found = []
        for folder in self.folders:
            with closing(reader(folder)) as connection:
                (measured,) = connection.execute(
                    "SELECT coalesce(max(rowid), 0) FROM evals"
                ).fetchone()
                (facts,) = connection.execute("SELECT count(*) FROM run").fetchone()
                found.append([last_step(connection), measured, facts, is_held(folder)])
        return json.dumps(found)


class WatchServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folders: Sequence[Path], host: str, port: int, every_s: float = 5.0) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.figures = Figures(folders, every_s)
        self.token = None if is_local(host) else secrets.token_urlsafe(24)
        """What a reader must have; none where the server answers on this machine alone."""
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


def yield_to_others() -> None:
    """The lowest claim on the processor: what is watched goes first."""
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
        if not self._welcome(query):
            return
        if path == "/":
            self._send(
                200, "text/html; charset=utf-8", page(self.server.figures.newest(), live=True)
            )
        elif path == "/data.json":
            data = self.server.figures.newest()
            if query.get("seen") == [data["stamp"]]:
                self._send(204)
            else:
                self._send(
                    200, "application/json", as_json({"version": __version__, "live": True, **data})
                )
        else:
            self._send(404, "text/plain; charset=utf-8", "there is nothing here\n")

    def _welcome(self, query: dict[str, list[str]]) -> bool:
        """Whether this reader may look. Without a token only names of this machine are answered: a
        page elsewhere cannot pose as one."""
        token = self.server.token
        if token is None:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
            if host in _LOCAL:
                return True
            self._send(
                403,
                "text/plain; charset=utf-8",
                "this page is for this machine: open it as localhost\n",
            )
            return False
        if _same(
            query.get("token", [""])[0], token
        ):  # from here on by cookie, so that the address can be shown
            self._send(
                303,
                headers={
                    "Location": "/",
                    "Set-Cookie": f"{_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/",
                },
            )
            return False
        if _same(self._cookie(), token):
            return True
        self._send(
            401,
            "text/plain; charset=utf-8",
            "open the address with the token that `redqueen watch` printed\n",
        )
        return False

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return ""
        return found.value if found else ""

    def _send(
        self, status: int, kind: str = "", text: str = "", headers: dict[str, str] | None = None
    ) -> None:
        body = text.encode()
        packed = len(body) > 1000 and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, 5)
        self.send_response(status)
        for name, value in {
            **_HEADERS,
            **({"Content-Type": kind} if kind else {}),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal may be that of the run, and what comes in may be anything."""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
