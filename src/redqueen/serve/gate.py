"""The gate before every route: who asks, how large the request may be, and how errors look."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
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
"""Requests of the largest size that a tenant may be sending at a time."""
Handler = Callable[["Call"], Awaitable[Response]]


class Call:
    """One request of a known tenant."""

    def __init__(self, gate: "Gate", request: Request, tenant: str, body: bytes) -> None:
        self.gate, self.request, self.tenant, self.body = gate, request, tenant, body
        self.service, self.decoder = gate.service, gate.decoder

    @property
    def json(self) -> dict[str, Any]:
        return read_json_object(self.body)

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What may wait for a disk or a lock runs beside the event loop."""
        return await to_thread.run_sync(
            lambda: function(*arguments), limiter=self.gate.threads_of(self.tenant)
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
        """Bytes of requests that are being received, by tenant."""
        self._threads: dict[str, CapacityLimiter] = {}

    def threads_of(self, tenant: str) -> CapacityLimiter:
        """Each tenant has its own, so that nobody waits for a thread of others."""
        return self._threads.setdefault(tenant, CapacityLimiter(_THREADS))

    def route(self, handler: Handler, *, openly: bool = False) -> Any:
        """An endpoint: who has no key gets no further, unless it is open to all."""

        async def endpoint(request: Request) -> Response:
            try:
                if openly:  # nothing of a stranger is read
                    return await handler(Call(self, request, "", b""))
                tenant = self._tenant(request)
                return await handler(Call(self, request, tenant, await self._body(request, tenant)))
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

    async def _body(self, request: Request, tenant: str) -> bytes:
        """Of a tenant's own requests, a few of the largest at a time are held in memory."""
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refused("compressed requests are not supported", 415)
        parts, size = list[bytes](), 0
        try:
            async for part in request.stream():
                size += len(part)
                self.uploading[tenant] = self.uploading.get(tenant, 0) + len(part)
                if size > self.limit:
                    raise Refused(
                        f"the request is larger than {self.limit / 1e6:.0f} MB: send less at a "
                        "time",
                        413,
                    )
                if self.uploading[tenant] > _UPLOADS * self.limit:
                    raise Refused("you are sending too much at once: wait for some of it", 429)
                parts.append(part)
        finally:
            if size:
                self.uploading[tenant] -= size
        return b"".join(parts)

    def _error(self, request: Request, message: str, status: int) -> Response:
        message = message.encode("utf-8", "replace").decode()  # it may quote the request
        if request.url.path.startswith("/v1/"):
            return JSONResponse({"error": {"message": message, "code": status}}, status)
        return JSONResponse({"detail": message, "error": message, "category": "user"}, status)
