"""`sandbox.type = "ray"`: pools on the CPU machines of a Ray cluster, each one an actor.

Jobs are pure: what an actor had when it died runs again elsewhere. Every actor tests the walls of
its own machine before it takes a job. Outcomes are the same as those of a pool.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any, Self

from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import ConfigError, SandboxError
from redqueen.sandbox.pool import SandboxPool
from redqueen.sandbox.protocol import Job, Outcome
from redqueen.sandbox.ray_cluster import import_path, join_cluster

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise ConfigError("sandbox.type=ray needs Ray: pip install 'redqueen[ray]'") from error

_log = logging.getLogger(__name__)

_DEATHS = 3
"""Of actors with the same jobs."""
_SHARES = 4
"""Of an actor in a batch: small ones keep all of them busy to the end."""


class PoolActor:
    """A pool in a Ray actor."""

    def __init__(self, config: SandboxConfig) -> None:
        # several actors may share a machine
        memory_mb = (
            config.total_memory_mb() * config.cores // max(config.cores, os.cpu_count() or 1)
        )
        own = {"workers": config.cores, "memory_mb": memory_mb}
        self.pool = SandboxPool(config.model_copy(update=own))

    def walls(self) -> dict[str, str]:
        return self.pool.walls

    def run(self, jobs: list[Job]) -> list[Outcome]:
        return self.pool.run(jobs)

    def pid(self) -> int:
        return os.getpid()


class RaySandbox:
    """A `Sandbox` of actors. It belongs to one thread at a time."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        join_cluster(self.config.address, "sandbox.address")
        self.actors: list[Any] = [self._actor() for _ in range(self._count())]
        try:
            self.walls: dict[str, str] = _get([actor.walls.remote() for actor in self.actors])[0]
            """Each wall, and `up` or the reason why it is down."""
        except BaseException:
            self.close()
            raise

    def _count(self) -> int:
        cores = self.config.cores
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        free = int(ray.available_resources().get("CPU", 0))
        possible = min(free // cores, sum(int(node.get("CPU", 0)) // cores for node in nodes))
        count = -(-self.config.workers // cores) if self.config.workers else possible
        if not possible or count > possible:
            raise ConfigError(
                f"sandbox.type=ray: the cluster has {free} free CPUs, room for {possible} pools "
                f"with {cores} each, and {max(1, count)} are to be opened; lower sandbox.cores or "
                "sandbox.workers"
            )
        return count

    def _actor(self) -> Any:
        options = {"num_cpus": self.config.cores, "scheduling_strategy": "SPREAD"}
        environment = {"env_vars": import_path()}
        actor = ray.remote(PoolActor).options(max_restarts=0, runtime_env=environment, **options)
        return actor.remote(self.config)

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """In small shares, dealt to whoever is free. The share of an actor that dies goes to
        another."""
        if not self.actors:
            raise SandboxError("this sandbox is closed")
        outcomes: list[Outcome | None] = [None] * len(jobs)
        count = min(len(jobs), len(self.actors) * _SHARES)
        waiting = [(slice(number, None, count), 0) for number in range(count)]
        idle, busy = list(self.actors), dict[Any, tuple[Any, slice, int]]()
        while waiting or busy:
            while waiting and idle:
                actor, (share, deaths) = idle.pop(), waiting.pop(0)
                busy[actor.run.remote(list(jobs[share]))] = actor, share, deaths
            (done,), _ = ray.wait(list(busy))
            actor, share, deaths = busy.pop(done)
            try:
                outcomes[share] = ray.get(done)
            except RayError as error:
                actor = self._replace(actor, error, deaths + 1)
                waiting.append((share, deaths + 1))
            idle.append(actor)
        return outcomes  # type: ignore[return-value]

    def _replace(self, actor: Any, error: RayError, deaths: int) -> Any:
        self.actors.remove(actor)
        ray.kill(actor)
        why = _explain(error)
        if deaths == _DEATHS:
            self.close()
            raise SandboxError(
                f"{deaths} sandboxes on Ray died with the same jobs: {why}"
            ) from error
        _log.warning("a sandbox on Ray died: %s. Starting another.", why)
        self.actors.append(self._actor())
        return self.actors[-1]

    def close(self) -> None:
        for actor in self.actors:
            ray.kill(actor)
        self.actors = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _get(references: list[Any]) -> list[Any]:
    """Walls that do not stand on one of the machines are an error here."""
    try:
        return list(ray.get(references))
    except RayError as error:
        raise SandboxError(f"a sandbox on Ray cannot be opened: {_explain(error)}") from error


def _explain(error: RayError) -> str:
    """What the actor said, without Ray's traceback."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, SandboxError):
        return str(cause)
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "SandboxError" in line]
    return "\n".join(lines[lines.index(said[-1]) :]) if said else (lines or [repr(error)])[-1]
