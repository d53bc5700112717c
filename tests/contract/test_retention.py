"""The retention test on a run with a hall of fame, with an operator of one's own."""

from pathlib import Path
from random import Random

import pytest

from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.errors import ConfigError
from redqueen.evaluate.retention import plan_operator, retention, summarize
from redqueen.stages.evolve.lowrank import Stack
from tests.e2e.processes import TINY


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


@pytest.mark.slow
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
    assert [result.operator for result in results] == ["copy_parent", own]
    assert results[1].verdict == "undecided"  # one child of each tells nothing
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_an_operator_of_ones_own_is_a_crossover_if_it_takes_two_parents() -> None:
    assert plan_operator(f"{__name__}:keep_first").crosses
    assert not plan_operator(f"{__name__}:keep").crosses
    assert plan_operator("linear").crosses and not plan_operator("gaussian").crosses
    with pytest.raises(ConfigError, match="Did you mean 'gaussian'"):
        plan_operator("gausian")


def levels(level: float, children: int, seed: int, noise: float = 0.01) -> list[list[float]]:
    """Of children that climb from half a level to this one, in nine updates."""
    random = Random(seed)
    return [
        [level * min(1, 0.5 + update / 8) + random.gauss(0, noise) for update in range(9)]
        for _ in range(children)
    ]


def test_children_that_stay_behind_copies_are_found_and_others_are_not_accused() -> None:
    copies = levels(0.6, 5, 0)
    assert summarize("worse", levels(0.5, 5, 1), copies).verdict == "worse"
    assert summarize("as good", levels(0.6, 5, 2), copies).verdict == "recovers"
    assert summarize("copy_parent", copies, copies).at_end == 0


def test_a_comparison_without_power_says_that_it_cannot_tell() -> None:
    noisy = summarize("noisy", levels(0.58, 3, 3, noise=0.1), levels(0.6, 3, 4, noise=0.1))
    assert noisy.verdict == "undecided" and noisy.detectable is not None
    precise = summarize("precise", levels(0.58, 8, 3), levels(0.6, 8, 4))
    assert precise.detectable is not None and precise.detectable < noisy.detectable / 4
