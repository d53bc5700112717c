"""Arms are compared over seeds, with honest intervals, and at equal cost in both senses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.study import load_study
from redqueen.errors import ConfigError
from redqueen.evaluate.statistics import holm
from redqueen.ledger.store import Ledger
from redqueen.report.arms import Curve, suite_scores
from redqueen.report.chromium import find_chromium, open_tab
from redqueen.report.compare import _find
from redqueen.report.run_view import open_views
from redqueen.report.verdicts import verdict_table, verdicts
from tests.report.synthetic import Synthetic


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        Synthetic(steps=6, members=2, seed=seed, settings={"population": {"teachers": 2}}).write(
            root / f"two-{seed}"
        )
        Synthetic(steps=8, members=1, seed=seed, settings={"population": {"teachers": 1}}).write(
            root / f"one-{seed}"
        )
    return root


def compared(*arguments: object) -> dict[str, object]:
    result = CliRunner().invoke(
        app, ["compare", *map(str, arguments), "--json"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.output)
    return found


def cells(
    found: dict[str, object], match: str, part: str, name: str
) -> dict[str, dict[str, object]]:
    rows = found["tables"][match][part]  # type: ignore[index]
    return {one["arm"]: one for row in rows if row["name"] == name for one in row["arms"]}


def test_runs_that_differ_in_their_seed_alone_are_one_arm(runs: Path) -> None:
    found = compared(*sorted(runs.iterdir()))
    assert found["arms"] == [
        {"arm": "population.teachers=1", "seeds": [0, 1, 2], "members": 2},
        {"arm": "population.teachers=2", "seeds": [0, 1, 2], "members": 4},
    ]


def test_costs_are_matched_per_adapter_and_in_total(runs: Path) -> None:
    found = compared(*(f"{path.name[:3]}={path}" for path in sorted(runs.iterdir())))
    each = cells(found, "matched per adapter", "compute", "tokens per adapter")
    cheapest = min(
        float(value)
        for one in cells(found, "as they are", "compute", "tokens per adapter").values()
        for value in one["values"]  # type: ignore[attr-defined]
    )
    assert all(
        float(value) <= cheapest * 1.0001
        for one in each.values()
        for value in one["values"]  # type: ignore[attr-defined]
    )
    together = {
        arm: [
            a + b
            for a, b in zip(  # type: ignore[call-overload]
                one["values"],
                cells(found, "matched in total", "compute", "tokens trained on")[arm]["values"],
                strict=True,
            )
        ]
        for arm, one in cells(found, "matched in total", "compute", "tokens sampled").items()
    }
    assert max(together["two"]) <= max(together["one"]) * 1.0001
    steps = cells(found, "matched in total", "compute", "steps")
    assert max(steps["two"]["values"]) < 6 and max(steps["one"]["values"]) <= 8  # type: ignore[call-overload]


def test_pairs_of_seeds_are_tested_as_pairs(runs: Path) -> None:
    found = compared(*sorted(runs.iterdir()))
    second = cells(found, "as they are", "outcomes", "solve rate")["population.teachers=2"]
    assert (
        second["pairs"] == 3
        and 0 < second["p"] <= 1  # type: ignore[operator]
        and second["difference_interval"] is not None
    )
    assert cells(
        compared(*sorted(runs.iterdir())), "as they are", "outcomes", "solve rate"
    ) == cells(found, "as they are", "outcomes", "solve rate")


def test_the_same_seed_twice_is_no_replication(runs: Path) -> None:
    with pytest.raises(ConfigError, match="a seed counts once"):
        compared(f"a={runs / 'two-0'}", f"a={runs / 'one-0'}")


def test_files_are_written_and_a_browser_draws_them(runs: Path, tmp_path: Path) -> None:
    compared(*sorted(runs.iterdir()), "--out", tmp_path)
    assert "## Matched per adapter" in (tmp_path / "compare.md").read_text()
    assert json.loads((tmp_path / "compare.json").read_text())["tables"]
    if find_chromium() is None:
        pytest.skip("no Chromium in the path")
    with open_tab() as browser:
        browser.open((tmp_path / "compare.html").as_uri())
        browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
        assert browser.problems == []


def test_a_page_of_several_arms_opens_with_a_table_of_verdicts_and_folds_the_rest(
    tmp_path: Path,
) -> None:
    if find_chromium() is None:
        pytest.skip("no Chromium in the path")
    for seed in range(2):
        for members in (1, 2, 3):
            settings = {"population": {"students": members}}
            Synthetic(
                steps=4, members=members, seed=seed, evaluate_every=1, settings=settings
            ).write(tmp_path / f"{members}-{seed}")
    named = [f"arm{path.name[0]}={path}" for path in sorted(tmp_path.iterdir())]
    compared(*named, "--out", tmp_path / "out")
    with open_tab() as browser:
        browser.resize(390, 900)
        browser.open((tmp_path / "out" / "compare.html").as_uri())
        browser.wait_for("document.querySelectorAll('svg.chart').length > 5")
        rows = "[...document.querySelectorAll('.verdict tbody tr')].map((one) => one.cells[0].textContent)"
        assert browser.evaluate(rows) == ["arm2", "arm3"]
        assert browser.evaluate("document.documentElement.scrollWidth") == 390
        browser.evaluate("document.querySelector('main > .fold > summary').click()")
        chart = "document.querySelector('main > .fold svg.chart')"
        browser.wait_for(f"{chart} !== null && {chart}.getBoundingClientRect().width > 200")
        assert browser.problems == []


def test_worlds_of_a_study_are_arms_with_seeds(tmp_path: Path) -> None:
    Synthetic(steps=3, worlds=3, arm="full").write(tmp_path / "study")
    assert compared(tmp_path / "study")["arms"] == [
        {"arm": "full", "seeds": [0, 1, 2], "members": 8}
    ]


def test_declared_outcomes_come_first_and_are_adjusted_for_their_number(tmp_path: Path) -> None:
    outcomes = ["heldout-quick: mean student", "heldout-quick: weakest student", "none: soup"]
    for seed in range(4):
        for members, arm in ((1, "one"), (2, "two")):
            settings = {
                "population": {"students": members},
                "evaluate": {"outcomes": outcomes},
            }
            Synthetic(
                steps=4, members=members, seed=seed, evaluate_every=1, settings=settings
            ).write(tmp_path / f"{arm}-{seed}")
    named = [f"{path.name[:3]}={path}" for path in sorted(tmp_path.iterdir())]
    found: dict[str, Any] = compared(*named)
    rows = found["tables"]["at equal trained tokens"]["outcomes"]
    assert [row["name"] for row in rows if row.get("declared")] == outcomes[:2]
    ps = [row["arms"][1]["p"] for row in rows[:2]]
    adjusted = [row["arms"][1]["p_holm"] for row in rows[:2]]
    assert sorted(adjusted) == pytest.approx(sorted(holm([*ps, 1.0]))[:2])
    assert all(cell["p_holm"] is None for row in rows[2:] for cell in row["arms"])
    text = CliRunner().invoke(app, ["compare", *named]).output
    assert "*exploratory*" in text and "(Holm " in text
    assert "Declared and not measured: none: soup." in text


def test_arms_that_end_apart_and_are_measured_at_their_end_have_a_verdict_as_they_are(
    tmp_path: Path,
) -> None:
    outcomes = ["own: soup"]
    for seed in range(3):
        for steps, arm in ((2, "one"), (8, "two")):
            settings = {"evaluate": {"outcomes": outcomes}, "lora": {"rank": steps}}
            folder = tmp_path / f"{arm}-{seed}"
            Synthetic(steps=steps, seed=seed, settings=settings).write(folder)
            measure_soup(folder, "own", "0123"[: 1 + seed + steps // 8], step=steps)
    found: dict[str, Any] = compared(
        *(f"{path.name[:3]}={path}" for path in sorted(tmp_path.iterdir()))
    )
    assert [row["match"] for row in found["verdict_table"]] == ["as they are"]
    (verdict,) = found["verdicts"]
    assert verdict.startswith("own: soup, as they are: ")


def test_a_study_declares_its_outcomes_before_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('seeds = [0]\noutcomes = ["heldout: soup"]\n[arms.a]\n[arms.b]\n')
    assert [config.evaluate.outcomes for _, config in load_study(path, [])] == [
        ("heldout: soup",),
        ("heldout: soup",),
    ]


def test_outcomes_that_were_measured_later_are_known_by_their_suite() -> None:
    rows = [
        {"name": "eval/heldout-large (compact-1, base, 4 at temperature 0.8, 9 tokens, f): soup"},
        {"name": "eval/heldout-large (compact-1, base, greedy, 9 tokens, f): soup"},
        {"name": "heldout, 4 votes: vote of 4"},
    ]
    assert _find(rows, "heldout-large: soup") is rows[1]
    assert _find(rows, "heldout: vote of 4") is rows[2]
    assert _find(rows, "heldout: soup") is None


def test_curves_are_read_at_trained_tokens_between_measurements() -> None:
    curve = Curve([0.0, 100.0, 200.0], [0.4, 0.5, 0.7])
    assert [curve.at(tokens) for tokens in (0, 50, 100, 150, 203)] == pytest.approx(
        [0.4, 0.45, 0.5, 0.6, 0.7]
    )
    assert curve.at(300) is None and Curve([100.0], [0.5]).at(50) is None
    assert Curve([103.0], [0.5]).at(100) == 0.5, "a world ends with the step that has enough tokens"


def test_a_comparison_has_curves_over_trained_tokens_with_intervals(tmp_path: Path) -> None:
    for seed in range(3):
        for members, arm in ((1, "one"), (2, "two")):
            Synthetic(
                steps=8,
                members=members,
                seed=seed,
                evaluate_every=2,
                settings={"population": {"students": members}},
            ).write(tmp_path / f"{arm}-{seed}")
    found: dict[str, Any] = compared(
        *(f"{path.name[:3]}={path}" for path in sorted(tmp_path.iterdir()))
    )
    curves = {curve["name"]: curve["points"] for curve in found["curves"]}
    points = curves["heldout-quick: mean student"]
    assert len(points) == 4 and points[0]["tokens"] < points[-1]["tokens"]
    for point in points:
        one, two = point["arms"]
        assert one["interval"][0] <= one["mean"] <= one["interval"][1]
        assert two["difference_interval"] is not None
    compute = {row["name"]: row for row in found["tables"]["at equal trained tokens"]["compute"]}
    one, two = (cell["mean"] for cell in compute["tokens trained on"]["arms"])
    assert two <= one  # the population stops at its last step within the budget


def test_what_was_measured_at_the_end_alone_has_no_curve(two: tuple[Path, Path]) -> None:
    for step in (2, 4):
        measure_soup(two[0], "own", "10", step=step)
        row = {"world": 0, "suite": "own", "subject": "base", "kind": "k", "tier": 0, "sample": 0}
        with Ledger.open(two[0]) as ledger:
            items = [{**row, "step": step, "item": item, "correct": 0} for item in "01"]
            ledger.add("evals", items)
    measure_soup(two[1], "own", "10")
    found: dict[str, Any] = compared(f"a={two[0]}", f"b={two[1]}")
    curves = {curve["name"]: curve["points"] for curve in found["curves"]}
    arms = [[one["arm"] for one in point["arms"]] for point in curves["own: soup"]]
    assert arms == [["a"]] * len(arms)


def test_a_union_of_students_and_a_vote_are_named_by_their_attempts(tmp_path: Path) -> None:
    Synthetic(steps=2, members=2, settings={"population": {"students": 2}}).write(tmp_path / "run")
    row = {"world": 0, "step": 2, "suite": "own", "kind": "k", "tier": 0}
    # two attempts of each student at each item, four of the base
    given = {"S0": [1, 0], "S1": [0, 0], "base": [0, 0, 0, 1], "vote": [0], "base vote": [0]}
    with Ledger.open(tmp_path / "run") as ledger:
        ledger.add(
            "evals",
            [
                {**row, "subject": subject, "item": "a", "sample": sample, "correct": correct}
                for subject, verdicts in given.items()
                for sample, correct in enumerate(verdicts)
            ],
        )
    with open_views([tmp_path / "run"]) as (view,):
        scores = suite_scores(view, "own", 2)
    assert scores["union pass@4"] == 1.0  # both attempts of S0 count, one of them is correct
    assert scores["vote of 4"] == scores["base: vote of 4"] == 0.0
    assert scores["mean student"] == 0.25 and scores["base"] == 0.25


def test_a_soup_that_was_measured_without_the_students_has_a_score(tmp_path: Path) -> None:
    Synthetic(steps=2, members=2, settings={"population": {"students": 2}}).write(tmp_path / "run")
    row = {"world": 0, "step": 1, "suite": "own", "kind": "k", "tier": 0, "sample": 0}
    with Ledger.open(tmp_path / "run") as ledger:
        ledger.add("evals", [{**row, "subject": "soup", "item": "a", "correct": 1}])
        ledger.add("evals", [{**row, "suite": "T", "subject": "T0", "item": "a", "correct": 1}])
    with open_views([tmp_path / "run"]) as (view,):
        assert suite_scores(view, "own", 1) == {"soup": 1.0}
        assert suite_scores(view, "T", 1) == {}, "teachers hand nothing over"


def measure_soup(run: Path, suite: str, verdicts: str, step: int = 4) -> None:
    """One answer of the soup to each item, 1 where it is correct."""
    row = {"world": 0, "suite": suite, "subject": "soup", "kind": "k", "tier": 0, "sample": 0}
    with Ledger.open(run) as ledger:
        ledger.add(
            "evals",
            [
                {**row, "step": step, "item": str(item), "correct": int(verdict)}
                for item, verdict in enumerate(verdicts)
            ],
        )


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A run of each of two arms."""
    for students in (1, 2):
        settings = {"population": {"students": students}}
        Synthetic(steps=4, members=students, settings=settings).write(tmp_path / str(students))
    return tmp_path / "1", tmp_path / "2"


def test_runs_with_other_limits_are_compared_on_the_items_that_both_were_asked(
    two: tuple[Path, Path],
) -> None:
    measure_soup(two[0], "own", "1100")
    measure_soup(two[1], "own", "10")
    measure_soup(two[1], "own", "1", step=2)  # without an item that counts: left out
    named = f"a={two[0]}", f"b={two[1]}"
    found = compared(*named)
    soups = cells(found, "as they are", "outcomes", "own: soup")
    assert (soups["a"]["mean"], soups["b"]["mean"]) == (1.0, 0.5)
    note = "own (soup): compared on the 2 items that all runs were asked; left out: 2 of a, seed 0."
    assert found["left_out"] == [note]
    assert note in CliRunner().invoke(app, ["compare", *named]).output
    assert "own: soup" not in [curve["name"] for curve in found["curves"]]  # type: ignore[attr-defined]


def test_other_temperatures_are_not_mixed_and_that_is_said(two: tuple[Path, Path]) -> None:
    greedy, warm = (f"eval/own (p, base, {how}, 9 tokens, f)" for how in ("greedy", "2 at 0.8"))
    measure_soup(two[0], greedy, "11")
    measure_soup(two[1], warm, "10")
    found = compared(f"a={two[0]}", f"b={two[1]}")
    assert list(cells(found, "as they are", "outcomes", f"{greedy}: soup")) == ["a"]
    assert found["left_out"] == [
        f"{suite}: measured in {arm} only, so not compared with the others."
        for suite, arm in ((greedy, "a"), (warm, "b"))
    ]


def test_runs_without_common_items_have_no_score_on_that_suite(two: tuple[Path, Path]) -> None:
    measure_soup(two[0], "own", "1")
    with Ledger.open(two[1]) as ledger:
        row = {"world": 0, "step": 4, "suite": "own", "subject": "soup", "kind": "k", "tier": 0}
        ledger.add("evals", [{**row, "item": "another", "sample": 0, "correct": 1}])
    found = compared(f"a={two[0]}", f"b={two[1]}")
    assert found["left_out"] == ["own (soup): left out, since the runs have no items in common."]
    assert not cells(found, "as they are", "outcomes", "own: soup")


def outcome(difference: float, low: float, high: float, **more: Any) -> dict[str, Any]:
    cell = {"arm": "b", "difference": difference, "difference_interval": (low, high), "p": 0.01}
    first = {"arm": "a", "difference": None, "difference_interval": None, "p": None}
    return {"name": "own: soup", "arms": [first, {**cell, "p_holm": None, **more}]}


def test_a_verdict_says_who_is_above_whom_only_where_the_interval_is_clear_of_zero() -> None:
    rows = [outcome(0.03, 0.01, 0.05), outcome(-0.03, -0.05, -0.01), outcome(0.01, -0.02, 0.04)]
    above, below, equal = (verdicts([row], "a", "as they are")[0] for row in rows)
    assert above.startswith(
        "own: soup, as they are: b is above a by +3.0 points [+1.0, +5.0], clear of zero; explora"
    )
    assert "a is above b by +3.0 points [+1.0, +5.0], clear of zero" in below
    assert equal == (
        "own: soup, as they are: no difference shown between b and a "
        "(+1.0 points [-2.0, +4.0], which includes zero)."
    )


def test_a_verdict_is_of_what_was_declared_and_knows_that_there_were_others() -> None:
    declared = {**outcome(0.03, 0.01, 0.05, p_holm=0.08), "declared": True}
    (verdict,) = verdicts([declared, outcome(0.03, 0.01, 0.05)], "a", "as they are")
    assert verdict.endswith("but not once adjusted for all declared outcomes (Holm's p 0.08).")


def test_many_arms_share_a_verdict_that_sorts_them() -> None:
    def cell(arm: str, gap: float, holm: float | None) -> dict[str, Any]:
        (_, own) = outcome(gap, gap - 0.02, gap + 0.02, arm=arm, p_holm=holm)["arms"]
        return {**own, "arm": arm}

    row = outcome(0, 0, 0)
    row["arms"] = [row["arms"][0], cell("b", 0.03, 0.01), cell("c", -0.03, 0.2), cell("d", 0, 1)]
    (verdict,) = verdicts([{**row, "declared": True}], "a", "at equal tokens")
    assert verdict == (
        "own: soup, at equal tokens: above a: b +3.0 points [+1.0, +5.0]. Below: c -3.0 points "
        "[-5.0, -1.0] (not once adjusted: Holm's p 0.2). "
        "No difference shown: d +0.0 points [-2.0, +2.0]."
    )
    (shown,) = verdict_table([{**row, "declared": True}], "at equal tokens")
    places = {arm: (own["place"], own["adjusted"]) for arm, own in shown["arms"].items()}
    assert places == {"b": ("above", True), "c": ("below", False), "d": ("equal", False)}
    (worse,) = verdicts([{**row, "arms": [row["arms"][0], *row["arms"][2:]]}], "a", "as they are")
    assert "above a: none. Below: c" in worse and worse.endswith("no outcome was declared.")


def test_without_a_test_there_is_no_verdict(runs: Path) -> None:
    untested = [outcome(0.5, 0, 0, p=None, difference_interval=None)]
    assert verdicts(untested, "a", "as they are") == []
    assert compared(runs / "one-0", runs / "two-0")["verdicts"] == []


def test_the_verdict_stands_above_the_tables(tmp_path: Path) -> None:
    for seed in range(3):
        for members, arm in ((1, "one"), (2, "two")):
            settings = {"population": {"students": members}}
            Synthetic(
                steps=4, members=members, seed=seed, evaluate_every=2, settings=settings
            ).write(tmp_path / f"{arm}-{seed}")
    named = [f"{path.name[:3]}={path}" for path in sorted(tmp_path.iterdir())]
    found: dict[str, Any] = compared(*named)
    assert found["verdicts"][0].startswith("heldout-quick: mean student, at equal trained tokens: ")
    text = CliRunner().invoke(app, ["compare", *named]).output
    assert text.index(found["verdicts"][0]) < text.index("## At equal trained tokens")
