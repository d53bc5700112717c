"""How much of the disk tenants use, against their quotas."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from redqueen.serve.quotas import Quotas
from redqueen.serve.store import size_of

_FRESH_S = 30.0


class DiskUse:
    """Folders are measured now and then, as a walk over many files takes time; in between what was
    allowed since is added."""

    def __init__(self, folders: Mapping[str, Path], quotas: Quotas) -> None:
        self.folders, self.quotas = folders, quotas
        self._known: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def check(self, tenant: str, more: int, *, fresh: bool = False, spare_mb: float = 0.0) -> None:
        """Refuse what does not fit. `fresh`: measure now; `spare_mb`: what it may have beyond."""
        at, used = self._known.get(tenant, (-_FRESH_S, 0))
        if fresh or time.monotonic() - at >= _FRESH_S:
            at, used = time.monotonic(), size_of(self.folders[tenant])
            with self._lock:
                self._known[tenant] = at, used
        self.quotas.check_disk(used - int(spare_mb * 1e6), more)
        with self._lock:
            at, used = self._known[tenant]
            self._known[tenant] = at, used + more
