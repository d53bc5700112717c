"""`redqueen eval` on a run and its members: asked together, set beside the base, kept in the ledger
without changing what the run was."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import redqueen
from redqueen.cli.app import app
from redqueen.cli.evaluate import evaluate
from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.engine.torch.engine import TorchEngine
from redqueen.errors import ConfigError
from redqueen.evaluate.run_members import select_members
from redqueen.evaluate.targets import open_target
from redqueen.ledger.lock import RunLock
from redqueen.ledger.members import choose_member, newest_checkpoint, saved_members
from redqueen.ledger.store import digest, open_to_read
from redqueen.models.base import PAWN, load_base
from redqueen.models.peft_io import load_adapter
from redqueen.stages.evolve.merge import merge_adapters
from tests.contract.benchmark_items import write_items
from tests.e2e.processes import TINY, tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """A run of two steps that was measured on a benchmark after each of them."""
    folder = tmp_path_factory.mktemp("runs") / "played"
    measured = (
        "evaluate.suite=cruxeval-o",
        "evaluate.every=1",
        "evaluate.limit=2",
        f"evaluate.data={data}",
    )
    words = tiny(folder, "steps=2", "device=cpu", "update.learning_rate=0.05", *measured)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def folder(played: Path, tmp_path: Path) -> Path:
    """A copy that a test may write to."""
    return Path(shutil.copytree(played, tmp_path / "run"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Which slots each call of the engine asks, where it asks anybody."""
    found: list[set[int]] = []
    whole = TorchEngine.sample

    def counted(self: TorchEngine, rows: Any, *others: Any, **more: Any) -> Any:
        found.extend([{row.slot for row in rows}] if rows else [])
        return whole(self, rows, *others, **more)

    monkeypatch.setattr(TorchEngine, "sample", counted)
    return found


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(open_to_read(folder)) as connection:
        return [tuple(row) for row in connection.execute(query)]


def other_student(folder: Path) -> str:
    """A living student that is not the chosen one."""
    checkpoint = newest_checkpoint(folder)
    chosen = checkpoint.state["worlds"][0]["chosen"]
    return next(
        member.id
        for member in saved_members(checkpoint, 0)
        if member.role == "student" and member.id != chosen
    )


def run(target: Path | str, suites: list[str], data: Path, *members: str, **options: Any) -> None:
    evaluate(
        str(target),
        suites,
        list(members),
        data=data,
        device="cpu",
        max_tokens=6,
        limit=3,
        as_json=True,
        **options,
    )


def test_a_run_is_measured_on_several_suites_at_the_same_steps(tmp_path: Path) -> None:
    folder = tmp_path / "several"
    words = tiny(
        folder,
        "steps=2",
        "device=cpu",
        "evaluate.suite=heldout-quick",
        'evaluate.others=["heldout-deduction"]',
        "evaluate.every=1",
        "evaluate.limit=2",
        'evaluate.members=["students", "soup"]',
        'evaluate.between=["soup"]',
        "evaluate.votes=2",
        "evaluate.vote_limit=1",
    )
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "heldout-deduction: soup" in result.output
    query = "SELECT suite, step, count(DISTINCT item) FROM evals WHERE subject = '{}' GROUP BY 1, 2"
    names = ("heldout-deduction", "heldout-quick")
    assert rows(folder, query.format("soup")) == [
        (name, step, 2) for name in names for step in (1, 2)
    ]
    *whole, voted = rows(folder, query.format("base"))
    assert whole == [(name, 2, 2) for name in ("heldout-deduction", "heldout-quick")]
    assert voted == ("heldout-quick, 2 votes", 2, 1)
    students = rows(folder, "SELECT DISTINCT step FROM evals WHERE subject GLOB 'S*'")
    assert students == [(2,)], "before the end only the soup is measured"


def test_a_run_is_measured_on_a_benchmark_while_it_is_played(played: Path) -> None:
    query = "SELECT step, count(DISTINCT subject), count(*), min(kind), min(item) FROM evals WHERE suite = 'cruxeval-o' GROUP BY step"
    assert rows(played, query) == [
        (1, 5, 10, "cruxeval-o-3", "sample_0"),  # two students, soup, chosen, vote
        (2, 6, 12, "cruxeval-o-3", "sample_0"),  # and the base
    ]
    assert (
        rows(played, "SELECT DISTINCT subject FROM evals WHERE step = 1 AND subject LIKE 'T%'")
        == []
    )


def test_all_members_of_a_run_and_the_base_are_asked_in_one_call(
    folder: Path, data: Path, calls: list[set[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    before = digest(folder)
    run(folder, ["cruxeval-o", "heldout-quick"], data)
    found = json.loads(capsys.readouterr().out)
    living = [name for (name,) in rows(folder, "SELECT member FROM ratings WHERE step = 2")]
    assert calls == [{0, 1, 2, 3, 4, 5}] * 2  # a call for each suite; one is the soup
    assert (found["target"], found["run"], found["step"]) == ("run", str(folder), 2)
    row = found["suites"]["cruxeval-o"]
    assert sorted(row["members"]) == sorted(living) and len(living) == 4
    assert row["populations"][0]["members"] == [
        name for name in row["members"] if name.startswith("S")
    ]
    handed_over = {"mean", "soup", "chosen", "majority_vote", "union_pass"}
    assert handed_over < row["populations"][0].keys()
    assert all("against_base" in member for member in row["members"].values())
    assert (
        found["suites"]["heldout-quick"]["populations"][0]["majority_vote"]["n"] == 1
    )  # one of three is about an output
    kept = rows(
        folder,
        "SELECT suite, count(*), min(kind), count(DISTINCT subject) FROM evals WHERE suite LIKE 'eval/%' GROUP BY suite",
    )
    assert kept[0] == (
        "eval/cruxeval-o (cruxeval-o-3, base, greedy, 6 tokens, float32)",
        24,
        "cruxeval-o-3",
        8,  # four members, their soup, the chosen one, the vote, and the base
    )
    assert kept[1][0].startswith("eval/heldout-quick (compact-")
    assert kept[1][2:] == ("code_f", 9)  # the base with its reasoning forced, too
    assert digest(folder) == before
    run(folder, ["cruxeval-o"], data)  # what was asked once is not asked again
    assert json.loads(capsys.readouterr().out)["suites"]["cruxeval-o"] == row
    assert calls == [{0, 1, 2, 3, 4, 5}] * 2


def test_a_member_of_a_run_is_named_behind_it_or_by_an_option_and_was_asked_once(
    folder: Path, data: Path, calls: list[set[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    name = other_student(folder)
    run(f"{folder}/{name}", ["cruxeval-o"], data)
    found = json.loads(capsys.readouterr().out)
    run(folder, ["cruxeval-o"], data, name)
    assert json.loads(capsys.readouterr().out) == found
    assert found["target"] == f"run/{name}"
    assert {"accuracy", "base", "against_base"} < found["suites"]["cruxeval-o"].keys()
    assert rows(
        folder, "SELECT DISTINCT subject FROM evals WHERE suite LIKE 'eval/%' ORDER BY subject"
    ) == [(name,), ("base",)]
    run(folder, ["cruxeval-o"], data, "students")
    assert (
        json.loads(capsys.readouterr().out)["suites"]["cruxeval-o"]["base"]
        == found["suites"]["cruxeval-o"]["base"]
    )
    assert [len(slots) for slots in calls] == [
        2,
        1,
    ]  # the member and the base, then the other student alone


def test_what_a_run_hands_over_is_measured_by_name(
    folder: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("soup", "chosen"):
        run(folder / name, ["cruxeval-o"], data)
        found = json.loads(capsys.readouterr().out)
        assert found["target"] == f"run/{name}"
        assert "against_base" in found["suites"]["cruxeval-o"]
    run(folder / "vote", ["cruxeval-o"], data, samples=3)
    found = json.loads(capsys.readouterr().out)["suites"]["cruxeval-o"]
    (together,) = found["populations"]
    vote, union = together["majority_vote"], together["union_pass"]
    assert vote["votes"] == union["k"] == 3  # two of one student, one of the other
    assert {"base", "against_base"} < vote.keys() and "against_base" in union
    query = "SELECT subject, count(DISTINCT sample) FROM evals WHERE suite LIKE '%3 at%' GROUP BY 1"
    counts = dict(rows(folder, query))
    assert sorted(counts[name] for name in counts if name[0] == "S") == [1, 2]
    assert counts["base"] == 3 and {"vote", "base vote"} < counts.keys()
    with pytest.raises(ConfigError, match="a vote is measured by itself"):
        select_members(folder, ["vote", "S0"])


def test_the_soup_that_is_asked_is_the_merge_of_the_students(folder: Path) -> None:
    target = open_target(folder / "soup", device="cpu")
    engine = target.batches[0].sampler.sampler  # type: ignore[attr-defined]
    saved = saved_members(newest_checkpoint(folder), 0)
    students = [load_adapter(one.adapter) for one in saved if one.role == "student"]
    soup = merge_adapters(students)
    assert len(students) == 2
    for name, pair in engine.read(0).projections.items():
        assert pair.b.allclose(soup.projections[name].b, atol=1e-6)


def test_the_weights_that_are_asked_are_those_of_the_member(folder: Path) -> None:
    import torch

    target = open_target(folder, ["students"], device="cpu")
    assert [model.role for model in target.models] == ["student", "student", "base", "base"]
    assert [model.name for model in target.models][-2:] == ["base", "base, reasoning forced"]
    engine = target.batches[0].sampler.sampler  # type: ignore[attr-defined]
    checkpoint = newest_checkpoint(folder)
    member = choose_member(saved_members(checkpoint, 0), target.models[1].name)
    expected = load_adapter(member.adapter)
    loaded, base = engine.read(1).projections, engine.read(2).projections
    assert all(
        torch.equal(one, other)
        for name, pair in expected.projections.items()
        for one, other in zip(loaded[name], pair, strict=True)
    )
    assert all(pair.b.abs().sum() == 0 for pair in base.values())  # it adds nothing


def test_a_live_run_is_evaluated_as_its_checkpoint_would_be(tmp_path: Path) -> None:
    settings = [*TINY, "steps=1", "device=cpu", "update.learning_rate=0.05"]
    with Run.create(load_config("pawn-cpu", settings), tmp_path / "live") as live:
        list(live)
        with pytest.raises(ConfigError, match="unknown living member 'S9'"):
            redqueen.evaluate(live, "heldout-quick", members=["students", "S9"])
        with pytest.raises(ConfigError, match="there is no world 1"):
            open_target(live, world=1)
        named = open_target(live, ["teachers"]).models
        teachers = [one.id for one in live.worlds[0].members if one.role == "teacher"]
        assert [model.name for model in named] == [*teachers, "base", "base, reasoning forced"]
        weights = [live.engine.read(slot) for slot in range(4)]
        result = redqueen.evaluate(live, "heldout-quick", limit=3, max_tokens=6)
        assert rows(live.folder, "SELECT count(*) FROM evals") == [(0,)]
        for slot, before in enumerate(weights):  # the soup was in the slot of a student
            after = live.engine.read(slot).projections
            assert all(pair.b.equal(after[name].b) for name, pair in before.projections.items())
    saved = redqueen.evaluate(
        redqueen.open_run(tmp_path / "live"),
        "heldout-quick",
        members=["students", "soup"],
        limit=3,
        max_tokens=6,
        device="cpu",
    )
    assert [model.name for model in result.models] == [model.name for model in saved.models]
    assert {model.name for model in result.under_test} == {
        "soup",
        *(model.name for model in result.solvers),
    }
    assert [reply.reply for reply in result.replies] == [reply.reply for reply in saved.replies]
    assert result.difference is not None and result.n == 3
    assert result.to_json() == saved.to_json()


def test_a_run_that_is_being_played_is_measured_but_not_written_to(
    folder: Path, data: Path, calls: list[set[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    with RunLock(folder):
        run(folder, ["cruxeval-o"], data, "students")
    out, err = capsys.readouterr()
    assert "cruxeval-o is not in the ledger of the run: another process is at it" in err
    assert json.loads((folder / "evals/step-000002-cruxeval-o.json").read_text()) == json.loads(out)
    assert rows(folder, "SELECT count(*) FROM evals WHERE suite LIKE 'eval/%'") == [(0,)]
    run(folder, ["cruxeval-o"], data, "students")
    # two students, the chosen one, their vote and the base
    assert rows(folder, "SELECT count(*) FROM evals WHERE suite LIKE 'eval/%'") == [(15,)]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("inner", "members", "world", "message"),
    [
        ("/S9", (), None, "unknown living member 'S9'.*Choose from: S.*students"),
        ("", ("nobody",), None, "unknown living member 'nobody'"),
        ("", (), 3, "there is no world 3: this run has 1"),
        ("/3/S0", (), None, "there is no world 3"),
        ("/../..", ("S0",), None, "choose from a run"),
    ],
)
def test_who_is_not_there_is_named_with_those_that_are(
    played: Path, inner: str, members: tuple[str, ...], world: int | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        select_members(f"{played}{inner}", members, world)


def test_a_population_is_shown_as_a_table_of_members_and_what_they_do_together(
    folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    words = [
        "--suite",
        "gsm8k",
        "--samples",
        "2",
        "--max-tokens",
        "4",
        "--device",
        "cpu",
        "--data",
        str(data),
        "--member",
        "students",
    ]
    result = CliRunner().invoke(app, ["eval", str(folder), *words])
    assert result.exit_code == 0, result.output
    table = result.output.rpartition("─")[2]
    shown = [re.split(r"\s{2,}", line.strip())[0] for line in table.splitlines() if line.strip()]
    chosen = shown[4].removeprefix("chosen, ")
    assert (
        shown[0] == "base"
        and chosen in shown[1:3]
        and shown[3:]
        == [
            "mean of 2 members",
            f"chosen, {chosen}",
            "vote of 2",
            "the base: vote of 2",
            "union pass@2",
            "the base: union pass@2",
        ]
    )
    assert "gsm8k: 2 items, 2 at temperature 0.8" in result.output and "% pass@2" in result.output
    assert rows(folder, "SELECT DISTINCT suite FROM evals WHERE suite LIKE 'eval/%'") == [
        ("eval/gsm8k (maths-1, base, 2 at temperature 0.8, 4 tokens, float32)",)
    ]


def remember(folder: Path, weights: str | None) -> None:
    """Let the run say that its base had these weights; None: let it say nothing."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        connection.execute("DELETE FROM run WHERE name = 'base_weights'")
        if weights is not None:
            connection.execute("INSERT INTO run VALUES ('base_weights', ?)", (weights,))


def test_members_are_not_put_on_another_base_than_theirs(
    folder: Path, data: Path, tmp_path: Path
) -> None:
    assert rows(folder, "SELECT value FROM run WHERE name = 'base_weights'") == [
        (load_base("pawn", device="cpu").fingerprint,)
    ]
    before = digest(folder)
    for weights in (
        "bfloat16:0",
        None,
    ):  # a run on Pawn that says nothing was made on an earlier one
        remember(folder, weights)
        with pytest.raises(ConfigError, match="other weights than when the members were made"):
            run(folder, ["cruxeval-o"], data)
        out = str(tmp_path / "out")
        for words in (
            ["resume", "--steps", "3"],
            ["export", "--member", other_student(folder), "--merged", "--out", out],
            ["retention"],
        ):
            result = CliRunner().invoke(app, [words[0], str(folder), *words[1:]])
            assert result.exit_code != 0
            assert "other weights than when the members were made" in str(result.exception), (
                words,
                result.output,
            )
    assert rows(folder, "SELECT max(step) FROM marks") == [(2,)]
    assert digest(folder) == before


def test_a_base_that_has_moved_is_found_again_and_known_by_its_weights(
    folder: Path, data: Path, tmp_path: Path
) -> None:
    moved = str(shutil.copytree(PAWN, tmp_path / "moved"))
    run(folder, ["cruxeval-o"], data, base=moved, dtype="bfloat16")
    before = digest(folder)
    result = CliRunner().invoke(app, ["resume", str(folder), "--base", moved])
    assert result.exit_code == 0, result.output
    assert digest(folder) == before  # all steps were played
    assert (
        CliRunner()
        .invoke(
            app,
            [
                "export",
                str(folder),
                "--member",
                other_student(folder),
                "--base",
                moved,
                "--out",
                str(tmp_path / "out"),
            ],
        )
        .exit_code
        == 0
    )
    names = [
        name
        for (name,) in rows(folder, "SELECT DISTINCT suite FROM evals WHERE suite LIKE 'eval/%'")
    ]
    assert names == ["eval/cruxeval-o (cruxeval-o-3, base, greedy, 6 tokens, bfloat16)"]
