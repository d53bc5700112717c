"""Fixed problems and seeds: from Pawn's generator by tier, or from a file whose mistakes are named
with their line."""

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from redqueen.config.stages import ArchiveConfig, FixedConfig, VerifyConfig
from redqueen.config.toml import load_config
from redqueen.errors import ConfigError, DataError
from redqueen.records import Problem, Rejection
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import load_kinds
from redqueen.tasks.code.programs import Code
from redqueen.tasks.sources import Payloads, load_source, read_payloads, seed_payloads

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


def verify(payloads: Payloads, pool: SandboxPool) -> list[Problem | Rejection]:
    unsigned = [(kind, payload, None) for kind, payload in payloads]
    return verify_payloads(unsigned, load_kinds(), pool, VerifyConfig())


def test_pawn_gives_each_student_and_step_its_own_problems_and_repeats_them() -> None:
    source = load_source(FixedConfig(), EVERY)
    payloads = source(0, 1, "S0", 12)
    assert payloads == source(0, 1, "S0", 12)
    assert len(payloads) == 12
    assert [kind for kind, _ in payloads] == [*EVERY] * 4
    programs = {payload.program for _, payload in payloads}
    for others in (source(1, 1, "S0", 12), source(0, 2, "S0", 12), source(0, 1, "S1", 12)):
        assert not programs & {payload.program for _, payload in others}


def test_higher_tiers_are_harder(pool: SandboxPool) -> None:
    mean = {}
    for tier in (1, 8):
        payloads = load_source(FixedConfig(tiers=(tier, tier)), ("code_o",))(0, 1, "S0", 20)
        problems = [item for item in verify(payloads, pool) if isinstance(item, Problem)]
        assert len(problems) >= 18
        mean[tier] = sum(
            problem.features["cyclomatic"] + problem.features["loc"] for problem in problems
        ) / len(problems)
    assert mean[8] > 1.5 * mean[1]


@pytest.mark.parametrize("tiers", [(0, 3), (3, 2), (1, 11)])
def test_impossible_tiers_are_named(tiers: tuple[int, int]) -> None:
    for name in ("fixed.tiers", "archive.seed_tiers"):
        message = f"{name}: the lowest and the highest tier, from 1 to 10; got "
        with pytest.raises(ConfigError, match=message):
            load_config(None, [f"{name}={list(tiers)}"])


def test_pawn_knows_no_kinds_but_its_own() -> None:
    with pytest.raises(
        ConfigError,
        match=r"fixed.source=pawn has no problems of the kinds my_package:Kind; .* JSONL",
    ):
        load_source(FixedConfig(), ("my_package:Kind",))
    source = load_source(FixedConfig(), ("my_package:Kind", "code_i"))
    assert {kind for kind, _ in source(0, 1, "S0", 5)} == {"code_i"}


def numbered_payloads(rng: Random, count: int, tiers: range, kinds: object) -> Payloads:
    """A generator from outside."""
    return [("code_o", Code(f"def f(): return {rng.random()}\n", ("",))) for _ in range(count)]


def test_a_generator_of_ones_own_comes_by_import_path() -> None:
    path = f"{__name__}:numbered_payloads"
    source = load_source(FixedConfig(source=path), ("code_o",))
    assert len(source(0, 1, "S0", 3)) == 3
    assert source(0, 1, "S0", 3) == source(0, 1, "S0", 3) != source(0, 2, "S0", 3)
    assert len(seed_payloads(ArchiveConfig(seeds=path, seed_count=5), EVERY, 0)) == 5
    with pytest.raises(ConfigError, match=r"problem source 'nowhere:x' cannot be imported"):
        load_source(FixedConfig(source="nowhere:x"), ("code_o",))


def test_a_file_gives_different_problems_of_the_played_kinds_as_many_as_there_are(
    tmp_path: Path,
) -> None:
    path = write_lines(
        tmp_path / "p.jsonl",
        *(row(number, "code_o" if number % 2 else "code_i") for number in range(10)),
    )
    source = load_source(FixedConfig(source=str(path)), ("code_o",))
    three, every = source(0, 1, "S0", 3), source(0, 1, "S0", 99)
    assert len({payload for _, payload in three}) == 3
    assert {payload.inputs for _, payload in every} == {
        (str(number),) for number in (1, 3, 5, 7, 9)
    }
    assert source(0, 2, "S0", 3) != three or source(0, 3, "S0", 3) != three


def test_rows_may_be_rejected_ones_and_inputs_may_be_json_text(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "p.jsonl",
        {"kind": "code_o", "valid": False, "reason": "malformed"},
        row(1, inputs='["7"]', message="add one", valid=True),
    )
    ((kind, code),) = read_payloads(path)
    assert (kind, code.inputs, code.message) == ("code_o", ("7",), "add one")


def test_a_row_may_have_its_payload_apart(tmp_path: Path) -> None:
    payload = {"program": "def f(x): return x\n", "inputs": ["7"], "message": ""}
    path = write_lines(tmp_path / "p.jsonl", {"kind": "code_i", "payload": payload})
    assert read_payloads(path) == [("code_i", Code("def f(x): return x\n", ("7",)))]


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
        ([{"kind": "code_o", "payload": "def f(x): return x"}], "line 1: the field 'payload' is"),
        ([{"kind": "code_o", "payload": None}], "line 1: the field 'payload' is not an object"),
        ([row(1), row(2, "code_x")], "line 2: unknown task kind 'code_x'. Did you mean 'code_"),
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


def test_a_file_names_only_kinds_that_are_played_and_makes_nothing_be_imported(
    tmp_path: Path,
) -> None:
    path = write_lines(tmp_path / "p.jsonl", row(1, "antigravity:fly"))
    with pytest.raises(DataError, match=r"line 1: unknown task kind .* must be in tasks\.kinds"):
        read_payloads(path, EVERY)
    assert "antigravity" not in sys.modules
    own = "redqueen.tasks.code.deduction:CodeO"
    path = write_lines(tmp_path / "p.jsonl", row(1, own))
    assert [kind for kind, _ in read_payloads(path, [own])] == [own]


def test_every_example_seed_is_valid(pool: SandboxPool) -> None:
    payloads = seed_payloads(ArchiveConfig(), EVERY, 0)
    assert payloads
    assert all(isinstance(verdict, Problem) for verdict in verify(payloads, pool))


def test_seeds_come_from_pawn_or_from_a_file(tmp_path: Path) -> None:
    config = ArchiveConfig(seeds="pawn", seed_count=9, seed_tiers=(1, 2))
    seeds = seed_payloads(config, EVERY, 5)
    assert len(seeds) == 9
    assert seeds == seed_payloads(config, EVERY, 5) != seed_payloads(config, EVERY, 6)
    path = write_lines(tmp_path / "s.jsonl", row(1), row(2))
    assert len(seed_payloads(ArchiveConfig(seeds=str(path)), EVERY, 0)) == 2


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
    verdicts = verify(read_payloads(path), pool)
    assert verdicts[0] == Rejection("malformed", "1 different inputs, expected 10, or 8 at least")
    assert [isinstance(verdict, Problem) for verdict in verdicts] == [False, False, False, True]


@pytest.mark.parametrize(
    ("kinds", "counts"),
    [(("logic",), {"logic": 5}), (("code_o", "logic"), {"code_o": 3, "logic": 2})],
)
def test_programs_and_puzzles_are_as_many_as_are_asked_for(
    kinds: tuple[str, ...], counts: dict[str, int]
) -> None:
    source = load_source(FixedConfig(source="pawn-games"), kinds)
    assert Counter(kind for kind, _ in source(0, 1, "S0", 5)) == counts
