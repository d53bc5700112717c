"""A router asks the student that the exam puts first for a kind, and looks at nothing else."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from redqueen.errors import ConfigError
from redqueen.evaluate.replies import Model
from redqueen.evaluate.router import read_routes, routed
from redqueen.evaluate.run_members import select_models
from tests.report.synthetic import Synthetic


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """S0 is best overall, S1 at code_i; S2 is dead, S3 has taken no exam."""
    folder = tmp_path / "run"
    Synthetic(steps=2).write(folder)
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        connection.execute("DELETE FROM exams")
        problems = connection.execute("SELECT problem, kind FROM problems").fetchall()
        kinds = {kind: [key for key, of in problems if of == kind][:10] for _, kind in problems}
        score = {
            "S0": {"code_o": 9, "code_i": 4, "code_f": 9},
            "S1": {"code_o": 2, "code_i": 9, "code_f": 3},
            "S2": {"code_o": 10, "code_i": 10, "code_f": 10},
        }
        connection.executemany(
            "INSERT INTO exams VALUES (0, 2, ?, ?, 10, ?)",
            [
                (member, key, correct)
                for member, own in score.items()
                for kind, correct in own.items()
                for key in kinds.get(kind, ())
            ],
        )
        connection.commit()
    return folder


def test_each_kind_goes_to_the_living_student_that_the_exam_puts_first(run: Path) -> None:
    best, by_kind = read_routes(run, 0, ["S0", "S1", "S3"])
    assert best == "S0"
    assert by_kind["code_i"] == "S1" and by_kind["code_o"] == "S0"


def test_a_router_is_one_model_that_asks_the_slots_of_others(run: Path) -> None:
    students = [Model(name, slot, name, students=3) for slot, name in enumerate(("S3", "S0", "S1"))]
    base = Model("base", 3, role="base")
    router, same = routed([*students, base], run)
    assert same is base and (router.name, router.role, router.is_solver) == (
        "router", "router", False,
    )  # fmt: skip
    assert router.slot_for("code_i") == 2 and router.slot_for("code_o") == 1
    assert router.slot_for("a benchmark") == 1
    assert base.slot_for("code_i") == 3


def test_a_router_needs_an_exam_and_is_measured_by_itself(run: Path) -> None:
    with pytest.raises(ConfigError, match="none of S3 has taken one"):
        read_routes(run, 0, ["S3"])
    models = [Model("S0", 0, "S0"), Model("T0", 1, "T0", "teacher")]
    assert [model.name for model in select_models(models, ["router"])] == ["S0"]
    with pytest.raises(ConfigError, match="a router is measured by itself"):
        select_models(models, ["router", "S0"])
