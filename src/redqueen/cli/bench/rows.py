"""How long the rows of a step take from a worker to the driver: columns through a pipe, and through
Ray."""

import pickle
import random
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

import numpy as np

from redqueen.engine.blocks.columns import Completions, Ragged

ROWS, TOKENS = 4096, 256


def make_columns(rows: int = ROWS, tokens: int = TOKENS) -> Completions:
    """Random ones, as a worker sends them."""
    draws = np.random.default_rng(0)
    values = draws.integers(0, 150_000, rows * tokens, np.int32)
    return Completions(
        np.arange(rows, dtype=np.int32),
        Ragged(np.full(rows, tokens, np.int32), values),
        draws.random(rows * tokens),
        draws.random(rows) < random.Random(0).random(),
    )


def best_ms(call: Callable[[], Any], times: int = 5) -> float:
    """The fastest of some: what the way costs, not what else happened meanwhile."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds) * 1e3


def pipe_ms(columns: Completions) -> float:
    """From one thread to another through the socket that worker processes have."""
    near, far = socket.socketpair()
    with Connection(near.detach()) as ours, Connection(far.detach()) as theirs:

        def receive() -> Any:
            message = pickle.dumps(columns, pickle.HIGHEST_PROTOCOL)
            sender = Thread(target=theirs.send_bytes, args=(message,))
            sender.start()
            received = pickle.loads(ours.recv_bytes())
            sender.join()
            return received

        return best_ms(receive)


class RowsActor:
    def __init__(self) -> None:
        self.columns = make_columns()

    def send(self) -> Completions:
        return self.columns


def ray_ms(address: str) -> float:
    """From an actor of the cluster to this process."""
    from redqueen.sandbox.ray_cluster import import_path, join_cluster

    join_cluster(address, "--address")
    import ray

    options = {"num_cpus": 0, "runtime_env": {"env_vars": import_path()}}
    actor = ray.remote(RowsActor).options(**options).remote()
    try:
        ray.get(actor.send.remote())
        return best_ms(lambda: ray.get(actor.send.remote()))
    finally:
        ray.kill(actor)
