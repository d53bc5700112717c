"""A domain is one folder under tasks/: nothing else names it, nothing else is touched to add one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from redqueen.tasks import DOMAINS, KINDS

SOURCE = Path(__file__).parents[2] / "src" / "redqueen"
RIDDLES = """
from dataclasses import dataclass
from redqueen.tasks.kind import Kind, Malformed, Verified, take

@dataclass(frozen=True)
class Riddle:
    text: str
    answer: str

class Riddles(Kind):
    name = "riddle"
    payload = Riddle
    summary = "guess"
    proposal_blocks = ("riddle", "answer")
    answer_blocks = ("answer",)
    def seeds(self): return [Riddle("What has keys but no locks?", "a piano")]
    def ask_proposal(self, references): return self.request("teacher", "Pose a riddle.")
    def read_proposal(self, blocks, references): return Riddle(take(blocks, "riddle"), take(blocks, "answer"))
    def verification(self, payload, rules): return None
    def verified(self, payload, outcome, rules): return Verified(payload, (payload.answer,), {}, (payload.text,))
    def ask_answer(self, problem): return self.request("student", "Guess.", (("riddle", problem.payload.text),))
    def read_answer(self, blocks): return take(blocks, "answer").strip()
    def grading(self, problem, answer, rules): return None
    def is_correct(self, problem, answer, outcome): return answer == problem.gold[0]

KINDS = {"riddle": Riddles()}
SOURCES = {"riddles": lambda rng, count, tiers, kinds: [("riddle", Riddles().seeds()[0])]}
"""
PROGRAM = """
import json, sys
from redqueen.config.toml import load_config
from redqueen.core.build import verify_seeds
from redqueen.tasks import KINDS
from redqueen.tasks.sources import GENERATORS
from redqueen.testing import check_kind
problems = check_kind("riddle", [">>riddle\\nWho?\\n>>answer\\nme\\n>>end"], [">>answer\\nme\\n>>end"], [">>answer\\nyou\\n>>end"])
seeds = verify_seeds(load_config(None, ["tasks.kinds=['riddle']"]), type("Empty", (), {"run": lambda self, jobs: []})())
print(json.dumps([list(KINDS), "riddles" in GENERATORS, [seed.gold for seed in seeds]]))
"""


def test_a_new_domain_is_one_folder(tmp_path: Path) -> None:
    package = tmp_path / "redqueen"
    (package / "tasks" / "riddles").mkdir(parents=True)
    for folder in (SOURCE, SOURCE / "tasks"):
        for path in folder.iterdir():
            target = tmp_path / "redqueen" / path.relative_to(SOURCE)
            if not target.exists():
                target.symlink_to(path)
    (package / "tasks" / "riddles" / "__init__.py").write_text(RIDDLES)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        [*list(KINDS)[:5], "riddle", *list(KINDS)[5:]], True, [["a piano"]],
    ]  # fmt: skip


READ_BY_PAWN = {"pawn/puzzles.py", "config/recipes/games-pawn.toml"}
"""A bundled base is trained on documents of a domain, and a recipe plays it; nothing of the domain
depends on them."""


@pytest.mark.parametrize("domain", sorted(set(DOMAINS) - {"code"}))
def test_nothing_outside_its_folder_names_a_domain_or_its_kinds(domain: str) -> None:
    names = "|".join(map(re.escape, DOMAINS[domain].KINDS))
    pattern = re.compile(rf"tasks\.{domain}\b|[\"'`](?:{names})[\"'`]")
    others = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*")
        if path.suffix in (".py", ".js", ".toml", ".sql")
        and SOURCE / "tasks" / domain not in path.parents
        and pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert not set(others) - READ_BY_PAWN
