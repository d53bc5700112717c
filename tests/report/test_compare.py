"""Arms are compared over seeds, with honest intervals, and at equal cost in both senses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.errors import ConfigError
from redqueen.evaluate.statistics import bootstrap, permutation_p, sign_flip_p
from redqueen.report.chromium import find_chromium, open_tab
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
        and second["p"] in (0.25, 0.5, 0.75, 1.0)
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


def test_worlds_of_a_study_are_arms_with_seeds(tmp_path: Path) -> None:
    Synthetic(steps=3, worlds=3, arm="full").write(tmp_path / "study")
    assert compared(tmp_path / "study")["arms"] == [
        {"arm": "full", "seeds": [0, 1, 2], "members": 8}
    ]


def test_a_test_of_few_seeds_claims_little() -> None:
    assert sign_flip_p([1.0, 1.0, 1.0]) == 0.25
    assert sign_flip_p([1.0]) is None and bootstrap([1.0]) is None
    assert permutation_p([1.0, 1.1, 1.2], [5.0, 5.1, 5.2]) == pytest.approx(0.1)


def test_intervals_hold_the_mean_about_as_often_as_they_say() -> None:
    from random import Random

    random, held = Random(0), 0
    for number in range(40):
        low_high = bootstrap([random.gauss(0, 1) for _ in range(20)], seed=number)
        assert low_high is not None
        held += low_high[0] <= 0 <= low_high[1]
    assert held >= 33


def test_a_difference_that_is_there_is_found_with_enough_seeds() -> None:
    p = sign_flip_p([0.9, 1.1, 1.0, 1.2, 0.8, 1.0, 1.1, 0.9])
    assert p == pytest.approx(2 / 256)
