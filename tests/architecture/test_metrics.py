"""The page of metrics names every metric that steps have, and no other."""

import re
from pathlib import Path

import pytest

import redqueen as rq
from tests.architecture.test_documents import DOCS_BY_NAME, SOURCE, blocks, metric_patterns
from tests.e2e.processes import run_code

PAGE = DOCS_BY_NAME["metrics"]
DOCUMENTED = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
PLAY = """
import redqueen as rq

config = rq.load_config(
    "games-pawn", steps=2,
    population={"teachers": 1, "students": 2},
    games={"race": 0.0, "critique": {"share": 0.5, "samples": 2}, "repair": {"share": 0.5, "samples": 2}},
    warmup={"steps": 1, "examples": 1},
    archive={"seed_count": 16, "replay_share": 0.4},
    propose={"samples": 3, "max_tokens": 112},
    solve={"attempts": 2, "max_tokens": 64},
    evolve={"every": 2, "share": 0.5, "merge_every": 1, "exam": {"problems": 8}},
    evaluate={"suite": ""},
)
with rq.Run.create(config, "runs/pawn-cpu-1") as run:
    for step in run:
        pass
"""


def pattern(name: str) -> str:
    """What stands in capitals may be anything: a name of our own, or of somebody's task kind."""
    return re.sub(r"[A-Z]+", r"[\\w.:-]+", re.escape(name))


@pytest.mark.slow
def test_every_metric_of_a_step_is_on_the_page(tmp_path: Path) -> None:
    run_code(PLAY, tmp_path, "play")
    with rq.open_run(tmp_path / "runs/pawn-cpu-1") as run:
        names = {row["name"] for row in run.metrics()}
    assert {"exam/best", "evolve/merged", "warmup/tokens", "replay/count"} <= names
    known = re.compile("|".join(map(pattern, DOCUMENTED)))
    assert not [name for name in sorted(names) if not known.fullmatch(name)]
    (shown,) = blocks(PAGE, "python")
    assert run_code(shown, tmp_path, "shown").out.startswith("[0.")


def test_the_page_names_no_metric_twice_and_none_that_there_is_not() -> None:
    text = PAGE.read_text()
    names = re.findall(r"^\| `([^`]+)` \|", text[text.index("## Proposals") :], re.MULTILINE)
    assert len(names) == len(set(names))
    known = re.compile("|".join(map(pattern, names)))
    assert all(known.fullmatch(name) for name in DOCUMENTED)
    in_code = metric_patterns(*SOURCE.glob("**/*.py"))
    features = ("complexity/", "time/worker/")  # named after what a kind, or a worker, gives
    for name in names:
        example = re.sub(r"[A-Z]+", "x", name)
        found = any(re.fullmatch(one, example) for one in in_code)
        assert found or name.startswith(features), name
