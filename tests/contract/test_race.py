"""What keeps the race balanced, and what it costs: several students a problem, frozen teachers,
replay, steered teachers, a budget of tokens, cross-play."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from redqueen.core.archive import Archive
from redqueen.core.run import Run
from redqueen.core.state import StepState
from redqueen.core.world import World
from redqueen.ledger.run_reader import RunReader, open_run
from redqueen.ledger.store import digest
from redqueen.records import Author
from redqueen.rng import stream
from redqueen.stages.evolve import evolve
from redqueen.stages.solve import answer
from tests.problems import addition, rated_world, scripted_ports
from tests.scripted import (
    CountingEngine,
    Script,
    Stopped,
    TrustingSandbox,
    both,
    play,
    scripted_run,
    student,
    teacher,
)

TEACHERS: Sequence[Script] = [teacher(0.0, 1.0), teacher(1.0, 2.0, valid=0.8)]
STUDENTS: Sequence[Script] = [student(0.0), student(1.0)]


def played(
    folder: Path,
    *settings: str,
    teachers: Sequence[Script] = TEACHERS,
    students: Sequence[Script] = STUDENTS,
    until: int | None = None,
) -> Run:
    with scripted_run(folder, TrustingSandbox(), teachers, students, settings) as run:
        play(run, until)
    return run


def metric(reader: RunReader, name: str) -> list[float]:
    return [row["value"] for row in reader.metrics() if row["name"] == name]


# several students


def test_attempts_are_split_between_students_and_each_is_rated_and_trained_by_its_own(
    tmp_path: Path,
) -> None:
    settings = (
        "steps=3",
        "match.students_per_problem=2",
        "solve.attempts=6",
        "reward.teacher=regret",
    )
    strong_and_weak = [student(3.0), student(-2.0)]
    played(tmp_path, *settings, teachers=[teacher(0.0)] * 2, students=strong_and_weak)
    with open_run(tmp_path) as reader:
        attempts, proposals = reader.attempts(), reader.proposals()
        for row in proposals:
            own = [
                a for a in attempts if (a["step"], a["proposal"]) == (row["step"], row["proposal"])
            ]
            assert Counter(a["student"] for a in own) == {"S0": 3, "S1": 3}
            rates = [
                sum(a["verdict"] == "correct" for a in own if a["student"] == name) / 3
                for name in ("S0", "S1")
            ]
            assert row["solve_rate"] == pytest.approx(sum(rates) / 2)
            sometimes = 0 < sum(rates) < 2
            assert row["reward"] == pytest.approx(max(rates) - sum(rates) / 2 if sometimes else 0)
        pairings = reader.pairings()
        assert len(pairings) == 3 * 4 and {row["attempts"] for row in pairings} == {12}
        assert sum(row["attempts"] for row in pairings) == len(attempts)
        ratings = {row["member"]: row["mu"] for row in reader.ratings() if row["step"] == 3}
        assert ratings["S0"] > 25 > ratings["S1"]
        scores = {
            name: [row["score"] for row in pairings if row["student"] == name]
            for name in ("S0", "S1")
        }
        assert min(score for score in scores["S0"] if score is not None) > 0.5


# who is trained


@pytest.mark.parametrize(
    "rates", ["update.teacher_learning_rate=0", "population.learning_rates=[0, 0]"]
)
def test_frozen_teachers_propose_and_are_not_trained(tmp_path: Path, rates: str) -> None:
    run = played(tmp_path, "steps=3", rates)
    with open_run(tmp_path) as reader:
        assert {row["member"] for row in reader.updates()} == {"S0", "S1"}
        assert {row["teacher"] for row in reader.proposals()} == {"T0", "T1"}
        assert any(row["advantage"] for row in reader.proposals())
        assert sum(row["tokens"] for row in reader.updates()) == run.worlds[0].trained_tokens > 0
    assert isinstance(run.engine, CountingEngine)
    assert run.engine.weights[:2] == [0.0, 0.0] and all(run.engine.weights[2:])


def test_teachers_may_have_a_loss_and_a_kl_of_their_own(tmp_path: Path) -> None:
    class Told(CountingEngine):
        calls: list[tuple[frozenset[int], str | int, float]] = []  # noqa: RUF012

        def accumulate(self, samples, loss, kl=0.0):  # type: ignore[no-untyped-def]
            slots = frozenset(sample.slot for sample in samples)
            self.calls.append((slots, loss.average, kl))
            return super().accumulate(samples, loss, kl)

    settings = (
        "steps=1",
        "update.kl=0.1",
        "update.teacher_kl=0",
        "update.teacher_loss.type=dr_grpo",
    )
    with scripted_run(tmp_path, TrustingSandbox(), TEACHERS, STUDENTS, settings) as run:
        run.ports.engine = Told(4)
        play(run)
    told = {slots <= {0, 1}: (average, kl) for slots, average, kl in Told.calls}
    assert told == {True: (1024, 0.0), False: ("tokens", 0.1)}
    with open_run(tmp_path) as reader:
        assert {row["member"] for row in reader.updates()} == {"T0", "T1", "S0", "S1"}


# replay


def archive_of(rates: Sequence[float], steps: Sequence[int]) -> Archive:
    archive = Archive(100)
    for number, (rate, step) in enumerate(zip(rates, steps, strict=True)):
        problem = addition(number, author=Author(f"T{number % 2}", 0))
        archive.add(problem)
        archive.solved(problem.key, rate, step)
    return archive


def test_problems_solved_half_of_the_time_and_stale_ones_are_replayed_more() -> None:
    def count(archive: Archive, staleness: float) -> Counter[str]:
        rng = stream(0, "replay")
        return Counter(
            problem.gold[0]
            for _ in range(600)
            for problem in archive.sample_to_replay(1, 10, staleness, rng)
        )

    by_balance = count(archive_of([0.5, 0.1, 0.0, 1.0], [5] * 4), 0.0)
    assert by_balance["1"] / 600 == pytest.approx(0.25 / 0.34, abs=0.06)
    assert by_balance["3"] == by_balance["4"] == 0
    by_age = count(archive_of([0.5] * 3, [9, 6, 10]), 1.0)
    assert by_age["2"] / 600 == pytest.approx(4 / 5, abs=0.06) and by_age["3"] == 0


def test_replay_leaves_out_an_author_and_what_was_never_attempted() -> None:
    archive = archive_of([0.5] * 10, [1] * 10)
    archive.add(addition(99))
    problems = archive.sample_to_replay(99, 5, 0.3, stream(0, "replay"), without="T1")
    assert {problem.author for problem in problems} == {Author("T0", 0)} and len(problems) == 5


def test_a_share_of_students_problems_is_replayed_and_trains_no_teacher(tmp_path: Path) -> None:
    run = played(tmp_path, "steps=6", "archive.replay_share=0.5")
    with open_run(tmp_path) as reader:
        replayed = [row for row in reader.attempts() if row["proposal"] < 0]
        fresh = [row for row in reader.attempts() if row["proposal"] >= 0]
        late = [[row for row in rows if row["step"] > 3] for rows in (replayed, fresh)]
        assert len(late[0]) == pytest.approx(len(late[1]), rel=0.2)
        posed = {row["problem"]: row["step"] for row in reader.problems()}
        assert all(posed[row["problem"]] < row["step"] for row in replayed)
        assert any(row["advantage"] for row in replayed)
        assert sum(metric(reader, "replay/count")) == len(replayed) / 4
        assert sum(metric(reader, "replay/tokens")) == sum(row["tokens"] for row in replayed)
        assert len(reader.proposals()) == 6 * 8
        assert sum(metric(reader, "solve/count")) == len(fresh)
    last = run.worlds[0].archive.last_solved
    assert max(one.step for one in last.values()) == 6


def test_by_default_the_archive_takes_what_is_solved_sometimes(tmp_path: Path) -> None:
    levels = [teacher(-99.0, 0.0, 99.0)] * 2
    kept, every = (
        played(tmp_path / policy, "steps=3", f"archive.policy={policy}", teachers=levels).worlds[0]
        for policy in ("solved_sometimes", "all")
    )
    assert all(0 < last.solve_rate < 1 for last in kept.archive.last_solved.values())
    assert {0.0, 1.0} < {last.solve_rate for last in every.archive.last_solved.values()}


# steering


@pytest.mark.parametrize(("level", "rises"), [(-3.0, True), (3.0, False)])
def test_teachers_learn_faster_while_problems_are_too_easy_and_slower_while_they_are_too_hard(
    tmp_path: Path, level: float, rises: bool
) -> None:
    settings = ("steps=5", "update.target_pass_rate=0.5", "update.target_bounds=[0.8, 1.25]")
    run = played(tmp_path, *settings, teachers=[teacher(level)] * 2)
    with open_run(tmp_path) as reader:
        factors = metric(reader, "update/teacher_rate_factor")
    assert factors == sorted(factors, reverse=not rises) and len(factors) == 5
    world = run.worlds[0]
    assert world.teacher_rate_factor == factors[-1] == (1.25 if rises else 0.8)
    rates = [world.learning_rate(world.by_id(name)) for name in ("T0", "S0")]
    assert rates == pytest.approx([factors[-1] * 3e-4, 3e-4])


def test_a_world_ends_when_it_has_trained_on_its_tokens_and_has_chosen_a_student(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        Stopped, match=r"after step \d: [\d,]+ tokens trained \(stop.tokens=5,000\)"
    ):
        played(tmp_path, "steps=50", "stop.tokens=5000")
    with open_run(tmp_path) as reader:
        tokens = [0] * (reader.steps + 1)
        for row in reader.updates():
            tokens[row["step"]] += row["tokens"]
        assert sum(tokens) >= 5000 > sum(tokens[:-1])
        assert {row["step"] for row in reader.fitness()} == {reader.steps}


# both roles


def test_in_cross_play_members_learn_both_roles_from_each_other_and_evolve(tmp_path: Path) -> None:
    members = [both(teacher(0.0, 1.0), student(skill)) for skill in (0.0, 2.0, -3.0)]
    settings = ("steps=4", "match.scheme=cross_play", "evolve.every=4", "evolve.share=0.34")
    run = played(tmp_path, *settings, teachers=[], students=members)
    with open_run(tmp_path) as reader:
        assert all(row["teacher"] != row["student"] for row in reader.pairings())
        assert {row["member"] for row in reader.updates()} == {"B0", "B1", "B2"}
        assert [row["member"] for row in reader.deaths()] == ["B2"]
        assert {row["measure"] for row in reader.fitness()} == {"exam"}
    assert run.worlds[0].chosen == "B1"


# children


def test_a_child_may_go_on_with_its_parents_optimizer() -> None:
    class Moments(CountingEngine):
        copied: list[tuple[int, int]] = []  # noqa: RUF012

        def copy_optimizer(self, source: int, target: int) -> None:
            self.copied.append((source, target))

    settings = (
        "evolve.child.optimizer=parent",
        "evolve.crossover_share=0",
        "evolve.fitness=rating",
    )
    world: World = rated_world([25.0], [20.0, 21.0, 22.0, 23.0], *settings)
    ports = scripted_ports()
    ports.engine = Moments(world.config.slots)
    state = StepState(world, 40)
    evolve([state], ports, answer)
    (birth,) = state.births
    assert Moments.copied == [(world.by_id(birth.parents[0]).slot, birth.member.slot)]


# all at once


@pytest.mark.slow
def test_a_balanced_race_that_is_stopped_anywhere_has_the_records_of_one_that_is_not(
    tmp_path: Path,
) -> None:
    settings = (
        "steps=6", "evolve.every=2", "evolve.share=0.5", "archive.replay_share=0.4", "match.students_per_problem=2",
        "update.target_pass_rate=0.5", "reward.teacher=learnability", "evolve.teacher_fitness=progress",
        "ledger.checkpoint_every=2",
    )  # fmt: skip
    played(tmp_path / "straight", *settings)
    for stop in (1, 3, 4, 5, None):
        played(tmp_path / "stopped", *settings, until=stop)
    assert digest(tmp_path / "stopped") == digest(tmp_path / "straight")
    with open_run(tmp_path / "straight") as reader:
        assert reader.exams() and metric(reader, "replay/count")
        measures = {row["measure"] for row in reader.fitness() if row["role"] == "teacher"}
    assert "progress" in measures
