"""Blocks and sandboxes on Ray actors: a simulated cluster of machines that are lost and join."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.cli.bench.sandbox import make_jobs
from redqueen.config.sandbox import SandboxConfig
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.protocol import create_engine
from redqueen.errors import ConfigError
from redqueen.sandbox.pool import SandboxPool
from tests.contract.test_blocks import inline, play_study, spec_of

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'redqueen[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own
__all__ = ["inline"]  # a fixture


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three machines with room for one worker each; the first one cannot be lost."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000}
    small = {"object_store_memory": 100 << 20}
    system = {**quick, "health_check_failure_threshold": 3}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": system, **small}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1, **small)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_run_outlives_an_actor_and_a_machine(
    cluster: Any, tmp_path: Path, inline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redqueen.engine.blocks.ray import Actor

    call, hit = Actor.call, list[str]()

    def call_and_hit(actor: Actor, block: int, message: Any, emit: Any) -> Any:
        if message.name == "accumulate" and not hit:
            hit.append("actor")
            os.kill(actor.hello.pid, signal.SIGKILL)

        def emit_and_hit(columns: Any) -> None:
            emit(columns)
            if hit == ["actor"] and (node := node_of(cluster, actor)):
                hit.append("machine")
                cluster.remove_node(node, allow_graceful=False)

        return call(actor, block, message, emit_and_hit)

    monkeypatch.setattr(Actor, "call", call_and_hit)
    settings = ("engine.type=ray", "engine.workers=2")
    assert play_study(tmp_path / "run", *settings) == inline
    assert hit == ["actor", "machine"]


def test_a_sandbox_on_ray_gives_the_outcomes_of_a_pool_and_outlives_its_actors(
    cluster: Any,
) -> None:
    from redqueen.sandbox.ray import RaySandbox

    until(lambda: ray.available_resources().get("CPU", 0) >= 2)
    batch = make_jobs(24, stable=True)
    with SandboxPool(SandboxConfig(workers=1)) as pool:
        walls, expected = pool.walls, [outcome.results for outcome in pool.run(batch)]
    config = SandboxConfig(type="ray", cores=1, workers=2)
    with RaySandbox(config) as sandbox:
        assert sandbox.walls == walls
        assert [outcome.results for outcome in sandbox.run(batch)] == expected
        os.kill(ray.get(sandbox.actors[0].pid.remote()), signal.SIGKILL)
        assert [outcome.results for outcome in sandbox.run(batch)] == expected
        assert sandbox.run([]) == []
    with pytest.raises(ConfigError, match=r"room for . pools with 64 each"):
        RaySandbox(SandboxConfig(type="ray", cores=64))


def test_the_places_of_a_cluster_are_checked(cluster: Any, tmp_path: Path) -> None:
    words = ["cluster", "check", "--engine=ray", "--workers=1", f"--out={tmp_path}", "--json"]
    result = CliRunner().invoke(app, words)
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and report["ready"], report["problems"]
    assert report["places"][0]["walls"] and report["places"][0]["rows_ms"] > 0


def test_blocks_follow_the_cluster(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine joins and gets a block; it is lost, and the other one takes it back."""
    from redqueen.engine.blocks.ray import Actor

    while cluster.worker_nodes:
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    until(lambda: ray.cluster_resources().get("CPU") == 1)
    engine = create_engine("ray", spec_of(type="ray", block=2))
    assert isinstance(engine, BlockEngine)

    def has_two() -> bool:
        engine.checkpointed(tmp_path)
        return len(engine.workers) == 2

    try:
        for slot in range(4):
            engine.new(slot, slot)
        before = [engine.read(slot) for slot in range(4)]
        names = {slot: f"0/S{slot}" for slot in range(4)}
        engine.save(tmp_path, names)
        node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        until(has_two)
        assert [worker.number for worker in engine.workers] == [0, 1]
        assert_equal(before, [engine.read(slot) for slot in range(4)])
        call = Actor.call

        def call_and_lose(actor: Actor, block: int, message: Any, emit: Any) -> Any:
            if block == 1 and node in cluster.worker_nodes:
                cluster.remove_node(node, allow_graceful=False)
            return call(actor, block, message, emit)

        monkeypatch.setattr(Actor, "call", call_and_lose)
        monkeypatch.setattr("redqueen.engine.blocks.ray.PLACE_S", 2.0)
        assert_equal(before, [engine.read(slot) for slot in range(4)])
        assert len(engine.workers) == 1
    finally:
        engine.close()


def assert_equal(left: Any, right: Any) -> None:
    for one, other in zip(left, right, strict=True):
        for name, (a, b) in one.projections.items():
            assert torch.equal(a, other.projections[name].a), name
            assert torch.equal(b, other.projections[name].b), name


def until(there: Any) -> None:
    end = time.monotonic() + 240  # on a busy machine an interpreter takes its time
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)


def node_of(cluster: Any, actor: Any) -> Any:
    """None for the first machine."""
    from ray._private.state import actors

    (found,) = [one for one in actors().values() if one["Pid"] == actor.hello.pid]
    home = found["Address"]["NodeID"]
    return next((node for node in cluster.worker_nodes if node.node_id == home), None)
