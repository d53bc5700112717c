"""`engine.type = "ray"`: one actor a GPU, on the machines of a Ray cluster.

Ray places actors, moves columns and notices deaths. It restarts nothing: what a worker knew is in
our checkpoint and redo log. Between steps workers follow the cluster: where machines have joined,
more of them are started.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.processes import START_S
from redqueen.engine.blocks.ray_worker import RayWorker
from redqueen.engine.blocks.redo_log import RedoLog
from redqueen.engine.blocks.start import start, worker_spec
from redqueen.engine.blocks.supervisor import NoRoom, Supervisor, WorkerDied
from redqueen.engine.blocks.worker import Call, Emit, Hello
from redqueen.engine.protocol import EngineSpec
from redqueen.engine.usage import Usage
from redqueen.errors import ConfigError
from redqueen.sandbox.ray_cluster import import_path, join_cluster

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise ConfigError("engine.type=ray needs Ray: pip install 'redqueen[ray]'") from error

PLACE_S = 120.0
"""How long to wait for a place, and for an interpreter there. What a dead worker had is free again
within seconds, unless its machine is gone."""


class RayEngine:
    """One Ray actor for each GPU of a cluster; survives the loss of machines."""

    @staticmethod
    def create(spec: EngineSpec) -> BlockEngine:
        join_cluster(spec.config.address, "engine.address")
        layout, redo = BlockLayout.of(spec), RedoLog()
        room = Room.find(spec)
        most = min(spec.config.workers or len(layout.sizes), len(layout.sizes))
        possible = room.count()
        count = min(most, possible) if not spec.config.workers else most
        if count > possible or not count:
            raise ConfigError(
                f"engine.workers={count}: the Ray cluster has room for {possible} ({room} each)"
            )
        own = replace(worker_spec(spec, layout), device="cuda" if room.on_gpu else "cpu")

        def worker(number: int) -> Supervisor:
            return Supervisor(
                number, f"the worker {number} on Ray", partial(Actor, own, room.options), redo
            )

        def recruit(has: int, number: int) -> Supervisor | None:
            return worker(number) if has < min(most, room.count()) else None

        workers = [worker(number) for number in range(count)]
        return BlockEngine(layout, workers, start(workers, spec), redo, recruit)


@dataclass(frozen=True, slots=True)
class Room:
    """What a worker needs of a cluster."""

    on_gpu: bool
    threads: int

    @staticmethod
    def find(spec: EngineSpec) -> "Room":
        on_gpu = spec.device != "cpu" and bool(ray.cluster_resources().get("GPU"))
        return Room(on_gpu, spec.config.threads or 1)

    def count(self) -> int:
        """Workers for which the machines have room, those that are there already included."""
        name, each = ("GPU", 1) if self.on_gpu else ("CPU", self.threads)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return sum(int(node.get(name, 0)) // each for node in nodes)

    @property
    def options(self) -> dict[str, Any]:
        needs = {"num_gpus": 1, "num_cpus": 1} if self.on_gpu else {"num_cpus": self.threads}
        environment = {"OMP_NUM_THREADS": str(self.threads), **import_path()}
        return {**needs, "runtime_env": {"env_vars": environment}}

    def __str__(self) -> str:
        return "one GPU" if self.on_gpu else f"{self.threads} CPUs"


class Actor:
    """A worker that is a Ray actor."""

    hello: Hello

    def __init__(self, spec: EngineSpec, options: dict[str, Any]) -> None:
        self._spec, self._timeout = spec, spec.config.hang_timeout_s
        self._actor = ray.remote(RayWorker).options(max_restarts=0, **options).remote()

    def wait_until_ready(self) -> Hello:
        stream = self._actor.start.options(num_returns="streaming").remote(self._spec)
        if not ray.wait([stream], timeout=PLACE_S)[0]:
            raise NoRoom(f"the Ray cluster had no place for a worker for {PLACE_S:.0f} s")
        self.hello = self._receive(stream, max(self._timeout, START_S), lambda columns: None)
        return self.hello

    def call(self, block: int, call: Call, emit: Emit) -> tuple[Any, Usage]:
        stream = self._actor.call.options(num_returns="streaming").remote(block, call)
        result, usage = self._receive(stream, self._timeout, emit)
        return result, usage

    def kill(self) -> None:
        ray.kill(self._actor)

    def close(self) -> None:
        ray.kill(self._actor)

    def _receive(self, stream: Any, timeout: float, emit: Emit) -> Any:
        try:
            while True:
                if not ray.wait([stream], timeout=timeout)[0]:
                    raise WorkerDied(f"nothing came from it for {timeout:.0f} s")
                kind, content = ray.get(next(stream))
                if kind == "done":
                    return content
                if kind == "failed":
                    raise content
                if kind == "died":
                    raise WorkerDied(f"its engine failed:\n{content}")
                for columns in content or ():
                    emit(columns)
        except (RayError, StopIteration) as error:
            raise WorkerDied(_first_line(error)) from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
