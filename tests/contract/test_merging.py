"""Students restart from their merge: who is a parent, who restarts, and what the lineage says."""

import pytest

from redqueen.core.state import StepState
from redqueen.stages.evolve import evolve
from redqueen.stages.solve import answer
from tests.problems import rated_world, scripted_ports
from tests.scripted import CountingEngine


def merged(*settings: str, step: int = 40, diverged: bool = False) -> tuple[StepState, list[float]]:
    """One teacher and four students, the later the fitter, after the stage; and all weights."""
    world = rated_world([25.0], [20.0, 21.0, 22.0, 23.0], "evolve.fitness=rating", *settings)
    state = StepState(world, step, diverged=["S3"] if diverged else [])
    ports = scripted_ports()
    engine = ports.engine = CountingEngine(world.config.slots)
    engine.weights[:] = [9.0, 1.0, 2.0, 3.0, 6.0]
    evolve([state], ports, answer)
    return state, engine.weights


def test_all_students_restart_from_their_mean_and_teachers_do_not() -> None:
    state, weights = merged("evolve.every=0", "evolve.merge_every=20")
    assert weights == pytest.approx([9.0, 3.0, 3.0, 3.0, 3.0])
    assert [member.id for member in state.world.members] == [
        "T0", "S0.40", "S1.40", "S2.40", "S3.40",
    ]  # fmt: skip
    assert {birth.parents for birth in state.births} == {("S3", "S2", "S1", "S0")}
    assert {birth.operator for birth in state.births} == {"merge mean"}
    assert sorted(death.member.id for death in state.deaths) == ["S0", "S1", "S2", "S3"]
    assert all(birth.member.rating.mu == 21.5 for birth in state.births)
    assert state.metrics["evolve/merged"] == 4


def test_a_share_of_one_half_restarts_the_weaker_half() -> None:
    state, weights = merged("evolve.every=0", "evolve.merge_every=40", "evolve.merge_share=0.5")
    assert weights == pytest.approx([9.0, 3.0, 3.0, 3.0, 6.0])
    assert [member.id for member in state.world.members if member.role == "student"] == [
        "S0.40", "S1.40", "S2", "S3",
    ]  # fmt: skip


def test_a_child_of_this_step_is_no_parent_and_stays() -> None:
    state, _ = merged(
        "evolve.every=40", "evolve.crossover_share=1", "evolve.crossovers=['copy_parent']",
        "evolve.merge_every=40",
    )  # fmt: skip
    child, *restarted = state.births
    assert child.operator == "copy_parent" and child.member.id == "S0.40"
    assert [birth.member.id for birth in restarted] == ["S3.40", "S2.40", "S1.40"]
    assert {birth.parents for birth in restarted} == {("S3", "S2", "S1")}


@pytest.mark.parametrize(
    ("settings", "diverged"),
    [(("evolve.merge_every=0",), False), (("evolve.merge_every=30",), False),
     (("evolve.merge_every=20",), True)],
)  # fmt: skip
def test_nobody_restarts_between_merges_or_in_a_diverged_world(
    settings: tuple[str, ...], diverged: bool
) -> None:
    state, weights = merged("evolve.every=0", *settings, diverged=diverged)
    assert weights == [9.0, 1.0, 2.0, 3.0, 6.0] and not state.births
