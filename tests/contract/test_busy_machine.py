"""Beside other programs: torch's threads go where there is room, and no record changes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest
import torch

from redqueen.config.toml import find_recipe, load_config
from redqueen.core.run import Run
from redqueen.engine.cpu_load import LoadMeter, family_seconds, measure_spare, own_cores
from redqueen.engine.protocol import SampleRequest, SamplingParams
from redqueen.engine.torch.cores import CORES
from redqueen.engine.torch.engine import TorchEngine
from redqueen.ledger.run_reader import open_run
from redqueen.models.base import Base

needs_two_cores = pytest.mark.skipif(len(own_cores()) < 2, reason="needs two cores")


@pytest.fixture
def threads() -> Iterator[None]:
    """Two threads on at most two cores."""
    count, cores = torch.get_num_threads(), own_cores()
    torch.set_num_threads(2)
    os.sched_setaffinity(0, sorted(cores)[:2])
    yield
    CORES.spread()
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(count)


@contextmanager
def another_program(core: int) -> Iterator[None]:
    """That uses all of this core."""
    code = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def test_the_cores_that_others_use_are_seen() -> None:
    core = min(own_cores())
    meter = LoadMeter()
    with another_program(core):
        assert measure_spare(0.3)[core] < 0.5
        assert meter.others() > 0.5


@pytest.mark.slow
@needs_two_cores
def test_threads_leave_a_core_that_another_program_uses(
    threads: None,
    pawn: Base,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = TorchEngine(pawn, 2)
    requests = [SampleRequest((5, 6, 7), 40, seed % 2, seed) for seed in range(64)]
    caplog.set_level("INFO")
    monkeypatch.setattr(CORES, "_told", False)
    with another_program(min(own_cores())):
        for _ in range(2):
            CORES.spread()
            end = time.monotonic() + 60
            while CORES.count == 2 and time.monotonic() < end:
                engine.sample(requests, SamplingParams())
            assert CORES.count == 1
    assert caplog.text.count("other programs use") == 1  # though it came twice
    assert len(own_cores()) == 2  # again, for processes that are started now


@pytest.mark.slow
def test_records_are_the_same_beside_another_program(threads: None, tmp_path: Path) -> None:
    """While threads move from core to core."""
    roles = ("population.teachers=1", "population.students=1")
    short = ("propose.max_tokens=96", "solve.max_tokens=64", "steps=1")
    config = load_config(find_recipe("pawn-cpu"), [*roles, *short])
    places = cycle([{core} for core in own_cores()])
    with Run.create(config, tmp_path / "quiet") as run:
        list(run)
    with Run.create(config, tmp_path / "busy") as run, another_program(min(own_cores())):
        run.ports.on_progress = lambda stage, done, total: CORES.gather(next(places))
        list(run)
    quiet, busy = (open_run(tmp_path / name) for name in ("quiet", "busy"))
    assert quiet.digest() == busy.digest()
    assert len(busy.updates()) == 2
    assert [row["value"] for row in busy.metrics() if row["name"] == "time/cores"] == [1]


def test_what_our_own_processes_compute_is_not_said_to_be_others() -> None:
    before, load, own = family_seconds(), LoadMeter(with_children=True), LoadMeter()
    work = "import time\nwhile time.process_time() < 0.6: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    assert family_seconds() - before > 0.5
    assert load.others() < own.others(), "to whoever counts children as others, they are"
