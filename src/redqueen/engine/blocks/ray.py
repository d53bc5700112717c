"""`engine.type = "ray"`: one actor a GPU, on the machines of a Ray cluster.

Ray places actors, moves columns and notices deaths. It restarts nothing: what a worker knew is in
our checkpoint and redo log.
"""

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.processes import start, worker_spec
from redqueen.engine.blocks.ray_worker import RayWorker
from redqueen.engine.blocks.supervisor import Supervisor, WorkerDied
from redqueen.engine.blocks.worker import Call, Emit, Hello
from redqueen.engine.protocol import EngineSpec
from redqueen.engine.usage import Usage
from redqueen.errors import ConfigError

try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise ConfigError("engine.type=ray needs Ray: pip install 'redqueen[ray]'") from error


class RayEngine:
    """The row of the table: makes an engine of actors."""

    @staticmethod
    def create(spec: EngineSpec) -> BlockEngine:
        join_cluster(spec.config.address)
        layout, threads = BlockLayout.of(spec), spec.config.threads or 1
        on_gpu = spec.device != "cpu" and bool(ray.cluster_resources().get("GPU"))
        own = replace(worker_spec(spec, layout), device="cuda" if on_gpu else "cpu")
        needs = {"num_gpus": 1, "num_cpus": 1} if on_gpu else {"num_cpus": threads}
        free = int(ray.cluster_resources().get("GPU" if on_gpu else "CPU", 0))
        possible = free if on_gpu else free // threads
        count = min(spec.config.workers or possible, len(layout.sizes))
        if count > possible or not count:
            raise ConfigError(
                f"engine.workers={count}: the Ray cluster has room for {possible} "
                f"({'one GPU' if on_gpu else f'{threads} CPUs'} each)"
            )
        environment = {"OMP_NUM_THREADS": str(threads), **_import_path()}
        workers = [
            Supervisor(
                f"the worker {number} on Ray",
                partial(Actor, own, {**needs, "runtime_env": {"env_vars": environment}}),
                range(number, len(layout.sizes), count),
            )
            for number in range(count)
        ]
        return start(layout, workers, spec)


def join_cluster(address: str) -> None:
    """The cluster that this process is in already, or the one at the address. `local` starts one on
    this machine, which ends with this process: without it Ray would join whatever cluster it finds,
    and on a shared machine that may be somebody else's."""
    if ray.is_initialized():
        return
    local = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"engine.address={address}: Ray cannot be reached: {error}") from error


def _import_path() -> dict[str, str]:
    """So that actors on this machine import what this process does. Paths that other machines do
    not have are ignored there."""
    return {"PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path)}


class Actor:
    """A worker that is a Ray actor."""

    hello: Hello

    def __init__(self, spec: EngineSpec, options: dict[str, Any]) -> None:
        self._timeout = spec.config.hang_timeout_s
        self._actor = ray.remote(RayWorker).options(max_restarts=0, **options).remote()
        try:
            kind, content = ray.get(self._actor.start.remote(spec))
        except RayError as error:
            raise WorkerDied(_first_line(error)) from error
        if kind == "failed":
            raise content
        self.hello = content

    def call(self, block: int, call: Call, emit: Emit) -> tuple[Any, Usage]:
        try:
            stream = self._actor.call.options(num_returns="streaming").remote(block, call)
            while True:
                if not ray.wait([stream], timeout=self._timeout)[0]:
                    raise WorkerDied(f"nothing came from it for {self._timeout:.0f} s")
                kind, content = ray.get(next(stream))
                if kind == "done":
                    result, usage = content
                    return result, usage
                if kind == "failed":
                    raise content
                for columns in content:
                    emit(columns)
        except (RayError, StopIteration) as error:
            raise WorkerDied(_first_line(error)) from error

    def close(self) -> None:
        ray.kill(self._actor)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
