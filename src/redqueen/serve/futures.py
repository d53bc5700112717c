"""Answers that are on their way: every request has one, by an id that survives a restart."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

KEEP_S = 900.0
"""How long an answer stays after it was fetched: a client whose connection broke asks again."""
UNFETCHED_S = 6 * 3600.0


@dataclass(slots=True)
class Future:
    id: str
    tenant: str
    result: dict[str, Any] | None = None
    """The answer, or `error` with its `category`; None while it is on its way."""
    tokens: int = 0
    """That it holds of the tenant's quota."""
    changed: float = field(default_factory=time.monotonic)
    fetched: bool = False
    callbacks: list[Callable[[], None]] = field(default_factory=list)
    cancelable: bool = False

    @property
    def done(self) -> bool:
        return self.result is not None


class FutureTable:
    """Not locked by itself: its owner's lock is held around every call."""

    def __init__(self) -> None:
        self.futures: dict[str, Future] = {}
        self.tokens: dict[str, int] = {}
        """In flight, by tenant."""
        self.requests: dict[str, int] = {}

    def add(self, id_: str, tenant: str, tokens: int = 0) -> Future:
        future = self.futures[id_] = Future(id_, tenant, tokens=tokens)
        self.tokens[tenant] = self.tokens.get(tenant, 0) + tokens
        self.requests[tenant] = self.requests.get(tenant, 0) + 1
        return future

    def find(self, id_: str, tenant: str) -> Future | None:
        """None where there is none, or it is somebody else's."""
        future = self.futures.get(id_)
        return future if future is not None and future.tenant == tenant else None

    def resolve(self, future: Future, result: dict[str, Any]) -> None:
        if future.done:
            return
        future.result, future.changed = result, time.monotonic()
        self.tokens[future.tenant] -= future.tokens
        self.requests[future.tenant] -= 1
        callbacks, future.callbacks = future.callbacks, []
        for callback in callbacks:
            callback()

    def fail(self, future: Future, message: str, category: str = "user") -> None:
        self.resolve(future, {"error": message, "category": category})

    def sweep(self) -> None:
        """Forget answers that were fetched a while ago, or that nobody fetches."""
        now = time.monotonic()
        for future in list(self.futures.values()):
            limit = KEEP_S if future.fetched else UNFETCHED_S
            if future.done and now - future.changed > limit:
                del self.futures[future.id]
