"""A kind that has no program and needs no sandbox plays a whole run: archive, evolution, ledger,
resume, report and export."""

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

import redqueen as rq
from redqueen.config.sandbox import SandboxConfig
from redqueen.core.run import Run
from redqueen.errors import ConfigError, DataError
from redqueen.ledger.store import digest, open_to_read
from redqueen.tasks.kind import Kind, Verified, load_problem, problem_fields
from redqueen.tasks.prompts.compact import write_blocks
from redqueen.tasks.sources import read_payloads
from redqueen.testing import check_kind
from tests.outside.arithmetic import Sum
from tests.outside.things import NoSandbox
from tests.scripted import Script, play, scripted_run

NAME = "tests.outside.arithmetic:Arithmetic"


def teacher(largest: int) -> Script:
    """Writes sums of numbers up to this; some are trivial, some no sums at all."""

    def write(prompt: str, rng: Random) -> str:
        if rng.random() < 0.1:
            return write_blocks([("sum", "a lot")])
        a, b = rng.randint(1, largest), rng.randint(1, largest)
        return write_blocks([("sum", f"{a} {rng.choice('+-*')} {b}")])

    return write


def student(sure: float) -> Script:
    """Knows the result that often; where it does not, it is one off, or says nothing."""

    def write(prompt: str, rng: Random) -> str:
        parts = re.search(r">>sum\n(\d+) (.) (\d+)\n>>answer", prompt)
        assert parts, prompt
        a, b = int(parts[1]), int(parts[3])
        result = {"+": a + b, "-": a - b, "*": a * b}[parts[2]]
        luck = rng.random()
        if luck > 0.95:
            return write_blocks([("result", "I do not know")])
        return write_blocks([("result", str(result + (luck > sure)))])

    return write


TEACHERS, STUDENTS = [teacher(4), teacher(30)], [student(0.4), student(0.7)]


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    seeds = tmp_path / "seeds.jsonl"
    payloads = [{"a": 17, "operator": "*", "b": 25}, {"a": 8, "operator": "-", "b": 9}]
    seeds.write_text(
        "".join(json.dumps({"kind": NAME, "payload": payload}) + "\n" for payload in payloads)
    )
    return [
        "steps=8", f"tasks.kinds=['{NAME}']", f"archive.seeds={seeds}", "archive.cap=30",
        "archive.rarity=0.5", "evolve.every=2", "evolve.share=0.5",
    ]  # fmt: skip


def played(folder: Path, settings: Sequence[str], until: int | None = None) -> Run:
    sandbox = NoSandbox(SandboxConfig())  # refuses to run anything
    with scripted_run(folder, sandbox, TEACHERS, STUDENTS, settings) as run:
        play(run, until)
    return run


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(open_to_read(folder)) as connection:
        return [tuple(row) for row in connection.execute(query)]


def test_the_kind_satisfies_the_contract_of_plug_ins() -> None:
    sums = ("17 * 25", "8 - 9", "8 + 9")
    first, *_ = check_kind(
        NAME,
        proposals=[f">>sum\n{text}\n>>end" for text in sums],
        answers=[f">>result\n{text}\n>>end" for text in ("425", "-1", "017")],
        wrong=[f">>result\n{text}\n>>end" for text in ("424", "1", "0x11")],
        sandbox=NoSandbox(SandboxConfig()),
    )
    assert first.payload == Sum(17, "*", 25)


def test_every_table_of_the_ledger_has_its_rows(tmp_path: Path, settings: list[str]) -> None:
    run = played(tmp_path / "run", settings)
    folder = run.folder
    problems = rows(
        folder, "SELECT kind, payload, gold, features, structure, cell, derived FROM problems"
    )
    assert len(problems) > 20
    for kind, payload, gold, features, structure, cell, derived in problems:
        fields = json.loads(payload)
        a, operator, b = fields["a"], fields["operator"], fields["b"]
        assert (kind, structure, derived) == (NAME, operator, 0)
        assert fields.keys() == {"a", "operator", "b"}
        assert json.loads(gold) == [str({"+": a + b, "-": a - b, "*": a * b}[operator])]
        assert cell == f"{operator}/{json.loads(features)['digits']}"
    rejections = {reason for (reason,) in rows(folder, "SELECT DISTINCT rejection FROM proposals")}
    assert rejections == {None, "malformed", "trivial", "duplicate"}
    verdicts = {verdict for (verdict,) in rows(folder, "SELECT DISTINCT verdict FROM attempts")}
    assert verdicts == {"correct", "wrong", "malformed"}
    proposed = {key for (key,) in rows(folder, "SELECT problem FROM problems")}
    for (shown,) in rows(folder, "SELECT shown FROM proposals WHERE step = 1"):
        assert shown != "[]" and proposed.isdisjoint(json.loads(shown))  # these are the seeds
    metrics = dict(rows(folder, "SELECT name, value FROM metrics WHERE step = 8"))
    assert metrics["archive/size"] == len(run.worlds[0].archive) == 30
    assert metrics["complexity/digits"] >= 2 and metrics["coverage/cells"] > 3
    assert 0 < metrics[f"solve/pass_rate/{NAME}"] < 1
    assert rows(folder, "SELECT count(*) > 0 FROM deaths") == [(1,)]


def test_a_run_that_is_stopped_and_resumed_has_the_same_records_and_archive(
    tmp_path: Path, settings: list[str]
) -> None:
    straight = played(tmp_path / "straight", settings)
    for until in (1, 3, None):
        stopped = played(tmp_path / "stopped", settings, until)
    assert digest(stopped.folder) == digest(straight.folder)
    assert list(stopped.worlds[0].archive) == list(straight.worlds[0].archive)
    assert all(isinstance(problem.payload, Sum) for problem in stopped.worlds[0].archive)


def test_it_is_reported_exported_and_read_back(tmp_path: Path, settings: list[str]) -> None:
    run = played(tmp_path / "run", settings)
    page = rq.report(run.folder, tmp_path / "report.html").read_text()
    assert "arithmetic:Arithmetic" in page
    with rq.open_run(run.folder) as reader:
        problems = list(reader.problems())
    path = rq.export_problems(run.folder, tmp_path / "data", everything=True)
    payloads = read_payloads(path, [NAME])
    assert sorted(map(str, payloads)) == sorted(
        str((NAME, Sum(**problem["payload"]))) for problem in problems
    )
    with pytest.raises(DataError, match=r"line 1: unknown task kind .* must be in tasks\.kinds"):
        read_payloads(path)


def test_a_file_of_its_problems_is_what_students_learn_from_without_teachers(
    tmp_path: Path, settings: list[str]
) -> None:
    first = played(tmp_path / "run", settings).folder
    path = rq.export_problems(first, tmp_path / "data", everything=True)
    fixed = [*settings, f"fixed.source={path}", "fixed.problems=6", "steps=3"]
    with scripted_run(tmp_path / "fixed", NoSandbox(SandboxConfig()), [], STUDENTS, fixed) as run:
        play(run)
    assert rows(run.folder, "SELECT DISTINCT teacher, kind FROM proposals") == [("fixed", NAME)]
    assert rows(run.folder, "SELECT count(*) FROM attempts") == [(3 * 2 * 6 * 4,)]


def test_a_mistake_in_a_file_of_its_problems_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    for payload in (
        {"a": 1},
        {"a": 2, "operator": "/", "b": 3},
        {"a": "2", "operator": "+", "b": 3},
    ):
        path.write_text(json.dumps({"kind": NAME, "payload": payload}) + "\n")
        with pytest.raises(DataError, match=r"bad\.jsonl, line 1: "):
            read_payloads(path, [NAME])


def test_a_payload_that_json_cannot_hold_is_refused_by_name() -> None:
    @dataclass(frozen=True)
    class Sums:
        title: str
        sums: tuple[Any, ...]

    held = Sums("two", ({"first": (1, 2.5, None)}, (True, "a")))
    kind = type("Many", (Kind,), {"payload": Sums})()
    problem = Verified(held, ("3",), {}, ("1",)).problem("many")
    assert load_problem(json.loads(json.dumps(problem_fields(problem))), kind) == problem
    for wrong, name in ((Sum(1, "+", 2), "Sum"), ([1], "list"), ({1: 2}, "dict"), ({1}, "set")):
        with pytest.raises(ConfigError, match=f"many: the field 'sums' .* holds a {name}"):
            Verified(Sums("one", (1, (wrong,))), ("3",), {}, ("1",)).problem("many")
