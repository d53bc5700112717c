"""Answers that are on their way: every request has one, by an id that survives a restart."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

KEEP_S = 900.0
"""How long an answer stays after it was fetched: a client whose connection broke asks again."""
UNFETCHED_S = 6 * 3600.0
HELD = 4_000_000
"""Numbers in the answers that are held for a tenant, some 70 bytes each. Beyond that the oldest go,
those that were fetched first."""
_SWEEP_S = 5.0


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
    size: int = 0
    """Of the answer, in numbers."""

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
        self.answered: dict[str, dict[str, Future]] = {}
        """By tenant and id, oldest first."""
        self.held: dict[str, int] = {}
        self._swept = 0.0

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
        future.size = _size(result)
        self.answered.setdefault(future.tenant, {})[future.id] = future
        self.held[future.tenant] = self.held.get(future.tenant, 0) + future.size
        if self.held[future.tenant] > HELD:
            self._make_room(future)
        callbacks, future.callbacks = future.callbacks, []
        for callback in callbacks:
            callback()

    def fail(self, future: Future, message: str, category: str = "user") -> None:
        self.resolve(future, {"error": message, "category": category})

    def forget(self, future: Future) -> None:
        self.futures.pop(future.id, None)
        if self.answered.get(future.tenant, {}).pop(future.id, None) is not None:
            self.held[future.tenant] -= future.size

    def _make_room(self, newest: Future) -> None:
        """A quarter at a time, so that this is not done for every answer."""
        tenant = newest.tenant
        answered = [one for one in self.answered[tenant].values() if one is not newest]
        for one in sorted(answered, key=lambda one: not one.fetched):
            if self.held[tenant] <= HELD * 3 // 4:
                return
            self.forget(one)

    def sweep(self) -> None:
        """Forget answers that were fetched a while ago, or that nobody fetches."""
        now = time.monotonic()
        if now - self._swept < _SWEEP_S:
            return
        self._swept = now
        for answered in self.answered.values():
            for future in list(answered.values()):
                if now - future.changed > (KEEP_S if future.fetched else UNFETCHED_S):
                    self.forget(future)


def _size(result: dict[str, Any]) -> int:
    """Numbers in an answer, and something for the answer itself."""
    rows = [*result.get("logprobs", ()), result.get("prompt_logprobs") or ()]
    rows += [one["tokens"] for one in result.get("sequences", ())]
    return 16 + sum(map(len, rows))
