"""Blocks on Ray actors: a simulated cluster of three machines, of which one is lost."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_blocks import inline, play_study

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'redqueen[ray]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own
__all__ = ["inline"]  # a fixture


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three machines with room for one worker each."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    from ray.cluster_utils import Cluster

    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000}
    small = {"object_store_memory": 100 << 20}
    system = {**quick, "health_check_failure_threshold": 3}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": system, **small}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(3):
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
            if hit == ["actor"]:
                hit.append("machine")
                cluster.remove_node(node_of(cluster, actor), allow_graceful=False)

        return call(actor, block, message, emit_and_hit)

    monkeypatch.setattr(Actor, "call", call_and_hit)
    settings = ("engine.type=ray", "engine.workers=2")
    assert play_study(tmp_path / "run", *settings) == inline
    assert hit == ["actor", "machine"]


def node_of(cluster: Any, actor: Any) -> Any:
    from ray._private.state import actors

    (found,) = [one for one in actors().values() if one["Pid"] == actor.hello.pid]
    home = found["Address"]["NodeID"]
    (node,) = [node for node in cluster.worker_nodes if node.node_id == home]
    return node
