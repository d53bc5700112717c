"""The retention test on a run with a hall of fame, with an operator of one's own."""

from pathlib import Path

import pytest

from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.errors import ConfigError
from redqueen.evaluate.retention import plan_operator, retention
from redqueen.stages.evolve.lowrank import Stack
from tests.e2e.processes import TINY

pytestmark = pytest.mark.slow


def keep_first(first: Stack, second: Stack, settings: object, rng: object) -> Stack:
    """A crossover of one's own."""
    return first


def keep(parent: Stack, settings: object, rng: object) -> Stack:
    """A mutation of one's own."""
    return parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a hall of fame that admits members in every step."""
    folder = tmp_path_factory.mktemp("runs") / "hall"
    hall = ("evolve.hall_of_fame.size=1", "evolve.hall_of_fame.every=1")
    config = load_config("pawn-cpu", [*TINY, "steps=1", "device=cpu", *hall])
    with Run.create(config, folder) as run:
        list(run)
    return folder


def test_a_run_with_a_hall_of_fame_can_be_tested(folder: Path) -> None:
    own = f"{__name__}:keep_first"
    steps: list[tuple[int, int]] = []
    results = retention(
        folder,
        [own],
        seeds=1,
        updates=3,
        problems=2,
        on_update=lambda done, total: steps.append((done, total)),
    )
    assert [result.operator for result in results] == ["copy_parent", "linear", own]
    assert results[2].at_birth == results[0].at_birth  # both are the better parent
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_an_operator_of_ones_own_is_a_crossover_if_it_takes_two_parents() -> None:
    assert plan_operator(f"{__name__}:keep_first").crosses
    assert not plan_operator(f"{__name__}:keep").crosses
    assert plan_operator("linear").crosses and not plan_operator("gaussian").crosses
    with pytest.raises(ConfigError, match="Did you mean 'gaussian'"):
        plan_operator("gausian")
