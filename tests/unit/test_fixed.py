"""Fixed problems and seeds: from Pawn's generator by tier, or from a file whose mistakes are named
with their line."""

import json
from pathlib import Path

import pytest

from redqueen.config.stages import FixedConfig, VerifyConfig
from redqueen.errors import ConfigError, DataError
from redqueen.records import Problem, Rejection
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.verify import judge_drafts
from redqueen.tasks import KINDS
from redqueen.tasks.code.sources import load_source, read_drafts, seed_drafts

EVERY = ("code_o", "code_i", "code_f")


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    )
    return path


def row(number: int, kind: str = "code_o", **more: object) -> dict[str, object]:
    return {
        "kind": kind,
        "program": f"def f(x): return x + {number}\n",
        "inputs": [str(number)],
        **more,
    }


def test_pawn_gives_each_student_and_step_its_own_problems_and_repeats_them() -> None:
    source = load_source(FixedConfig(), EVERY)
    drawn = source(0, 1, "S0", 12)
    assert drawn == source(0, 1, "S0", 12)
    assert len(drawn) == 12
    assert [kind for kind, _ in drawn] == [*EVERY] * 4
    for other in (source(1, 1, "S0", 12), source(0, 2, "S0", 12), source(0, 1, "S1", 12)):
        assert not {draft.program for _, draft in drawn} & {draft.program for _, draft in other}


def test_higher_tiers_are_harder(pool: SandboxPool) -> None:
    mean = {}
    for tier in (1, 8):
        drafts = load_source(FixedConfig(tiers=(tier, tier)), ("code_o",))(0, 1, "S0", 20)
        verdicts = judge_drafts(
            [(kind, draft, None) for kind, draft in drafts], dict(KINDS), pool, VerifyConfig()
        )
        problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
        assert len(problems) >= 18
        mean[tier] = sum(
            problem.complexity.cyclomatic + problem.complexity.loc for problem in problems
        ) / len(problems)
    assert mean[8] > 1.5 * mean[1]


@pytest.mark.parametrize("tiers", [(0, 3), (3, 2), (1, 11)])
def test_impossible_tiers_are_named(tiers: tuple[int, int]) -> None:
    with pytest.raises(
        ConfigError, match=r"fixed.tiers: the lowest and the highest tier, from 1 to 10"
    ):
        load_source(FixedConfig(tiers=tiers), EVERY)
    with pytest.raises(ConfigError, match=r"archive.seed_tiers"):
        seed_drafts("pawn", 4, tiers, 0)


def test_pawn_knows_no_kinds_but_its_own() -> None:
    with pytest.raises(ConfigError, match="for others give a JSONL file"):
        load_source(FixedConfig(), ("my_package:Kind",))
    assert {
        kind for kind, _ in load_source(FixedConfig(), ("my_package:Kind", "code_i"))(0, 1, "S0", 5)
    } == {"code_i"}


def test_a_file_gives_different_problems_of_the_played_kinds_as_many_as_there_are(
    tmp_path: Path,
) -> None:
    path = write_lines(
        tmp_path / "p.jsonl",
        *(row(number, "code_o" if number % 2 else "code_i") for number in range(10)),
    )
    source = load_source(FixedConfig(source=str(path)), ("code_o",))
    some, all_ = source(0, 1, "S0", 3), source(0, 1, "S0", 99)
    assert len({draft for _, draft in some}) == 3
    assert {draft.inputs for _, draft in all_} == {(str(number),) for number in (1, 3, 5, 7, 9)}
    assert source(0, 2, "S0", 3) != some or source(0, 3, "S0", 3) != some


def test_rows_may_be_rejected_ones_and_inputs_may_be_json_text(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "p.jsonl",
        {"kind": "code_o", "valid": False, "reason": "malformed"},
        row(1, inputs='["7"]', message="add one", valid=True),
    )
    ((kind, draft),) = read_drafts(path)
    assert (kind, draft.inputs, draft.message) == ("code_o", ("7",), "add one")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["{"], "line 1: not JSON"),
        (
            [row(1), {"kind": "code_o"}],
            "line 2: expected the texts 'program' and 'message', and 'inputs' as a list of texts",
        ),
        ([row(1, inputs="7")], "line 1: expected"),
        ([row(1, inputs="[7")], "line 1: expected"),
        ([row(1, inputs=[7])], "line 1: expected"),
        ([row(1, inputs=[])], "line 1: expected"),
        ([row(1, message=3)], "line 1: expected"),
        ([{"program": "x"}], "line 1: the field 'kind' is missing"),
        ([row(1, valid=False)], "has no problem"),
        ([], "is empty"),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    tmp_path: Path, rows: list[object], message: str
) -> None:
    path = write_lines(tmp_path / "bad.jsonl", *rows)
    with pytest.raises(DataError, match=message):
        load_source(FixedConfig(source=str(path)), ("code_o",))


def test_a_file_that_is_not_there_or_has_other_kinds_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file .*nowhere\.jsonl"):
        load_source(FixedConfig(source=str(tmp_path / "nowhere.jsonl")), ("code_o",))
    path = write_lines(tmp_path / "p.jsonl", row(1, "code_i"))
    with pytest.raises(DataError, match=r"no problem of the kinds that are played \(code_o\)"):
        load_source(FixedConfig(source=str(path)), ("code_o",))


def test_every_example_seed_is_valid(pool: SandboxPool) -> None:
    drafts = seed_drafts("examples", 64, (1, 3), 0)
    verdicts = judge_drafts(
        [(kind, draft, None) for kind, draft in drafts], dict(KINDS), pool, VerifyConfig()
    )
    assert all(isinstance(verdict, Problem) for verdict in verdicts)


def test_seeds_come_from_pawn_or_from_a_file(tmp_path: Path) -> None:
    seeds = seed_drafts("pawn", 9, (1, 2), 5)
    assert len(seeds) == 9 and seeds == seed_drafts("pawn", 9, (1, 2), 5) != seed_drafts(
        "pawn", 9, (1, 2), 6
    )
    assert (
        len(seed_drafts(str(write_lines(tmp_path / "s.jsonl", row(1), row(2))), 64, (1, 3), 0)) == 2
    )


def test_a_problem_of_a_file_that_does_not_fit_its_kind_is_rejected(
    tmp_path: Path, pool: SandboxPool
) -> None:
    path = write_lines(
        tmp_path / "p.jsonl",
        row(1, "code_f"),
        row(2, inputs=["f("]),
        row(3, program="def g(x): return x\n"),
        row(4),
    )
    drafts = read_drafts(path)
    verdicts = judge_drafts(
        [(kind, draft, None) for kind, draft in drafts], dict(KINDS), pool, VerifyConfig()
    )
    assert verdicts[0] == Rejection("malformed", "1 different inputs, expected 10, or 8 at least")
    assert [isinstance(verdict, Problem) for verdict in verdicts] == [False, False, False, True]
