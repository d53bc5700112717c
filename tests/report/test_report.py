"""The report shows what the ledger has, whole and as text, whatever models wrote."""

import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.errors import ConfigError, DataError
from redqueen.evaluate.replies import BASE_VOTE, CHOSEN, FORCED, SOUP, VOTE
from redqueen.evaluate.suites import load_suite
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import Ledger, digest, open_to_read
from redqueen.report import curriculum
from redqueen.report import drift as drift_figures
from redqueen.report.chromium import find_chromium, open_tab
from redqueen.report.escape import escape_controls
from redqueen.report.findings import list_findings
from redqueen.report.gather import gather_runs
from redqueen.report.page import gather_report, report, report_page
from redqueen.report.run_view import Windows, open_views
from redqueen.report.sample import sample_proposals
from redqueen.sandbox.pool import SandboxPool
from redqueen.tasks.kind import problem_fields
from tests.problems import addition
from tests.report.synthetic import Synthetic

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> <!-- '\"` \x1b[2J\x1b]0;taken\x07 \u2028 &lt; ]]>"
SECTIONS = (
    "race",
    "complexity",
    "coverage",
    "drift",
    "matrix",
    "lineage",
    "similarity",
    "members",
    "rejections",
    "scores",
    "timings",
    "problems",
)
needs_chromium = pytest.mark.skipif(find_chromium() is None, reason="no Chromium in the path")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "quick"
    Synthetic().write(folder)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "hostile"
    Synthetic(
        steps=2,
        thought=HOSTILE,
        program=f"def f(x):\n    return {HOSTILE!r}\n# {HOSTILE}\n",
        arm=HOSTILE,
    ).write(folder)
    return folder


def page_of(folder: Path) -> str:
    return report_page(gather_report([folder]))


class Elements(HTMLParser):
    """The elements of a page, and the data in it, as a browser would take them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.data = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        self._inside = dict(attrs).get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "data":
            self.data += data


def test_a_tiny_run_fills_every_section(run: Path) -> None:
    (view,) = gather_runs([run])
    for name in (
        "metrics",
        "ratings",
        "members",
        "operators",
        "difficulty",
        "suites",
        "findings",
        "complexity_index",
    ):
        assert view[name], name
    for name, part in (("matrix", "cells"), ("timings", "totals"), ("rejections", "lines"), ("students_by_kind", "cells"), ("problems", "items"), ("templates", "most_common")):  # fmt: skip
        assert view[name][part], name
    assert (
        view["suites"][0]["tiers"]
        and view["suites"][0]["agreement"]["pairs"]
        and view["suites"][0]["students"]["gain"]
    )


def test_a_run_without_a_single_step_has_a_report(tmp_path: Path) -> None:
    Synthetic(steps=0).write(tmp_path / "run")
    assert "0 steps were played" in page_of(tmp_path / "run")


def test_the_numbers_are_those_of_plain_queries(run: Path) -> None:
    (view,) = gather_runs([run])
    with contextlib.closing(open_to_read(run)) as connection:

        def one(query: str) -> Any:
            return connection.execute(query).fetchone()[0]

        assert view["counts"]["attempts"] == one("SELECT count(*) FROM attempts")
        assert view["counts"]["correct"] == one(
            "SELECT count(*) FROM attempts WHERE verdict = 'correct'"
        )
        assert view["counts"]["problems"] == one("SELECT count(*) FROM problems")
        assert view["rejections"]["totals"]["duplicate"] == one(
            "SELECT count(*) FROM proposals WHERE rejection = 'duplicate'"
        )
        assert view["metrics"]["solve/pass_rate"][4] == pytest.approx(
            one("SELECT avg(verdict = 'correct') FROM attempts WHERE step = 5"), rel=1e-4
        )
        assert view["difficulty"]["all-pass"][2] == pytest.approx(one("SELECT avg(solve_rate = 1) FROM proposals WHERE step = 3 AND problem IS NOT NULL"), abs=1e-4)  # fmt: skip
        assert sum(cell[3] for cell in view["matrix"]["cells"]) == view["counts"]["correct"]
        last = one("SELECT max(step) FROM evals")
        assert view["suites"][0]["base"][0] == pytest.approx(
            one(f"SELECT avg(correct) FROM evals WHERE subject = 'base' AND step = {last}")
        )
        better = one(f"""SELECT avg(s.correct - b.correct) FROM evals s JOIN evals b ON s.item = b.item AND s.step = b.step
            WHERE b.subject = 'base' AND s.subject <> 'base' AND s.step = {last}""")
        assert view["suites"][0]["students"]["gain"][0] == pytest.approx(better, rel=1e-4)


def test_the_pace_is_that_of_the_recent_steps(run: Path) -> None:
    (view,) = gather_runs([run])
    assert view["pace"]["step_s"] == pytest.approx(18.2)
    with contextlib.closing(open_to_read(run)) as connection:
        query = "SELECT sum(value) FROM metrics WHERE step > 4 AND name LIKE '%/tokens'"
        (tokens,) = connection.execute(query).fetchone()
    assert view["pace"]["tokens_per_s"] == pytest.approx(tokens / (8 * 18.2), rel=0.01)


def test_long_runs_are_shown_in_windows(tmp_path: Path) -> None:
    assert (Windows(7, 3).size, Windows(7, 3).count, Windows(7, 3).ends) == (3, 3, [3, 6, 7])
    assert Windows(240).size == 1 and Windows(241).count <= 240 and Windows(0).ends == []


def test_problems_are_sampled_evenly_and_the_page_says_so(run: Path) -> None:
    with open_views([run]) as (view,):
        few = sample_proposals(view, max_chars=20_000)
    steps = [item["step"] for item in few["items"]]
    assert 3 < len(steps) < few["total"]
    assert steps == sorted(steps) and max(steps) > 9 and min(steps) < 3


def test_a_hostile_text_is_data_and_nothing_else(hostile: Path) -> None:
    found = Elements(page_of(hostile))
    assert found.names.count("script") == 2 and "img" not in found.names
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    data = json.loads(found.data)
    assert any(
        HOSTILE in attempt[0]
        for item in data["views"][0]["problems"]["items"]
        for attempt in item.get("attempts", [])
    )


def test_the_page_loads_nothing_and_runs_no_script_but_its_own(run: Path) -> None:
    text = page_of(run)
    assert "default-src 'none'; script-src 'sha256-" in text and "connect-src 'none'" in text
    assert (
        "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    )


def test_a_terminal_gets_no_escapes(hostile: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["report", str(hostile), "--out", str(tmp_path / "report.html")]
    )
    assert result.exit_code == 0 and "\x1b" not in result.output and "\x07" not in result.output
    assert escape_controls(HOSTILE).startswith("</script>") and "\\u001b[2J" in escape_controls(
        HOSTILE
    )


def test_a_problem_is_printed_as_text(hostile: Path) -> None:
    with contextlib.closing(open_to_read(hostile)) as connection:
        (key,) = connection.execute("SELECT problem FROM problems LIMIT 1").fetchone()
    result = CliRunner().invoke(app, ["report", str(hostile), "--problem", key[:10]])
    assert (
        result.exit_code == 0
        and key in result.output
        and "</script><script>" in result.output
        and "\\u001b[2J" in result.output
    )
    assert not [
        character for character in result.output if ord(character) < 32 and character not in "\n\t"
    ]
    assert isinstance(
        CliRunner().invoke(app, ["report", str(hostile), "--problem", "zzz"]).exception, DataError
    )


def test_several_runs_stand_side_by_side(run: Path, hostile: Path) -> None:
    assert [view["seed"] for view in gather_runs([run, hostile])] == [0, 0]


def test_every_world_of_a_study_is_a_view_of_its_own(tmp_path: Path) -> None:
    Synthetic(steps=2, worlds=3, arm="full").write(tmp_path / "study")
    assert [view["name"] for view in gather_runs([tmp_path / "study"])] == [
        f"study: full, seed {seed}" for seed in range(3)
    ]


@needs_chromium
def test_several_worlds_have_a_row_each_before_their_details(tmp_path: Path) -> None:
    Synthetic(steps=9, worlds=4, arm="full").write(tmp_path / "study")
    report(tmp_path / "study", tmp_path / "report.html")
    with open_tab() as browser:
        browser.resize(390, 900)
        browser.open((tmp_path / "report.html").as_uri())
        browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
        rows = "[...document.querySelectorAll('.overview tbody tr')].map((row) => row.cells.length)"
        assert browser.evaluate(rows) == [5] * 4
        assert browser.evaluate("document.querySelectorAll('.answers').length") == 3
        assert browser.evaluate("document.documentElement.scrollWidth") == 390
        assert browser.problems == []


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    from redqueen.cli.report import report

    with pytest.raises(ConfigError, match="no run in"):
        report([tmp_path])


def test_templates_leave_names_numbers_and_texts_aside() -> None:
    assert curriculum.template("def f(x):\n    return x + 1 # 'a'") == curriculum.template(
        "def g(yy):\n  return yy+22#'bcd'"
    )
    assert curriculum.template("def f(x):\n    return x + 1") != curriculum.template(
        "def f(x):\n    return x - 1"
    )


NOVEL: dict[str, Any] = {
    "problems": 90,
    "repeated": {"structure": 0.0, "behaviour": 0.1},
    "lines": {"behaviour": [0.1] * 20, "structure": [0.0] * 20},
}


DRIFT: dict[str, Any] = {
    "rows": [],
    "answers": [],
    "flagged": {"code_o": {"answer_echo": ["ab12"]}},
    "reuse": [],
    "heldout": None,
}
LOOKS: dict[str, Any] = {"kind": "code_o", "first": 0.1, "problems": 90}


def figures(**changes: Any) -> dict[str, Any]:
    """Figures in which nothing is remarkable."""
    quiet: dict[str, Any] = {
        "has_teachers": True, "evolve_every": 0, "steps_done": 20, "steps_wanted": 20, "active": False, "ended": "all steps played", "complexity_index": [1.0] * 20, "metrics": {}, "members": [],
        "counts": {"proposals": 100, "problems": 90, "attempts": 360, "correct": 180, "truncated": 0, "student_won": 40, "rated": 80}, "early_deaths": (0, 0),
        "rejections": {"totals": {}, "proposals": 100}, "novelty": NOVEL,
        "templates": {"programs": 90, "within": [0.01] * 20}, "updates": {}, "timings": {"totals": []}, "suites": [], "crossplay": {"students": [], "problems": [], "cells": []},
        "students_by_kind": {"kinds": [], "cells": []}, "race": None, "selection": {"points": [], "correlations": []},
        "drift": DRIFT,
    }  # fmt: skip
    return {**quiet, **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"metrics": {"solve/pass_rate": [0.5] * 15 + [0.99] * 5}}, "too easy to learn from"),
        ({"metrics": {"solve/pass_rate": [0.5] * 15 + [0.01] * 5}}, "almost no reward signal"),
        ({"metrics": {"verify/valid_frac": [0.9] * 15 + [0.5] * 5}}, "Fewer proposals are valid"),
        (
            {"race": {"solved_sometimes": 0.3, "disengaged": True, "sentence": "so many."}},
            "The race disengages: so many.",
        ),
        (
            {
                "selection": {
                    "correlations": [{"name": "fitness, held-out", "value": -0.2, "rankings": 5}]
                }
            },
            "selection hardly follows skill",
        ),
        (
            {
                "novelty": {
                    **NOVEL,
                    "lines": {"behaviour": [0.1] * 15 + [0.9] * 5, "structure": [0.0] * 20},
                }
            },
            "Coverage has stalled",
        ),
        ({"rejections": {"totals": {"duplicate": 30}, "proposals": 100}}, "are duplicates"),
        (
            {
                "metrics": {
                    "population/distance/student": [5.0] * 20,
                    "population/least_distance/student": [0.01] * 20,
                }
            },
            "nearly identical",
        ),
        (
            {"templates": {"programs": 90, "within": [0.01] * 15 + [0.5] * 5}},
            "rely on few templates",
        ),
        (
            {
                "suites": [
                    {
                        "suite": "heldout",
                        "students": {"gain": [-0.1, -0.2, -0.05]},
                        "agreement": {"pairs": []},
                    }
                ]
            },
            "falls behind the base",
        ),
        (
            {
                "suites": [
                    {
                        "suite": "heldout",
                        "students": None,
                        "products": [{"subject": "soup", "gain": [-0.1, -0.2, -0.05]}],
                        "agreement": {"pairs": []},
                    }
                ]
            },
            "the soup of the students falls behind the base",
        ),
        (
            {
                "crossplay": {
                    "students": [5, 10],
                    "problems": [5, 10],
                    "cells": [[5, 5, 10, 8], [10, 5, 10, 4], [10, 10, 10, 5]],
                }
            },
            "they forget",
        ),
        ({"evolve_every": 10}, "less than one"),
        (
            {"early_deaths": (5, 6), "members": [{"born": 2, "died": 4}]},
            "newborns get no time",
        ),
        ({"counts": {**figures()["counts"], "student_won": 79}}, "one-sided"),
        ({"ended": "stopped after step 3: no proposal"}, "ended early"),
        (
            {"metrics": {"solve/zero_pass_frac": [0.3] * 17 + [0.6] * 3}},
            "60 % of the problems at the end are zero-pass",
        ),
        (
            {"metrics": {"solve/cut_off_frac": [0.0] * 17 + [0.12] * 3}},
            "12 % of the attempts at the end reach their token limit (first quarter: 0 %)",
        ),
        ({"metrics": {"reward/student": [0.3] * 17 + [-0.2] * 3}}, "negative mean reward, -0.20"),
        (
            {"metrics": {"verify/valid_frac/code_f": [0.9] * 17 + [0.4] * 3}},
            "Fewer proposals of code_f are valid: 90 %",
        ),
        (
            {
                "suites": [
                    {
                        "suite": "heldout",
                        "students": None,
                        "agreement": {"pairs": [["S0", "S1", 0.98, 0.9]]},
                    }
                ]
            },
            "on 98 % of the items, kappa 0.90",
        ),
        (
            {"drift": {**DRIFT, "rows": [{**LOOKS, "name": "answer_echo", "last": 0.2}]}},
            "20 % of the code_o problems of the last quarter have an output equal to the input "
            "(first quarter: 10 %), such as ab12.",
        ),
        (
            {
                "drift": {
                    **DRIFT,
                    "answers": [{**LOOKS, "answer": "0", "share": 0.6, "examples": ["cd34"]}],
                }
            },
            "the same answer, 0, such as cd34: it can be guessed",
        ),
        (
            {"drift": {**DRIFT, "reuse": [{"kind": "code_f", "problems": 455, "structures": 81}]}},
            "455 code_f problems rest on 81 structures",
        ),
        (
            {
                "drift": {
                    **DRIFT,
                    "heldout": {
                        "suite": "heldout",
                        "problems": 90,
                        "near": 9,
                        "examples": ["ef56"],
                    },
                }
            },
            "9 of 90 problems of the last quarter nearly repeat an item of heldout",
        ),
        ({"metrics": {"drift/foreign/student": [0.0] * 15 + [0.3] * 5}}, "the language drifts"),
        ({"metrics": {"solve/length": [100.0] * 15 + [400.0] * 5}}, "grown from 100 to 400"),
        (
            {
                "suites": [
                    {
                        "suite": "shortcut",
                        "students": {"gain": [0.1, 0.05, 0.2]},
                        "agreement": {"pairs": []},
                    }
                ]
            },
            "they have learned to guess",
        ),
    ],
)
def test_what_looks_suspicious_is_said(changes: dict[str, Any], said: str) -> None:
    assert not [finding for finding in list_findings(figures()) if finding.level == "warning"]
    assert [
        finding
        for finding in list_findings(figures(**changes))
        if finding.level == "warning" and said in finding.text
    ]


def test_a_short_run_raises_no_alarm_because_members_begin_alike() -> None:
    suites = [
        {"suite": "h", "students": None, "agreement": {"pairs": [["S0", "S1", 1.0, 1.0]]}},
    ]
    metrics = {
        "population/distance/student": [5.0, 5.0],
        "population/least_distance/student": [0.0, 0.0],
        "solve/zero_pass_frac": [0.2, 0.3],
    }
    correlations = [{"name": "fitness, held-out", "value": -1.0, "rankings": 1}]
    short = figures(
        steps_done=2,
        steps_wanted=2,
        suites=suites,
        metrics=metrics,
        race={"solved_sometimes": 0.3, "disengaged": True, "sentence": "so many."},
        selection={"points": [], "correlations": correlations},
    )
    assert not [finding for finding in list_findings(short) if finding.level == "warning"]
    assert not any("correlation" in finding.text for finding in list_findings(short))


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize(
    "line",
    [
        {"solve/all_pass_frac": 0.8},
        {"solve/zero_pass_frac": 0.8},
        {"solve/pass_rate": 0.99},
        {"solve/pass_rate": 0.01},
        {"solve/malformed_frac": 0.9},
        {"verify/valid_frac": 0.1},
        {"drift/foreign/student": 0.9},
        {"solve/reasoning_frac/code_o": 0.9},
    ],
)
def test_the_end_of_a_run_of_a_few_steps_is_not_judged(steps: int, line: dict[str, float]) -> None:
    metrics = {name: [0.3] * (steps - 1) + [value] for name, value in line.items()}
    told = list_findings(figures(steps_done=steps, steps_wanted=steps, metrics=metrics))
    assert {finding.level for finding in told} == {"fact"}
    assert any("too short for trends" in finding.text for finding in told)
    assert not any("reason" in finding.text for finding in told)


def test_what_problems_look_like_is_read_from_the_ledger(run: Path) -> None:
    (view,) = gather_runs([run])
    drift = view["drift"]
    assert {"answer_top", "answer_trivial", "names"} <= {row["name"] for row in drift["rows"]}
    assert all(0 <= one["share"] <= 1 and one["examples"] for one in drift["answers"])
    with open_run(run) as reader:
        ((problems,),) = reader.connection.execute("SELECT count(*) FROM problems").fetchall()
    assert sum(row["problems"] for row in drift["reuse"]) == problems


def test_exams_show_who_is_good_at_what(run: Path) -> None:
    (view,) = gather_runs([run])
    with open_run(run) as reader:
        sums = reader.connection.execute(
            "SELECT step, sum(attempts), sum(correct) FROM exams GROUP BY step ORDER BY step"
        ).fetchall()
    shown = [
        (one["step"], sum(cell[2] for cell in one["cells"]), sum(cell[3] for cell in one["cells"]))
        for one in view["specialists"]
    ]
    assert shown == [tuple(row) for row in sums]


def test_a_copy_of_a_held_out_item_is_near_it_and_a_plain_problem_is_not() -> None:
    items = load_suite("heldout-quick").items(None, None)
    shingles, sizes = drift_figures._index("heldout-quick")
    assert all(
        drift_figures._is_near(item.fields["problem"], shingles, sizes) for item in items[:5]
    )
    assert not drift_figures._is_near(addition(7), shingles, sizes)


def test_a_run_that_is_measured_on_attempts_has_a_report(run: Path, tmp_path: Path) -> None:
    attempt = {"answer": "7", "reasoning": "", "verdict": "correct"}
    suite = tmp_path / "attempts.jsonl"
    suite.write_text(json.dumps({**problem_fields(addition(1)), **attempt}) + "\n")
    change = f"UPDATE worlds SET config = json_set(config, '$.evaluate.suite', '{suite}')"
    with open_views([changed(run, tmp_path / "critics", change)]) as (view,):
        assert view.setting("evaluate.suite") == str(suite)
        assert drift_figures.drift(view)["heldout"]["suite"] == str(suite)


def test_students_who_come_to_reason_are_spoken_of() -> None:
    told = list_findings(
        figures(
            metrics={
                "solve/reasoning_frac/code_o": [0.4] * 10 + [0.9] * 10,
                "solve/reasoning_frac/code_i": [0.0] * 20,
            }
        )
    )
    assert [finding.text for finding in told if "reason" in finding.text] == [
        "Students reason more often before answering code_o: in 40 % of the attempts at first, in 90 % at the end."
    ]


def test_every_figure_says_what_it_is_and_what_is_good_and_bad() -> None:
    web = resources.files("redqueen.report") / "web"
    text = (web / "figures.js").read_text() + (web / "people.js").read_text()
    figures = set(re.findall(r'\{ id: "([\w-]+)", (?:wide|title|note|panels|custom)', text))
    texts = (web / "explained.js").read_text()
    explained = dict(re.findall(r'^  "([\w-]+)": \[\n(.*?)\],$', texts, re.M | re.S))
    assert explained.keys() == figures and len(figures) > 40
    for name, sentences in explained.items():
        parts = re.findall(r'^    "(.+)",?$', sentences, re.M)
        assert len(parts) == 3 and all(part[-1] in ".?" for part in parts), name


@needs_chromium
def test_a_page_fits_a_phone_and_no_label_covers_another(run: Path, tmp_path: Path) -> None:
    report(run, tmp_path / "report.html")
    overlaps = """[...document.querySelectorAll('svg.chart')].flatMap(chart => {
      const all = [...chart.querySelectorAll('text')].map(one => one.getBoundingClientRect());
      return all.flatMap((a, at) => all.slice(at + 1).filter(b =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)).map(() => chart.ariaLabel)
    }).join(', ')"""
    with open_tab() as browser:
        for width in (390, 1400):
            browser.resize(width, 900)
            browser.open((tmp_path / "report.html").as_uri())
            browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
            assert browser.evaluate("document.documentElement.scrollWidth") == width
            assert browser.evaluate(overlaps) == ""


@needs_chromium
def test_the_numbers_of_a_figure_can_be_taken_away_as_csv(run: Path, tmp_path: Path) -> None:
    report(run, tmp_path / "report.html")
    with open_tab() as browser:
        browser.open((tmp_path / "report.html").as_uri())
        browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
        browser.evaluate("document.querySelector('#figure-solve-rate .numbers summary').click()")
        browser.wait_for("document.querySelector('#figure-solve-rate a[download]') !== null")
        link = "document.querySelector('#figure-solve-rate a[download]')"
        assert browser.evaluate(f"{link}.download") == "solve-rate-of-students.csv"
        text = unquote(browser.evaluate(f"{link}.href").partition(",")[2])
        assert text.splitlines()[0] == '"step","solve rate"' and len(text.splitlines()) == 13
        assert browser.problems == []


@needs_chromium
def test_a_line_chart_without_values_is_left_out(run: Path, tmp_path: Path) -> None:
    report(run, tmp_path / "report.html")
    page = tmp_path / "report.html"
    shown = "document.querySelector('#figure-templates') !== null"
    for gap in (False, True):
        if gap:  # as in runs so short that no part has two programs
            page.write_text(
                re.sub(r'"(within|between)":\[[^\]]*\]', r'"\1":[null]', page.read_text())
            )
        with open_tab() as browser:
            browser.open(page.as_uri())
            browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
            assert browser.evaluate(shown) is not gap
            assert browser.problems == []


@needs_chromium
def test_a_browser_shows_hostile_text_as_text_and_has_nothing_to_complain_about(
    hostile: Path, tmp_path: Path
) -> None:
    report(hostile, tmp_path / "report.html")
    with open_tab() as browser:
        browser.resize(1400, 900)
        browser.open((tmp_path / "report.html").as_uri())
        browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
        assert browser.evaluate("document.title").startswith("Red Queen: hostile")
        assert browser.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert browser.evaluate(
            "[...document.querySelectorAll('.attempt pre')].some(pre => pre.textContent.includes('</script><script>'))"
        )
        assert browser.evaluate(
            "[...document.querySelectorAll('.attempt pre')].some(pre => pre.textContent.includes('\\\\u001b[2J'))"
        )
        for section in SECTIONS:
            assert (
                browser.evaluate(
                    f"document.querySelectorAll('#{section} figure, #{section} .row').length"
                )
                > 0
            ), section
        browser.evaluate("document.querySelectorAll('summary').forEach(one => one.click())")
        browser.evaluate("document.querySelectorAll('.row').forEach(one => one.click())")
        browser.evaluate(
            "(s => { s.value = 'all-pass'; s.dispatchEvent(new Event('change')) })(document.querySelector('[name=difficulty]'))"
        )
        assert browser.evaluate(
            "[...document.querySelectorAll('.row em')].every(one => one.textContent === '100 %')"
        )
        browser.screenshot(tmp_path / "tree.png", "#figure-tree")
        assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG") and (
            tmp_path / "tree.png"
        ).stat().st_size > 5000
        assert browser.problems == []


@needs_chromium
def test_programs_have_colors_and_are_the_same_text(run: Path, tmp_path: Path) -> None:
    report(run, tmp_path / "report.html")
    parts = {
        "py-keyword": ["def", "for", "in", "if", "else", "return"],
        "py-number": ["0x1f", "2.5e-3"],
        "py-comment": ["# an 'odd' one"],
        "py-text": ["rb'\\''", '"it\'s # no comment"', "'''a\nb'''", "'unfinished"],
    }
    program = (
        "def f(x1, s):  # an 'odd' one\n    for c in s:\n        x1 += 0x1f - 2.5e-3 if c else bar\n"
        f"    t = {' + '.join(parts['py-text'][:3])}\n    return t, <b>'unfinished\n"
    )
    with open_tab() as browser:
        browser.open((tmp_path / "report.html").as_uri())
        browser.wait_for("document.querySelectorAll('.py-keyword').length > 3")
        made = f"html('pre', {{}}, pythonNodes({json.dumps(program)}))"
        assert browser.evaluate(f"{made}.textContent") == program
        for name, texts in parts.items():
            found = f"[...{made}.querySelectorAll('.{name}')].map(one => one.textContent)"
            assert browser.evaluate(found) == texts
        assert browser.problems == []


@needs_chromium
def test_a_problem_of_the_beginning_the_middle_and_the_end_stand_side_by_side(
    run: Path, tmp_path: Path
) -> None:
    report(run, tmp_path / "report.html")
    headings = "[...document.querySelectorAll('.times .side > h4')].map(one => one.textContent)"
    with open_tab() as browser:
        browser.resize(1400, 900)
        browser.open((tmp_path / "report.html").as_uri())
        browser.wait_for("document.querySelectorAll('.times .side').length === 3")
        shown = browser.evaluate(headings)
        steps = [int(re.findall(r"step (\d+)", text)[0]) for text in shown]
        assert steps[0] < 4 < steps[1] < 9 < steps[2]
        assert [text.split(" ")[0] for text in shown] == ["beginning", "middle", "end"]
        assert len({text.split(" · ")[3] for text in shown}) == 1
        browser.click(".times button")
        assert browser.evaluate(headings) != shown
        choose = "(s => { s.value = 'code_f'; s.dispatchEvent(new Event('change')) })"
        browser.evaluate(f"{choose}(document.querySelector('[name=kind]'))")
        assert all("code_f" in text for text in browser.evaluate(headings))
        assert browser.problems == []


def test_pictures_without_a_browser_are_refused_before_any_work(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redqueen.cli.report import report

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apt install chromium"):
        report([run], tmp_path / "report.html", png=True)
    assert not (tmp_path / "report.html").exists()


def changed(run: Path, copy: Path, *statements: str) -> Path:
    """The run as another one, by SQL."""
    shutil.copytree(run, copy)
    with contextlib.closing(sqlite3.connect(copy / "run.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return copy


def without_teachers(run: Path, copy: Path) -> Path:
    gone = [
        f"DELETE FROM {table} WHERE member LIKE 'T%'"
        for table in ("births", "deaths", "ratings", "updates")
    ]
    return changed(
        run,
        copy,
        *gone,
        "UPDATE proposals SET teacher = 'fixed'",
        "UPDATE pairings SET teacher = 'fixed', winner = NULL",
    )


def in_self_play(run: Path, copy: Path) -> Path:
    gone = [
        f"DELETE FROM {table} WHERE member LIKE 'T%'"
        for table in ("births", "deaths", "ratings", "updates")
    ]
    both = [
        f"UPDATE {table} SET role = 'both', member = replace(member, 'S', 'B')"
        for table in ("births", "ratings")
    ]
    same = "UPDATE pairings SET student = replace(student, 'S', 'B'), teacher = replace(student, 'S', 'B'), score = NULL, winner = NULL"
    return changed(
        run,
        copy,
        *gone,
        *both,
        same,
        "UPDATE proposals SET teacher = 'B0'",
        "DELETE FROM deaths",
        "DELETE FROM births WHERE step > 0",
    )


def test_crossplay_is_a_matrix_of_its_own_and_no_suite(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "crossed")
    with Ledger.open(tmp_path / "crossed") as ledger:
        row = {"world": 0, "subject": "S0", "kind": "code_o", "tier": 0, "sample": 0}
        ledger.add("evals", [{**row, "step": step, "suite": f"crossplay/{posed}", "item": str(item), "correct": item % 2} for step in (4, 8) for posed in (4, 8) for item in range(10)])  # fmt: skip
    (view,) = gather_runs([tmp_path / "crossed"])
    assert [suite["suite"] for suite in view["suites"]] == ["heldout-quick"]
    assert view["crossplay"] == {
        "students": [4, 8],
        "problems": [4, 8],
        "cells": [[4, 4, 10, 5], [4, 8, 10, 5], [8, 4, 10, 5], [8, 8, 10, 5]],
    }


def test_teachers_that_were_asked_later_do_not_count_as_students(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "asked")
    with Ledger.open(tmp_path / "asked") as ledger:
        row = {
            "world": 0,
            "step": ledger.last_step(),
            "suite": "eval/own (own-1, base, greedy, 9 tokens)",
            "kind": "own-1",
            "tier": 0,
            "sample": 0,
        }
        ledger.add("evals", [{**row, "subject": subject, "item": str(item), "correct": subject == "T0"} for subject in ("T0", "S0", "base") for item in range(10)])  # fmt: skip
    (view,) = gather_runs([tmp_path / "asked"])
    own = next(suite for suite in view["suites"] if suite["suite"].startswith("eval/own"))
    assert [one["subject"] for one in own["subjects"]] == ["S0"] and own["students"]["score"][
        0
    ] == 0
    assert digest(tmp_path / "asked") == digest(run)


def test_scores_show_what_the_population_hands_over_beside_the_base(
    run: Path, tmp_path: Path
) -> None:
    correct = {"S0": 5, "base": 2, FORCED: 3, SOUP: 6, CHOSEN: 5, VOTE: 7, BASE_VOTE: 4}
    shutil.copytree(run, tmp_path / "measured")
    with Ledger.open(tmp_path / "measured") as ledger:
        row = {"world": 0, "step": ledger.last_step(), "suite": "eval/own", "kind": "own", "tier": 0, "sample": 0}  # fmt: skip
        ledger.add("evals", [{**row, "subject": subject, "item": str(item), "correct": item < number} for subject, number in correct.items() for item in range(10)])  # fmt: skip
    (view,) = gather_runs([tmp_path / "measured"])
    own = next(suite for suite in view["suites"] if suite["suite"] == "eval/own")
    scores = {one["subject"]: (one["score"][0], one["gain"][0]) for one in own["products"]}
    # a vote is set against the base's vote
    assert scores == {FORCED: (0.3, 0.1), SOUP: (0.6, 0.4), CHOSEN: (0.5, 0.3), VOTE: (0.7, 0.3)}
    assert [one["subject"] for one in own["subjects"]] == ["S0"]
    if find_chromium() is not None:
        report(tmp_path / "measured", tmp_path / "report.html")
        with open_tab() as browser:
            browser.open((tmp_path / "report.html").as_uri())
            browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
            texts = "[...document.querySelectorAll('svg.chart text')].map((one) => one.textContent)"
            assert {FORCED, SOUP, CHOSEN, VOTE} <= set(browser.evaluate(texts))
            assert browser.problems == []


def test_what_has_nothing_to_be_compared_with_is_not_beside_the_base(
    run: Path, tmp_path: Path
) -> None:
    """A vote of greedy answers is over some of the items only; a base that always reasons answers
    as it does if it is made to."""
    shutil.copytree(run, tmp_path / "measured")
    with Ledger.open(tmp_path / "measured") as ledger:
        row = {"world": 0, "step": ledger.last_step(), "suite": "eval/own", "kind": "own", "tier": 0, "sample": 0}  # fmt: skip
        asked = {"S0": 10, "base": 10, FORCED: 10, SOUP: 10, VOTE: 4}
        ledger.add("evals", [{**row, "subject": subject, "item": str(item), "correct": item < 3} for subject, items in asked.items() for item in range(items)])  # fmt: skip
    (view,) = gather_runs([tmp_path / "measured"])
    own = next(suite for suite in view["suites"] if suite["suite"] == "eval/own")
    assert [one["subject"] for one in own["products"]] == [SOUP]
    assert FORCED not in {tier[0] for tier in own["tiers"]}


@pytest.mark.parametrize("other", [without_teachers, in_self_play])
def test_runs_without_teachers_and_self_play_have_reports(
    run: Path, tmp_path: Path, other: Callable[[Path, Path], Path]
) -> None:
    folder = other(run, tmp_path / "other")
    (view,) = gather_runs([folder])
    assert view["matrix"]["cells"] and view["ratings"] and view["findings"]
    if other is without_teachers:
        assert not [finding for finding in view["findings"] if "eachers" in finding["text"]]
    if find_chromium() is not None:
        report(folder, tmp_path / "report.html")
        with open_tab() as browser:
            browser.open((tmp_path / "report.html").as_uri())
            browser.wait_for("document.querySelectorAll('svg.chart').length > 10")
            assert browser.problems == []


def test_problems_are_shown_as_their_kind_shows_them_and_as_stored_without_it(
    run: Path, tmp_path: Path
) -> None:
    def blocks(folder: Path) -> dict[str, str]:
        with open_views([folder]) as (view,):
            items = sample_proposals(view)["items"]
        return dict(next(item["blocks"] for item in items if item["problem"]))

    assert list(blocks(run)) == ["program", "input", "output"] and blocks(run)["output"] == "7"
    foreign = changed(run, tmp_path / "foreign", "UPDATE problems SET kind = 'nowhere:Kind'")
    stored = blocks(foreign)
    assert stored["program"] == blocks(run)["program"] and stored["gold"] == "7"


def test_json_in_a_page_cannot_end_its_element(run: Path) -> None:
    text = report_page({"views": [], "title": "</title><script>1</script>"})
    assert text.count("<script") == 2 and "</title><script>" not in text


def test_reasoning_is_held_against_execution_on_demand(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Synthetic(
        steps=1,
        thought="y = 0",
        program="def f(x):\n    y = x + 4 + 0 * ({n} + {m} + {k})\n    return y\n",
    ).write(folder)
    plain = gather_report([folder])["views"][0]["problems"]["items"]
    assert all(len(attempt) == 7 for item in plain for attempt in item.get("attempts", ()))
    with SandboxPool() as pool:
        items = gather_report([folder], sandbox=pool)["views"][0]["problems"]["items"]
    marked = [attempt for item in items for attempt in item.get("attempts", ())]
    assert marked and all(len(attempt) == 8 for attempt in marked)
    assert 1 in [attempt[-1] for attempt in marked]  # y = 0 is not what its line computes
