"""The documentation site builds without a warning, and what its tutorials show runs as it stands."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from redqueen.ledger.tables import table_shapes
from tests.architecture.test_documents import fences
from tests.e2e.processes import run_code

REPOSITORY = Path(__file__).parents[2]
TUTORIALS = sorted((REPOSITORY / "docs/tutorials").glob("*.md"))
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f".{os.pathsep}{REPOSITORY / 'src'}",
    "NO_MKDOCS_2_WARNING": "1",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    result = run(command, REPOSITORY)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_and_its_reference_is_whole(site: Path) -> None:
    settings = (site / "reference/settings/index.html").read_text()
    assert "max_tokens_per_microbatch" in settings and "teacher_learning_rate" in settings
    commands = (site / "reference/commands/index.html").read_text()
    assert "redqueen bench engine" in commands and "--dry-run" in commands
    assert "load_config" in (site / "reference/api/index.html").read_text()
    assert "svd_jitter" in (site / "reference/tables/index.html").read_text()
    ledger = (site / "reference/ledger/index.html").read_text()
    for table in table_shapes().values():
        assert all(f"<code>{name}</code>" in ledger for name in (table.name, *table.columns))


@pytest.mark.slow
def test_every_setting_command_and_column_has_a_meaning(site: Path) -> None:
    """The last cell of every row of the reference is what it means."""
    for page in ("settings", "commands", "ledger"):
        html = (site / f"reference/{page}/index.html").read_text()
        for row in re.findall(r"<tr>\n(.*?)</tr>", html, re.DOTALL):
            cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
            assert not cells or cells[-1].strip(), f"{page}: {cells[0]} has no description"


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_as_it_stands(page: Path, tmp_path: Path) -> None:
    """A block that begins with a file's name is that file; the other Python blocks of a page are one
    script; JSON is the file that the page names."""
    script = ""
    for language, text in fences(page):
        if language == "python" and (file := re.match(r"# (\w+\.py)\n", text)):
            (tmp_path / file[1]).write_text(text)
        elif language == "python":
            script += text
        elif language == "json":
            (tmp_path / "texts.jsonl").write_text(text)
        elif language == "toml":
            tomllib.loads(text)
    if script:
        assert run_code(script, tmp_path).out.strip()
    for language, text in fences(page):
        for words in re.findall(r"redqueen (kind check [^#\n]*)", text if language == "sh" else ""):
            result = run([sys.executable, "-m", "redqueen", *words.split()], tmp_path)
            assert result.returncode == 0, result.stdout + result.stderr


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
