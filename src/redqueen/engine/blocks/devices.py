"""The devices of this machine that workers get, one each."""

import os
from dataclasses import dataclass, field

from redqueen.config.engine import EngineConfig
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
                f"engine.devices names GPU {strange[0]}, but {len(gpus)} are visible here"
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


def device_memory(device: str, config: EngineConfig) -> int:
    """Bytes of the GPU that computes, of the smallest where there are several; 0 for a CPU. All of
    it, whatever other programs hold: a run is not to depend on them."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return 0
    count, numbers = torch.cuda.device_count(), config.devices
    if config.type != "processes":
        numbers = (int(device.partition(":")[2] or 0),)
    here = [number for number in numbers or range(count) if number < count]
    sizes = (torch.cuda.get_device_properties(number).total_memory for number in here)
    return min(map(int, sizes), default=0)  # a GPU that is not there: its engine says so
