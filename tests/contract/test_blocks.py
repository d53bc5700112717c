"""Blocks on workers: what comes out depends on the blocks, not on the workers, nor on whether they
live."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.engine.blocks import balance
from redqueen.engine.blocks import processes as processes_module
from redqueen.engine.blocks.balance import Balancer
from redqueen.engine.blocks.columns import Completions, Requests, Samples
from redqueen.engine.blocks.devices import Device
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.processes import Process, launch
from redqueen.engine.blocks.supervisor import WorkerDied
from redqueen.engine.blocks.worker import Call
from redqueen.engine.protocol import (
    Completion,
    EngineSpec,
    SampleRequest,
    TrainSample,
    create_engine,
)
from redqueen.errors import ConfigError, EngineError
from redqueen.evaluate.runner import evaluate
from redqueen.evaluate.targets import open_target
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import digest
from redqueen.testing import check_engine
from tests.contract.forked_workers import Forked

SPEC = EngineSpec(
    "pawn", 4, LoraConfig(rank=2, alpha=4), EngineConfig(block=2, threads=1), device="cpu"
)
STUDY = (
    "steps=2", "base=pawn", "device=cpu", "population.teachers=1", "population.students=1", "tasks.kinds=['code_o']",
    "archive.seeds=pawn", "archive.seed_count=8", "archive.seed_tiers=[2, 3]", "propose.prompts=1", "propose.samples=3",
    "propose.max_tokens=48", "propose.max_prompt_chars=600", "propose.temperature=1.2", "solve.attempts=3", "solve.max_tokens=24",
    "solve.temperature=2", "evolve.every=1", "evolve.share=1.0", "evaluate.suite=", "sandbox.workers=1", "lora.rank=2", "engine.threads=1",
)  # fmt: skip


def play_study(folder: Path, *settings: str) -> str:
    """Four worlds, two steps; the digest of what came of it."""
    arms = [
        (f"arm{seed}", load_config(None, [*STUDY, f"seed={seed}", *settings])) for seed in range(4)
    ]
    with Run.create(arms, folder) as run:
        steps = list(run)
        workers = len(run.engine.workers) if isinstance(run.engine, BlockEngine) else 0
    restarts = [name for name in steps[0].worlds[0].metrics if name.endswith("/restarts")]
    assert len(restarts) == (workers if settings else 0), "workers are in the metrics"
    assert any(state.updates for step in steps for state in step.worlds), "nobody has learned"
    return digest(folder)


@pytest.fixture(scope="module", autouse=True)
def forked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes_module, "launch", Forked)
        yield


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> str:
    return play_study(tmp_path_factory.mktemp("study") / "inline")


@pytest.fixture(scope="module")
def processes(forked: None) -> Iterator[BlockEngine]:
    """Two that are not forked. A slot a block: distances and optimizers cross blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes_module, "launch", launch)
        engine = create_engine("processes", spec_of(type="processes", block=1, workers=2))
    assert isinstance(engine, BlockEngine)
    yield engine
    engine.close()


def spec_of(**settings: Any) -> EngineSpec:
    return replace(SPEC, config=SPEC.config.model_copy(update=settings))


def test_slots_are_split_into_blocks() -> None:
    spec = replace(SPEC, slots=7, worlds=(3, 4))
    blocks = {block: EngineConfig(block=block) for block in ("auto", "world", "all", 3)}
    sizes = {name: BlockLayout.of(replace(spec, config=one)).sizes for name, one in blocks.items()}
    assert sizes == {"auto": (3, 4), "world": (3, 4), "all": (7,), 3: (3, 3, 1)}
    layout = BlockLayout((3, 4))
    assert [layout.find(slot) for slot in (0, 2, 3, 6)] == [(0, 0), (0, 2), (1, 0), (1, 3)]
    with pytest.raises(ConfigError, match="there is no slot 7"):
        layout.find(7)


def test_columns_carry_rows_to_the_bit() -> None:
    requests = [
        SampleRequest((1, 2, 3), 5, 4, 2**64 - 1, 0.1),
        SampleRequest((1, 2, 3), 6, 5, 0),
        SampleRequest((7,), 1, 4),
    ]
    unpacked = Requests.of(requests, 4).unpack()
    assert unpacked == [replace(request, slot=request.slot - 4) for request in requests]
    assert unpacked[0].prompt is unpacked[1].prompt
    finished = [(2, Completion((5, 6), (-0.1, -1 / 3), "stop")), (0, Completion((), (), "length"))]
    assert list(Completions.of(finished).unpack()) == finished
    samples = [
        TrainSample(3, (1, 2), (3, 4), 0.1, (-0.5, -0.25), 0.7),
        TrainSample(2, (1, 2), (3, 4), (1 / 3, -1.0)),
        TrainSample(2, (9,), (3,), (2.0,)),
    ]
    unpacked_samples = Samples.of(samples, 2).unpack()
    assert unpacked_samples == [replace(sample, slot=sample.slot - 2) for sample in samples]


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 2])
def test_blocks_that_take_turns_keep_the_contract(block: int) -> None:
    engine = create_engine("torch", spec_of(block=block))
    assert isinstance(engine, BlockEngine)
    check_engine(engine)


@pytest.mark.slow
def test_processes_keep_the_contract(processes: BlockEngine) -> None:
    check_engine(processes)
    processes.copy_optimizer(0, 3)
    assert processes.base.name == "pawn" and processes.slots == 4
    with pytest.raises(ConfigError, match="there is no slot 4"):
        processes.new(4, 0)
    sampled = sum(worker.usage.sampled_tokens for worker in processes.workers)
    assert sampled > 0 and not any(worker.restarts for worker in processes.workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_records_do_not_depend_on_the_number_of_workers(
    workers: int, tmp_path: Path, inline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance, "WORTH", math.inf)
    settings = ("engine.type=processes", f"engine.workers={workers}")
    assert play_study(tmp_path / "run", *settings) == inline
    with open_run(tmp_path / "run") as run:
        places = run.placements()
    blocks = [row["block"] for row in places]
    assert blocks == [*range(len(blocks))] and {row["step"] for row in places} == {1}, "none moved"
    assert {row["worker"] for row in places} == {*range(workers)}
    assert all(row["host"] and row["device"].startswith("CPU") for row in places)


class Faults:
    """Sends signals to workers: the first time that a call is sent to them, or that completions
    have come from it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, signals: dict[str, int]) -> None:
        self.signals, self.sent = signals, list[str]()
        send, call = Process._send, Process.call

        def send_and_hit(process: Process, message: Any) -> None:
            send(process, message)
            if isinstance(message, tuple) and message[1].name != "sample":
                self.hit(process, message[1].name)

        def call_and_hit(process: Process, block: int, message: Call, emit: Any) -> Any:
            def emit_and_hit(columns: Completions) -> None:
                emit(columns)
                self.hit(process, message.name)

            return call(process, block, message, emit_and_hit)

        monkeypatch.setattr(Process, "_send", send_and_hit)
        monkeypatch.setattr(Process, "call", call_and_hit)

    def hit(self, process: Process, name: str) -> None:
        if name in self.signals and name not in self.sent:
            self.sent.append(name)
            os.kill(process.process.pid, self.signals[name])


@pytest.mark.slow
def test_a_run_outlives_its_workers(
    tmp_path: Path, inline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while sampling, training and saving; one stops doing anything."""
    killed = dict.fromkeys(("sample", "accumulate", "save"), signal.SIGKILL)
    faults = Faults(monkeypatch, {**killed, "step": signal.SIGSTOP})
    settings = ("engine.type=processes", "engine.workers=2", "engine.hang_timeout_s=3")
    assert play_study(tmp_path / "run", *settings) == inline
    assert set(faults.sent) == {"sample", "accumulate", "save", "step"}


@pytest.mark.slow
@pytest.mark.parametrize("kill", ["", "pack", "unpack"])
def test_records_do_not_depend_on_blocks_that_move(
    kill: str, tmp_path: Path, inline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchange(balancer: Balancer, tokens: Any, places: Mapping[int, int]) -> Mapping[int, int]:
        return {**places, 0: places[1], 1: places[0]}

    monkeypatch.setattr(Balancer, "place", exchange)
    faults = Faults(monkeypatch, {kill: signal.SIGKILL} if kill else {})
    settings = ("engine.type=processes", "engine.workers=2")
    assert play_study(tmp_path / "run", *settings) == inline
    assert faults.sent == ([kill] if kill else [])
    with open_run(tmp_path / "run") as run:
        places = run.placements()
    assert len(places) > 4, "blocks have moved"


@pytest.mark.slow
def test_a_call_that_kills_every_worker_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, processes: BlockEngine, tmp_path: Path
) -> None:
    names = {slot: f"0/S{slot}" for slot in range(4)}
    processes.save(tmp_path, names)
    processes.checkpointed(tmp_path)
    before = processes.distances(0, 4)
    send = Process._send

    def kill_and_send(process: Process, message: Any) -> None:
        if isinstance(message, tuple) and message[1].name == "distances":
            process.process.kill()
            process.process.wait()
        send(process, message)

    monkeypatch.setattr(Process, "_send", kill_and_send)
    died = r"died 3 times in the call 'distances' .* code -9, SIGKILL"
    with pytest.raises(EngineError, match=died):
        processes.distances(0, 1)
    assert processes.workers[0].restarts == 2
    monkeypatch.undo()
    assert processes.distances(0, 4) == before, "the next call has a worker again"


def test_a_worker_that_dies_at_once_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(end: Any, device: Any, stderr: Any) -> Any:
        words = "import sys; sys.exit('torch.OutOfMemoryError: CUDA out of memory')"
        return subprocess.Popen([sys.executable, "-c", words], stderr=stderr)

    monkeypatch.setattr(processes_module, "launch", fail)
    died = r"the worker 0 on cpu died while it .* exit code 1:\ntorch.OutOfMemoryError: CUDA out of"
    with pytest.raises(EngineError, match=died):
        create_engine("processes", spec_of(type="processes", workers=1))


def test_a_worker_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(end: Any, device: Any, stderr: Any) -> Any:
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        return subprocess.Popen(words, pass_fds=[end.fileno()])

    monkeypatch.setattr(processes_module, "launch", stop)
    spec = spec_of(type="torch", hang_timeout_s=0.2)
    process = Process(spec, Device("cpu", "cpu"))
    try:
        with pytest.raises(WorkerDied, match="it has read nothing for 0 s"):
            process.call(0, Call("write", (bytes(8 << 20),)), lambda columns: None)
    finally:
        process.close()


@pytest.mark.slow
def test_a_large_redo_log_is_worth_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redqueen.engine.blocks.engine.REDO_BYTES", 0)
    settings = ("engine.type=processes", "engine.workers=1", "ledger.checkpoint_every=100")
    config = load_config(None, [*STUDY, *settings, "steps=3"])
    with Run.create(config, tmp_path / "run") as run:
        run.play_step()
        newest = run.checkpoints.newest(at_most=9)
        assert newest is not None and newest.step == run.step == 1


@pytest.mark.slow
def test_what_a_worker_finds_wrong_is_said_here() -> None:
    spec = replace(spec_of(type="processes", workers=1), fingerprint="bfloat16:0")
    with pytest.raises(ConfigError, match="has other weights than when the members were made"):
        create_engine("processes", spec)


@pytest.mark.slow
def test_a_base_has_its_scores_from_several_workers() -> None:
    scores = []
    for devices in (0, 2):
        target = open_target("pawn", device="cpu", devices=devices)
        try:
            result = evaluate(target, "heldout-quick", limit=16)
        finally:
            target.close()
        scores.append(result.item_scores("base"))
    assert len(scores[0]) == 16 and scores[0] == scores[1]
