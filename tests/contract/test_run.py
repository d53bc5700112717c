"""A run of scripted members: stopped and resumed it leaves the same records, it ends early with a
reason, and it says what it did."""

import contextlib
import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from redqueen.cli.report import report
from redqueen.core.run import Run
from redqueen.engine.protocol import OptimizerSettings, StepStats
from redqueen.engine.text_sampler import OnText, TextCompletion, TextRequest
from redqueen.errors import RedQueenError
from redqueen.ledger.runs import new_folder
from redqueen.ledger.store import digest, open_to_read
from tests.scripted import (
    CountingEngine,
    Script,
    ScriptedArm,
    ScriptedSampler,
    Stopped,
    TrustingSandbox,
    both,
    play,
    scripted_run,
    scripted_worlds,
    student,
    teacher,
)

TEACHERS: Sequence[Script] = [teacher(0.0, 1.0), teacher(1.0, 2.0, valid=0.8)]
STUDENTS: Sequence[Script] = [student(0.0), student(1.0)]
EVOLVING = ("evolve.every=2", "evolve.share=0.5")


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


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(open_to_read(folder)) as connection:
        return [tuple(row) for row in connection.execute(query)]


# going on


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint_every", [1, 3])
def test_a_run_that_is_stopped_anywhere_and_resumed_has_the_records_of_one_that_is_not(
    tmp_path: Path, checkpoint_every: int
) -> None:
    settings = ("steps=5", f"ledger.checkpoint_every={checkpoint_every}", *EVOLVING)
    played(tmp_path / "straight", *settings)
    for stops in ([2], range(1, 5)):
        folder = tmp_path / f"stopped-{len(stops)}"
        for stop in stops:
            played(folder, *settings, until=stop)
        played(folder, *settings)
        assert digest(folder) == digest(tmp_path / "straight")
    assert rows(tmp_path / "straight", "SELECT count(*) FROM deaths") == [(4,)]


def test_a_run_that_dies_within_a_step_keeps_the_steps_before(tmp_path: Path) -> None:
    played(tmp_path / "straight", "steps=4")

    class Dies(CountingEngine):
        def accumulate(self, *args: Any) -> Any:
            raise MemoryError

    with scripted_run(tmp_path / "run", TrustingSandbox(), TEACHERS, STUDENTS, ["steps=4"]) as run:
        play(run, 2)
        run.ports.engine = Dies(4)
        with pytest.raises(MemoryError):
            play(run)
    assert rows(tmp_path / "run", "SELECT max(step) FROM marks") == [(2,)]
    played(tmp_path / "run", "steps=4")
    assert digest(tmp_path / "run") == digest(tmp_path / "straight")


def test_an_invalid_checkpoint_is_logged_and_the_one_before_it_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    played(tmp_path / "straight", "steps=4", *EVOLVING)
    folder = tmp_path / "run"
    played(folder, "steps=4", *EVOLVING)
    broken = folder / "checkpoints" / "000004" / "weights.json"
    broken.write_bytes(broken.read_bytes()[:-1])
    settings = ["steps=4", *EVOLVING]
    with scripted_run(folder, TrustingSandbox(), TEACHERS, STUDENTS, settings) as run:
        assert run.step == 3
        play(run)
    (logged,) = caplog.messages
    assert "000004 cannot be used: weights.json" in logged and "an older one" in logged
    assert digest(folder) == digest(tmp_path / "straight")


def test_without_any_checkpoint_a_run_cannot_go_on_and_its_ledger_is_left_alone(
    tmp_path: Path,
) -> None:
    played(tmp_path, "steps=3")
    before = digest(tmp_path)
    for state in tmp_path.glob("checkpoints/*/state.json"):
        state.write_text("{}")
    with pytest.raises(
        RedQueenError, match=r"no checkpoint of the run in .* can be read.*ledger is intact"
    ):
        played(tmp_path, "steps=3")
    assert digest(tmp_path) == before


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    played(tmp_path / "straight", "steps=2")
    with scripted_run(tmp_path / "run", TrustingSandbox(), TEACHERS, STUDENTS, ["steps=2"]) as run:
        run.checkpoints.folder.rename(tmp_path / "gone")
    played(tmp_path / "run", "steps=2")
    assert digest(tmp_path / "run") == digest(tmp_path / "straight")


def test_equal_seeds_have_equal_digests_and_others_do_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        played(tmp_path / name, "steps=2", f"seed={seed}")
    digests = [digest(tmp_path / name) for name in "abc"]
    assert digests[0] == digests[1] != digests[2]


def test_a_reader_in_the_middle_of_a_transaction_does_not_stop_the_run(tmp_path: Path) -> None:
    with scripted_run(tmp_path, TrustingSandbox(), TEACHERS, STUDENTS, ["steps=4"]) as run:
        play(run, 1)
        with contextlib.closing(open_to_read(tmp_path)) as connection:
            connection.execute("BEGIN")
            assert connection.execute("SELECT max(step) FROM marks").fetchone()[0] == 1
            play(run)
            assert connection.execute("SELECT max(step) FROM marks").fetchone()[0] == 1
    assert run.step == 4


def test_runs_without_a_name_get_folders_of_their_own(tmp_path: Path) -> None:
    assert [new_folder(tmp_path / "runs", "pawn-cpu").name for _ in range(3)] == [
        "pawn-cpu-1",
        "pawn-cpu-2",
        "pawn-cpu-3",
    ]
    (tmp_path / "file").touch()
    with pytest.raises(RedQueenError, match="Choose another folder with --out"):
        new_folder(tmp_path / "file", "pawn-cpu")


# ending early


def ends(folder: Path, reason: str, *settings: str, teachers: Sequence[Script]) -> int:
    """The run ends with this reason; and once more, at once, when it is resumed. The step it came
    to is returned."""
    with pytest.raises(Stopped, match=reason):
        played(folder, *settings, teachers=teachers)
    ((step,),) = rows(folder, "SELECT max(step) FROM marks")
    with pytest.raises(Stopped, match=reason):
        played(folder, *settings, teachers=teachers)
    assert rows(folder, "SELECT max(step) FROM marks") == [(step,)]
    return int(step)


def test_a_run_without_valid_problems_ends_and_says_so(tmp_path: Path) -> None:
    silent = [teacher(0.0, valid=-1.0)] * 2
    assert (
        ends(
            tmp_path,
            r"after step 3: no proposal was a valid problem in 3 steps.*verify/rejected",
            "steps=9",
            "stop.steps_without_problem=3",
            teachers=silent,
        )
        == 3
    )
    assert rows(tmp_path, "SELECT DISTINCT name, value FROM metrics WHERE name LIKE 'verify/%' ORDER BY name") == [
        ("verify/rejected/malformed", 8.0), ("verify/valid_frac", 0.0), ("verify/valid_frac/code_o", 0.0),
        ("verify/voided_frac", 0.0),
    ]  # fmt: skip


def test_the_last_step_of_a_run_that_ends_early_has_a_checkpoint(tmp_path: Path) -> None:
    silent = [teacher(0.0, valid=-1.0)] * 2
    assert (
        ends(
            tmp_path,
            "after step 3",
            "steps=9",
            "stop.steps_without_problem=3",
            "ledger.checkpoint_every=5",
            teachers=silent,
        )
        == 3
    )
    assert (tmp_path / "checkpoints" / "000003").is_dir()


def test_a_world_that_has_come_to_its_end_leaves_the_others_playing(tmp_path: Path) -> None:
    settings = ("steps=6", "stop.steps_without_problem=2")
    silent = [teacher(0.0, valid=-1.0)] * len(TEACHERS)
    arms = [
        ScriptedArm("run", TEACHERS, STUDENTS, settings),
        ScriptedArm("silent", silent, STUDENTS, settings),
    ]
    with scripted_worlds(tmp_path, TrustingSandbox(), arms) as run:
        play(run)
    assert rows(tmp_path, "SELECT world, max(step) FROM metrics GROUP BY world ORDER BY world") == [
        (0, 6),
        (1, 2),
    ]
    assert (run.worlds[0].stopped, run.worlds[1].stopped[:55]) == (
        "",
        "stopped after step 2: no proposal was a valid problem i",
    )


def test_a_run_in_which_nobody_can_learn_ends_and_says_so(tmp_path: Path) -> None:
    """All problems are trivial: everybody earns the same, always."""
    settings = ("steps=9", "stop.steps_without_update=4")
    assert (
        ends(
            tmp_path,
            r"after step 4: in 4 steps no member had anything to learn",
            *settings,
            teachers=[teacher(-99.0)] * 2,
        )
        == 4
    )
    assert rows(tmp_path, "SELECT count(*) FROM updates") == [(0,)]


def test_a_lazy_step_between_others_ends_nothing(tmp_path: Path) -> None:
    run = played(
        tmp_path,
        "steps=8",
        "stop.steps_without_problem=3",
        "propose.samples=1",
        teachers=[teacher(0.0, valid=0.5)],
        students=[student(0.0)],
    )
    assert run.step == 8
    assert (0.0,) in rows(tmp_path, "SELECT value FROM metrics WHERE name = 'verify/valid_frac'")


def test_members_that_have_become_one_end_the_run_once_all_have_learned(tmp_path: Path) -> None:
    class Sticky(CountingEngine):
        def distances(self, first: int, count: int) -> list[list[float]]:
            return [[0.001] * count] * count

    with scripted_run(
        tmp_path, TrustingSandbox(), TEACHERS, STUDENTS, ["steps=9", "stop.least_distance=0.01"]
    ) as run:
        run.ports.engine = Sticky(4)
        with pytest.raises(
            Stopped,
            match=r"two members of the role (teacher|student) have become one \(distance 0.001, stop.least_distance=0.01\)",
        ):
            play(run)
    assert all(
        member.version for member in run.worlds[0].members if member.role == "student"
    ) or all(member.version for member in run.worlds[0].members if member.role == "teacher")


def test_children_inherit_and_change_learning_rates_and_temperatures(tmp_path: Path) -> None:
    asked: list[TextRequest] = []

    class Listening(ScriptedSampler):
        def sample(
            self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
        ) -> list[TextCompletion]:
            asked.extend(requests)
            return super().sample(requests, temperature, on_finish)

    perturb = [
        "evolve.perturb.temperature_factor=1.25",
        "evolve.perturb.learning_rate_factor=2",
        "update.learning_rate=1e-3",
    ]
    with scripted_run(
        tmp_path, TrustingSandbox(), TEACHERS, STUDENTS, ["steps=3", *EVOLVING, *perturb]
    ) as run:
        run.ports.sampler = Listening(dict(enumerate([*TEACHERS, *STUDENTS])))
        play(run)
    children = [member for member in run.worlds[0].members if member.born == 2]
    assert len(children) == 2
    for child in children:
        assert child.temperature in (pytest.approx(1.25), pytest.approx(0.8))
        assert child.learning_rate in (pytest.approx(2e-3), pytest.approx(5e-4))
        mine = {ask.temperature for ask in asked if ask.slot == child.slot}
        assert mine == {None, child.temperature}  # before its birth the slot was another's


def test_a_child_too_near_to_others_is_mutated_further(tmp_path: Path) -> None:
    class Near(CountingEngine):
        """Everybody is near until a second write in a row."""

        writes = 0

        def write(self, slot: int, weights: Any, *, reset_optimizer: bool) -> None:
            self.writes += 1

        def distances(self, first: int, count: int) -> list[list[float]]:
            return [[0.5 if self.writes % 3 else 2.0] * count] * count

    with scripted_run(
        tmp_path,
        TrustingSandbox(),
        TEACHERS,
        STUDENTS,
        ["steps=2", *EVOLVING, "evolve.least_distance=1.0"],
    ) as run:
        run.ports.engine = Near(4)
        play(run)
    settings = [
        json.loads(text) for (text,) in rows(tmp_path, "SELECT settings FROM births WHERE step = 2")
    ]
    assert [one["further"] for one in settings] == [2, 2]


def test_past_members_play_again_but_learn_nothing(tmp_path: Path) -> None:
    settings = [
        "steps=6",
        *EVOLVING,
        "evolve.hall_of_fame.size=2",
        "evolve.hall_of_fame.every=1",
        "evolve.hall_of_fame.share=1.0",
    ]
    scripts = dict(
        enumerate([*TEACHERS, *STUDENTS, *TEACHERS, *STUDENTS])
    )  # two past teachers, two past students
    with scripted_run(tmp_path / "a", TrustingSandbox(), TEACHERS, STUDENTS, settings) as run:
        assert len(run.ports.engine.weights) == 8  # type: ignore[attr-defined]
        run.ports.sampler = ScriptedSampler(scripts)
        play(run)
    veterans = [veteran.member.id for veteran in run.worlds[0].hall_of_fame]
    assert [name.split("@")[0][0] for name in veterans] == ["T", "T", "S", "S"]
    played_again = rows(
        tmp_path / "a",
        "SELECT count(*) FROM pairings WHERE teacher LIKE '%@%' OR student LIKE '%@%'",
    )
    assert played_again == [(10,)]  # from the second step on, one side of every pairing
    assert rows(
        tmp_path / "a",
        "SELECT count(*) FROM pairings WHERE teacher LIKE '%@%' AND student LIKE '%@%'",
    ) == [(0,)]
    for table in ("updates", "ratings", "births"):
        assert rows(tmp_path / "a", f"SELECT count(*) FROM {table} WHERE member LIKE '%@%'") == [
            (0,)
        ]
    for until in (2, None):  # stopped and gone on with
        with scripted_run(tmp_path / "b", TrustingSandbox(), TEACHERS, STUDENTS, settings) as run:
            run.ports.sampler = ScriptedSampler(scripts)
            play(run, until)
    assert digest(tmp_path / "b") == digest(tmp_path / "a")
    report([tmp_path / "a"])


def test_probabilities_that_are_no_numbers_end_the_world_and_nothing_is_learned_from_them(
    tmp_path: Path,
) -> None:
    class Broken(ScriptedSampler):
        def complete(self, request: TextRequest) -> TextCompletion:
            completion = super().complete(request)
            return replace(completion, rollout=replace(completion.rollout, logprobs=(math.nan,)))

    with scripted_run(tmp_path, TrustingSandbox(), TEACHERS, STUDENTS, ["steps=3"]) as run:
        play(run, 1)
        run.ports.sampler = Broken(dict(enumerate([*TEACHERS, *STUDENTS])))
        with pytest.raises(
            Stopped,
            match=r"after step 2: T0, T1, S0, S1 diverged: NaN in the gradient or in sampled log-prob",
        ):
            play(run)
    assert rows(tmp_path, "SELECT count(*) FROM updates WHERE step = 2") == [(0,)]
    assert rows(tmp_path, "SELECT count(*) FROM attempts WHERE step = 2 AND logprob > -1e300") == [
        (0,)
    ]


def test_a_gradient_that_is_no_number_ends_the_world_and_says_whose(tmp_path: Path) -> None:
    class Broken(CountingEngine):
        def step(self, slots: Mapping[int, OptimizerSettings]) -> StepStats:
            return replace(super().step(slots), diverged=frozenset([2]))

    with scripted_run(tmp_path, TrustingSandbox(), TEACHERS, STUDENTS, ["steps=3"]) as run:
        play(run, 1)
        run.ports.engine = Broken(run.config.slots)
        with pytest.raises(Stopped, match=r"after step 2: S0 diverged"):
            play(run)
    assert rows(tmp_path, "SELECT max(step) FROM marks") == [(2,)]
    assert rows(tmp_path, "SELECT count(*) FROM updates WHERE step = 2 AND member = 'S0'") == [(0,)]


# who plays


def test_in_self_play_members_learn_from_both_roles_unrated_and_nobody_is_replaced(
    tmp_path: Path,
) -> None:
    members = [both(teacher(0.0, 1.0), student(0.5))] * 3
    run = played(
        tmp_path, "steps=4", "match.scheme=self_play", *EVOLVING, teachers=[], students=members
    )
    assert [(one.id, one.role) for one in run.worlds[0].members] == [
        ("B0", "both"),
        ("B1", "both"),
        ("B2", "both"),
    ]
    assert rows(tmp_path, "SELECT DISTINCT teacher = student, score, winner FROM pairings") == [
        (1, None, None)
    ]
    assert rows(tmp_path, "SELECT count(DISTINCT mu) FROM ratings") == [(1,)]
    assert rows(tmp_path, "SELECT count(*) FROM deaths") == [(0,)]
    ((wrote, learned),) = rows(
        tmp_path,
        "SELECT (SELECT count(*) FROM proposals) + (SELECT count(*) FROM attempts), sum(samples) FROM updates",
    )
    assert 0 < learned <= wrote
    assert rows(tmp_path, "SELECT count(*) FROM proposals WHERE advantage != 0")[0] > (0,)


def test_every_student_gets_the_fixed_problems_of_a_small_file_in_every_step(
    tmp_path: Path,
) -> None:
    problems = [
        {
            "kind": "code_o",
            "program": f"def f(x):\n    level = 0.0\n    return x + {number}\n",
            "inputs": ["3"],
        }
        for number in (11, 12, 13, 13)
    ]
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    run = played(
        tmp_path / "run",
        "steps=3",
        f"fixed.source={path}",
        *EVOLVING,
        teachers=[],
        students=[student(0.0), student(1.0)],
    )
    assert [one.id for one in run.worlds[0].members] == ["S0", "S1"]
    counted = rows(
        tmp_path / "run",
        "SELECT step, student, count(DISTINCT problem), count(*) FROM attempts GROUP BY step, student",
    )
    assert counted == [(step, name, 3, 12) for step in (1, 2, 3) for name in ("S0", "S1")]
    assert rows(tmp_path / "run", "SELECT count(*) FROM problems") == [(3,)]
    assert rows(tmp_path / "run", "SELECT DISTINCT teacher, tokens, advantage FROM proposals") == [
        ("fixed", 0, 0.0)
    ]
    assert rows(tmp_path / "run", "SELECT DISTINCT rejection FROM proposals ORDER BY 1") == [
        (None,),
        ("duplicate",),
    ]
    assert rows(tmp_path / "run", "SELECT count(*) FROM deaths") == [(0,)]


def test_one_proposal_a_prompt_is_compared_with_the_others_of_its_kind(tmp_path: Path) -> None:
    played(
        tmp_path,
        "steps=3",
        "propose.samples=1",
        "propose.prompts=6",
        teachers=[teacher(0.0, 1.0)],
        students=[student(0.5)],
    )
    assert rows(tmp_path, "SELECT count(*) > 0 FROM proposals WHERE advantage != 0") == [(1,)]


def test_of_the_attempts_at_a_problem_only_some_are_trained_on_if_so_set(tmp_path: Path) -> None:
    played(
        tmp_path,
        "steps=3",
        "update.attempts=1",
        "update.estimator=trr_pp",
        teachers=[teacher(0.0, 1.0)],
        students=[student(0.5)],
    )
    trained = rows(tmp_path, "SELECT DISTINCT attempt FROM attempts WHERE advantage != 0")
    assert trained == [(0,)]
    assert rows(tmp_path, "SELECT max(attempt) FROM attempts") == [(3,)]


def test_more_students_than_teachers_all_play(tmp_path: Path) -> None:
    played(tmp_path, "steps=2", teachers=[teacher(0.0)], students=[student(0.0)] * 3)
    assert rows(tmp_path, "SELECT step, count(DISTINCT student), count(DISTINCT teacher) FROM attempts JOIN pairings USING (step, student) GROUP BY step") == [
        (1, 3, 1), (2, 3, 1),
    ]  # fmt: skip


# what is written down


def test_children_take_their_parents_place_and_their_lineage_is_in_the_ledger(
    tmp_path: Path,
) -> None:
    run = played(tmp_path, "steps=4", *EVOLVING)
    dead = dict(rows(tmp_path, "SELECT member, step FROM deaths"))
    for name, step, parents, operator in rows(
        tmp_path, "SELECT member, step, parents, operator FROM births WHERE step > 0"
    ):
        assert name.partition(".")[2] == str(step)
        assert json.loads(parents) and operator != "new"
        assert all(
            dead.get(parent, 99) > step for parent in json.loads(parents)
        )  # the dead do not breed
    living = {member.id for member in run.worlds[0].members}
    assert living == {name for (name,) in rows(tmp_path, "SELECT member FROM births")} - set(dead)
    assert {member.version for member in run.worlds[0].members if member.born == 4} == {0}
    assert len(living) == 4


def test_every_stage_leaves_its_figures_and_its_time(tmp_path: Path) -> None:
    played(tmp_path, "steps=2", *EVOLVING)
    names = {name for (name,) in rows(tmp_path, "SELECT name FROM metrics WHERE step = 2")}
    assert names >= {
        "propose/count", "propose/tokens", "propose/nll", "propose/length", "propose/cut_off_frac", "verify/valid_frac", "verify/valid_frac/code_o", "solve/pass_rate",
        "solve/pass_rate/code_o", "solve/nll", "solve/length", "reward/teacher", "reward/student", "update/advantage", "update/samples_frac",
        "complexity/ast_depth", "complexity/cyclomatic", "complexity/loc", "complexity/variables", "complexity/steps_executed", "coverage/cells",
        "coverage/behaviours", "population/distance/teacher", "population/least_distance/student", "archive/size", "evolve/replaced",
    }  # fmt: skip
    assert {stage for (stage,) in rows(tmp_path, "SELECT stage FROM timings WHERE step = 2")} == {
        "match",
        "propose",
        "verify",
        "solve",
        "reward",
        "rate",
        "update",
        "evolve",
        "record",
        "ledger",
        "checkpoint",
    }
    ((wrong,),) = rows(
        tmp_path,
        "SELECT count(*) FROM pairings WHERE valid > proposals OR correct > attempts OR score < 0 OR score > 1",
    )
    assert wrong == 0


def test_what_the_ledger_says_of_a_pairing_is_what_its_attempts_say(tmp_path: Path) -> None:
    played(tmp_path, "steps=3")
    query = """SELECT p.correct, (SELECT count(*) FROM attempts a JOIN proposals q USING (step, proposal) WHERE a.step = p.step AND q.pairing = p.pairing
               AND a.verdict = 'correct'), p.valid, (SELECT count(*) FROM proposals q WHERE q.step = p.step AND q.pairing = p.pairing AND q.problem IS NOT NULL)
               FROM pairings p"""
    assert all(row[0] == row[1] and row[2] == row[3] for row in rows(tmp_path, query))


def test_a_ledger_can_be_read_by_plain_sqlite(tmp_path: Path) -> None:
    played(tmp_path, "steps=1")
    with contextlib.closing(
        sqlite3.connect(f"file:{tmp_path / 'run.sqlite'}?mode=ro", uri=True)
    ) as connection:
        assert connection.execute("SELECT count(*) FROM attempts").fetchone()[0] > 0


def test_texts_come_in_any_order_and_make_no_difference(tmp_path: Path) -> None:
    class Shuffled(ScriptedSampler):
        def sample(
            self, requests: Sequence[TextRequest], temperature: float, on_finish: OnText
        ) -> list[TextCompletion]:
            waiting: list[TextCompletion] = []
            completions = super().sample(requests, temperature, waiting.extend)
            Random(len(requests)).shuffle(waiting)
            while waiting:
                on_finish([waiting.pop() for _ in range(min(len(waiting), 7))])
            return completions

    played(tmp_path / "straight", "steps=3")
    with scripted_run(tmp_path / "run", TrustingSandbox(), TEACHERS, STUDENTS, ["steps=3"]) as run:
        run.ports.sampler = Shuffled(dict(enumerate([*TEACHERS, *STUDENTS])))
        play(run)
    assert digest(tmp_path / "run") == digest(tmp_path / "straight")
