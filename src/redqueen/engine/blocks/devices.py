"""The devices of this machine that workers get, one each."""

import os
from dataclasses import dataclass, field

from redqueen.engine.protocol import EngineSpec
from redqueen.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    """For messages and the ledger, such as cuda:1."""
    torch: str
    """What torch calls it in a process that sees no other."""
    environment: dict[str, str] = field(default_factory=dict)


def local_devices(spec: EngineSpec) -> list[Device]:
    """As many as `engine.workers` says, else all of `engine.devices`."""
    config = spec.config
    gpus = [] if spec.device == "cpu" else visible_gpus()
    if config.devices:
        if strange := [number for number in config.devices if number >= len(gpus)]:
            raise ConfigError(
                f"engine.devices names GPU {strange[0]}, but {len(gpus)} are to be seen here"
            )
        gpus = [gpus[number] for number in config.devices]
    if not gpus:
        return cpu_workers(config.workers, config.threads or 1)
    workers = config.workers or len(gpus)
    if workers > len(gpus):
        raise ConfigError(f"engine.workers={workers}: there are {len(gpus)} GPUs, one for each")
    return [Device(f"cuda:{gpu}", "cuda", {"CUDA_VISIBLE_DEVICES": gpu}) for gpu in gpus[:workers]]


def cpu_workers(workers: int, threads: int) -> list[Device]:
    """One for as many cores as it has threads. The number of threads decides how sums are rounded,
    so it is a setting, and the number of workers follows from it."""
    count = workers or max(1, len(os.sched_getaffinity(0)) // threads)
    own = {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    return [Device("cpu", "cpu", own) for _ in range(count)]


def visible_gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them."""
    import torch

    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name for name in names.split(",") if name][: torch.cuda.device_count()]
