"""What tutorials show runs as it stands: Python, SQL, and every command that is cheap on a CPU. Runs
are played with few and short texts."""

import os
import re
import shutil
import sqlite3
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.architecture.test_commands import commands, named_files, plain, write_files
from tests.architecture.test_documents import DOCS, DOCS_BY_NAME, REPOSITORY, blocks
from tests.e2e.processes import Command, run_code, start_code
from tests.e2e.test_serve_sdk import free_port

TUTORIALS = sorted((REPOSITORY / "docs/tutorials").glob("*.md"))
CHEAP = {
    "steps": "1", "device": "cpu", "tasks.kinds": "['code_o']", "archive.seed_count": "8", "propose.prompts": "1", "propose.samples": "2",
    "propose.max_tokens": "48", "solve.attempts": "2", "solve.max_tokens": "24", "evolve.exam.problems": "8", "evaluate.suite": "",
    "warmup.steps": "0", "sandbox.workers": "1",
}  # fmt: skip
"""A run of a second or two."""
ELSEWHERE = {
    "cluster": "tests/contract/test_cluster_check.py",
    "study": "takes minutes, or several GPUs; its plan is made",
    "watch": "a server; tests/report/test_watch.py",
}
"""Commands that are left out, and where they are run."""
NEEDS_DATA = {"humaneval+", "cruxeval-o"}
PORT = re.compile(r"\b8744\b|\b8800\b")
os.environ["TINKER_TELEMETRY"] = "0"  # read by clients, which are forked from here


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_as_it_stands(page: Path, tmp_path: Path) -> None:
    """A block that begins with a file's name is that file; the other Python blocks of a page are one
    script; JSON is the file that the page names."""
    tutorial = Tutorial(page, tmp_path)
    try:
        tutorial.run()
    finally:
        tutorial.stop_servers()
    digests = [out.split()[-1] for words, out in tutorial.told if words[:1] == ["digest"]]
    if page.stem == "many-gpus":
        assert len(digests) == 2 and len(set(digests)) == 1


@pytest.mark.slow
def test_the_python_of_the_evaluation_page_runs(tmp_path: Path) -> None:
    guide = Tutorial(DOCS_BY_NAME["evaluation"], tmp_path)
    write_files(guide.page, tmp_path)
    guide.type("redqueen run --out runs/quick-1")
    measure, _ = blocks(guide.page, "python")
    assert run_code(measure.replace("limit=100", "limit=2"), tmp_path).out.count("\n") >= 3
    guide.type("redqueen eval pawn --suite my_package.suites:Capitals")
    assert "capitals" in guide.told[-1][1]


@pytest.mark.slow
def test_the_python_of_the_serving_page_runs(tmp_path: Path) -> None:
    guide = Tutorial(DOCS_BY_NAME["serving"], tmp_path)
    (connect,) = blocks(guide.page, "python")
    variables = f'import os\nos.environ["TINKER_BASE_URL"] = "http://127.0.0.1:{guide.port}"\n'
    variables += 'os.environ["TINKER_API_KEY"] = "tml-any"\n'
    connect = re.sub(r'base_model="[^"]*"', 'base_model="pawn"', connect)
    try:
        guide.type("redqueen serve --base pawn")
        told = run_code(f"{variables}{connect}print(training.get_info().lora_rank)\n", tmp_path).out
    finally:
        guide.stop_servers()
    assert told == "16\n"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_python_block_is_python(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, page.name, "exec")


class Tutorial:
    """A page, and the folder of somebody who follows it."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.told: list[tuple[list[str], str]] = []
        """What each command of ours said."""
        self.servers: list[Command] = []
        self.port = free_port()

    def run(self) -> None:
        write_files(self.page, self.folder)
        files = named_files(self.page).values()
        script = "".join(text for text in blocks(self.page, "python") if text not in files)
        if script:
            assert run_code(script, self.folder).out.strip()
        for text in blocks(self.page, "json"):
            (self.folder / "texts.jsonl").write_text(text)
        for text in blocks(self.page, "toml"):
            tomllib.loads(text)
        for text in blocks(self.page, "sql"):
            self._query(text)
        for text in blocks(self.page, "sh"):
            self.type(text)

    def type(self, text: str) -> None:
        for words in map(plain, commands(PORT.sub(str(self.port), text))):
            self._command(words)

    def _query(self, text: str) -> None:
        (ledger,) = self.folder.glob("runs/*/run.sqlite")
        connection = sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)
        assert connection.execute(text).fetchall()
        connection.close()

    def _command(self, words: list[str]) -> None:
        if words[:1] == ["redqueen"]:
            self._ours(words[1:])
        elif words[:1] == ["python"] and words[1] in named_files(self.page):
            code = PORT.sub(str(self.port), (self.folder / words[1]).read_text())
            assert run_code(code, self.folder, f"client{len(self.told)}").out.strip()
        elif words[:1] == ["curl"] and shutil.which("curl"):
            said = subprocess.run([*words, "--fail", "--silent"], capture_output=True, check=False)
            assert said.returncode == 0 and said.stdout.startswith(b"{"), words

    def _ours(self, words: list[str]) -> None:
        plans = "--dry-run" in words
        if (words[0] in ELSEWHERE and not plans) or NEEDS_DATA & set(words):
            return
        words = ["pawn" if word == "FOLDER" else word for word in words]
        if words[0] == "run" and not plans:
            given = {word.partition("=")[0] for word in words}
            own = (f"{name}={value}" for name, value in CHEAP.items() if name not in given)
            words += [word for setting in (*own, "steps=1") for word in ("--set", setting)]
        if words[0] == "export" and "--problems" in words:
            words.append("--all")  # two attempts at two problems may leave none that is solved once
        if words[0] == "serve" and "--port" not in words:
            words += ["--port", str(self.port)]
        for option, least in (("--limit", "2"), ("--steps", "2")):
            if option in words:
                words[words.index(option) + 1] = least
        code = f"import sys\nsys.argv = {['redqueen', *words]!r}\nfrom redqueen.cli.app import main\nmain()\n"
        command = start_code(code, self.folder, f"command{len(self.told)}")
        if words[0] == "serve":
            self._serve(command)
        else:
            self.told.append((words, command.wait().out))

    def _serve(self, command: Command) -> None:
        self.stop_servers()  # the page has them one after another, on one port here
        self.servers.append(command)
        self.told.append((["serve"], ""))
        command.until("Ctrl-C")
        wait_for_server(self.port)

    def stop_servers(self) -> None:
        for server in self.servers:
            server.process.terminate()
            server.process.join()
        self.servers.clear()


def wait_for_server(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError("no server answers")
