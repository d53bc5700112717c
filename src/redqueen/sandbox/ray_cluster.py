"""Joining a Ray cluster: what the engine and the sandbox of type `ray` have in common. Ray is
imported when one is asked for."""

import os
import sys
from pathlib import Path

from redqueen.errors import ConfigError


def join_cluster(address: str, setting: str) -> None:
    """The cluster that this process is in already, or the one at the address. `local` starts one on
    this machine, which ends with this process: without it Ray would join whatever cluster it finds,
    and on a shared machine that may be somebody else's. `setting`: what to name where it fails."""
    try:
        import ray
    except ImportError as error:
        raise ConfigError(f"{setting} needs Ray: pip install 'redqueen[ray]'") from error

    if ray.is_initialized():
        return
    local = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(f"{setting}={address}: Ray cannot be reached: {error}") from error


def import_path() -> dict[str, str]:
    """So that actors on this machine import what this process does. Paths that other machines do
    not have are ignored there."""
    return {"PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path)}
