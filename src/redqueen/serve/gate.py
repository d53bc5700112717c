"""The gate before every route: who asks, how large the request may be, and how errors look."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from redqueen.errors import RedQueenError
from redqueen.serve.commands import Refused
from redqueen.serve.futures import Future
from redqueen.serve.service import Service
from redqueen.serve.tenants import Keys
from redqueen.serve.tinker_wire import ODD_FORM, ODD_FORM_TEXT, Decoder, read_json_object

log = logging.getLogger(__name__)
_LOCAL = ("localhost", "127.0.0.1", "::1")
_THREADS = 8
_UPLOADS = 4
"""Requests of the largest size that a tenant may have here at a time, from their first byte to
their answer."""
_LARGE = 1_000_000
"""Bytes of requests that are read one at a time for a tenant: read, they take many times the room.
"""
_MOST_JSON = 16_000_000
"""Bytes of JSON, which takes twenty times as much when it is read: what a tenant may have in flight
fits into fewer."""
_SMALL_JSON = 16_384
_IDLE_S = 60.0
"""How long a request may pause while it is received."""
Handler = Callable[["Call"], Awaitable[Response]]


class Call:
    """One request of a known tenant."""

    def __init__(self, gate: "Gate", request: Request, tenant: str, body: bytes) -> None:
        self.gate, self.request, self.tenant, self.body = gate, request, tenant, body
        self.service, self.decoder = gate.service, gate.decoder
        self._json: dict[str, Any] | None = None

    @property
    def json(self) -> dict[str, Any]:
        if self._json is None:
            self._json = read_json_object(self.body)
        return self._json

    async def read(self) -> None:
        """Read JSON beside the event loop, if it takes long."""
        if len(self.body) > _SMALL_JSON:
            self._json = await self.run(read_json_object, self.body)

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What may wait for a disk or a lock runs beside the event loop."""
        large = len(self.body) > _LARGE
        return await to_thread.run_sync(
            lambda: function(*arguments), limiter=self.gate.threads_of(self.tenant, large)
        )

    async def wait(self, future: Future, timeout_s: float) -> bool:
        """Whether the answer has come."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server ends
                loop.call_soon_threadsafe(event.set)

        with self.service.lock:
            if future.done:
                return True
            future.callbacks.append(notify)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            pass
        finally:  # the client may have gone, too
            with self.service.lock:
                if notify in future.callbacks:
                    future.callbacks.remove(notify)
        return future.done


class Gate:
    def __init__(
        self, service: Service, decoder: Decoder, keys: Keys, served: str, tokenizer: str = ""
    ) -> None:
        self.service, self.decoder, self.keys = service, decoder, keys
        self.served, self.tokenizer = served, tokenizer or served
        """What the base is called, and where its tokenizer is found."""
        self.limit = int(service.quotas.body_mb * 1e6)
        self.uploading: dict[str, int] = {}
        """Bytes of requests that are here, by tenant."""
        self._threads: dict[tuple[str, bool], CapacityLimiter] = {}

    def threads_of(self, tenant: str, large: bool = False) -> CapacityLimiter:
        """Each tenant has its own, so that nobody waits for a thread of others, and one for large
        requests."""
        return self._threads.setdefault((tenant, large), CapacityLimiter(1 if large else _THREADS))

    def route(self, handler: Handler, *, openly: bool = False, is_json: bool = True) -> Any:
        """An endpoint: who has no key gets no further, unless it is open to all."""
        limit = min(self.limit, _MOST_JSON) if is_json else self.limit

        async def endpoint(request: Request) -> Response:
            try:
                if openly:  # nothing of a stranger is read
                    return await handler(Call(self, request, "", b""))
                tenant = self._tenant(request)
                async with self._body(request, tenant, limit) as body:
                    call = Call(self, request, tenant, body)
                    if is_json:
                        await call.read()
                    return await handler(call)
            except Refused as error:
                return self._error(request, str(error), error.status)
            except RedQueenError as error:
                return self._error(request, str(error), 400)
            except ClientDisconnect:
                return Response(status_code=499)
            except ODD_FORM as error:
                # It has changed nothing: commands are read first.
                log.info("%s: %s: %s", request.url.path, type(error).__name__, error)
                return self._error(request, ODD_FORM_TEXT, 400)
            except OSError as error:
                log.exception("%s failed", request.url.path)
                return self._error(request, f"the server's disk: {error.strerror or error}", 503)

        return endpoint

    def _tenant(self, request: Request) -> str:
        header = request.headers.get("authorization", "")
        bearer = header[7:] if header.lower().startswith("bearer ") else ""
        key = request.headers.get("x-api-key") or bearer
        if not self.keys.pairs:
            # A foreign page cannot reach it by pointing its own name here (DNS rebinding).
            # Nor by asking for localhost itself: browsers then say where the page is from.
            names = [f"//{request.headers.get('host', '')}", request.headers.get("origin")]
            if any(urlsplit(name).hostname not in _LOCAL for name in names if name is not None):
                raise Refused("this server is local: ask it as localhost", 403)
        tenant = self.keys.tenant_of(key)
        if tenant is None:
            raise Refused("this key is not one of this server's", 401)
        return tenant

    @contextlib.asynccontextmanager
    async def _body(self, request: Request, tenant: str, limit: int) -> AsyncIterator[bytes]:
        """Of a tenant's own requests, a few of the largest at a time are held in memory."""
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refused("compressed requests are not supported", 415)
        parts, size, stream = list[bytes](), 0, request.stream()
        try:
            while part := await self._next_part(stream):
                size += len(part)
                self.uploading[tenant] = self.uploading.get(tenant, 0) + len(part)
                if size > limit:
                    raise Refused(
                        f"the request is larger than {limit / 1e6:.0f} MB: send less at a time", 413
                    )
                if self.uploading[tenant] > _UPLOADS * self.limit:
                    raise Refused("you are sending too much at once: wait for some of it", 429)
                parts.append(part)
            body = b"".join(parts)
            parts.clear()
            yield body
        finally:
            if size:
                self.uploading[tenant] -= size

    async def _next_part(self, stream: AsyncIterator[bytes]) -> bytes:
        """What comes next of a body; empty at its end."""
        try:
            async with asyncio.timeout(_IDLE_S):
                async for part in stream:
                    if part:
                        return part
        except TimeoutError:
            raise Refused(f"nothing of the request came for {_IDLE_S:.0f} seconds", 408) from None
        return b""

    def _error(self, request: Request, message: str, status: int) -> Response:
        message = message.encode("utf-8", "replace").decode()  # it may quote the request
        if request.url.path.startswith("/v1/"):
            return JSONResponse({"error": {"message": message, "code": status}}, status)
        return JSONResponse({"detail": message, "error": message, "category": "user"}, status)
