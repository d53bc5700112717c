"""Fixtures: one sandbox and one Pawn for all tests of a process. Nothing is downloaded by a test."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from redqueen.config.sandbox import SandboxConfig
from redqueen.sandbox.pool import SandboxPool

if TYPE_CHECKING:
    from redqueen.models.base import Base

os.environ["HF_HUB_OFFLINE"] = "1"
# cuBLAS reads this once, at its first call; deterministic pre-training needs it
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# the test processes share the cores already: more threads would wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")
if not Path("/dev/nvidiactl").exists():
    # read when Triton is imported: without a GPU its kernels run in the interpreter
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `gpu` are skipped where there is none."""
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a GPU")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `device` runs on the CPU, and on the GPU where there is one."""
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@pytest.fixture(scope="session")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(SandboxConfig(workers=2)) as pool:
        yield pool


@pytest.fixture(scope="session")
def other_pawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Pawn by its name and shape, with other weights."""
    from safetensors.torch import load_file, save_file

    from redqueen.models.base import PAWN

    folder = Path(shutil.copytree(PAWN, tmp_path_factory.mktemp("bases") / "other"))
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.3.mlp.up_proj.weight"] *= 1.01
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def pawn() -> "Base":
    from redqueen.models.base import load_base

    return load_base("pawn", device="cpu")
