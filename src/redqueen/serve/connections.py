"""Connections of strangers: a key is asked for with the first request, so whoever sends none, or
only a part of one, is hung up on."""

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

WAIT_S = 90.0
"""For a whole request head: longer than a connection is kept between two requests."""
_FILES = 65_536
"""Open at a time, as far as the system allows: connections count."""


class PatientProtocol(H11Protocol):
    """uvicorn's own, which waits for a first request for ever, and whose buffer is bounded."""

    wait_s = WAIT_S
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.wait_s, self._check, self.cycle)

    def _check(self, before: Any) -> None:
        """Whether a request has come since `before`, or is being answered."""
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        else:
            self._wait()


def allow_connections() -> None:
    """As many as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
