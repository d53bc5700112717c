"""Exports that others train on: questions with answers, attempts, and the hub, which is played here
by a server that keeps what it is sent."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from redqueen.cli.app import app
from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.errors import ConfigError
from redqueen.evaluate.targets import open_target
from redqueen.models.peft_io import load_adapter
from redqueen.report.export.attempts import export_attempts
from redqueen.report.export.problems import export_problems
from redqueen.report.export.training import export_training
from tests.report.synthetic import Synthetic

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "quick"
    Synthetic(steps=6, members=2, evolve_every=100).write(folder)
    return folder


def test_problems_that_teach_nothing_are_left_out_unless_asked_for(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "redqueen"):
        some = read(export_training(run, tmp_path / "some", "trl"), "problems.jsonl")
        plain = read(export_problems(run, tmp_path / "plain").parent, "problems.jsonl")
        export_attempts(run, tmp_path / "sft", "sft")
    assert {row["id"] for row in some} == {row["problem"] for row in plain}
    everything = export_training(run, tmp_path / "all", "trl", everything=True)
    rates = [row["solve_rate"] for row in read(everything, "problems.jsonl")]
    told = f"{len(rates) - len(some)} of {len(rates)} problems are left out"
    assert [told in message for message in caplog.messages] == [True] * 3
    assert {0, 1} & set(rates) and len(some) == sum(0 < rate < 1 for rate in rates) > 0
    assert all(0 < row["solve_rate"] < 1 for row in some)
    assert all(row["difficulty"] == 1 - row["solve_rate"] for row in some)
    assert {row["license"] for row in some} == {"apache-2.0"}


def test_every_problem_has_a_question_and_an_answer_that_the_question_does_not_show(
    run: Path, tmp_path: Path
) -> None:
    rows = read(
        export_problems(run, tmp_path / "data", license_id="cc-by-4.0").parent, "problems.jsonl"
    )
    assert {row["license"] for row in rows} == {"cc-by-4.0"}
    assert "license: cc-by-4.0\n" in (tmp_path / "data" / "README.md").read_text()
    for row in rows:
        expected = {"code_o": "gold", "code_i": "inputs", "code_f": "program"}[row["kind"]]
        value = row[expected] if expected == "program" else row[expected][0]
        assert row["answer"] == value and row["prompt"][-1]["role"] == "user"


def test_attempts_are_right_ones_to_imitate_and_pairs_to_prefer(run: Path, tmp_path: Path) -> None:
    correct = read(export_attempts(run, tmp_path / "sft", "sft"), "attempts.jsonl")
    pairs = read(export_attempts(run, tmp_path / "dpo", "preference"), "attempts.jsonl")
    assert correct and pairs
    texts = {(row["id"], row["completion"][0]["content"]) for row in correct}
    assert len(texts) == len(correct)
    for pair in pairs:
        chosen, rejected = (pair[name][0]["content"] for name in ("chosen", "rejected"))
        assert (pair["id"], chosen) in texts and (pair["id"], rejected) not in texts
        assert pair["prompt"][0]["content"].startswith(f">>student {pair['kind']}\n")
    with pytest.raises(ConfigError, match="one of sft, preference; got dpo"):
        export_attempts(run, tmp_path / "x", "dpo")  # type: ignore[arg-type]


class Hub(ThreadingHTTPServer):
    """Repositories by kind and name, each with its files."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.created: list[dict[str, Any]] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self._send(401, {"error": "who are you?"})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            self.server.created.append(asked)
            name = f"{asked.get('organization', 'me')}/{asked['name']}"
            self.server.repositories.setdefault(f"{asked.get('type', 'model')}s/{name}", {})
            return self._send(200, {"url": f"{self.server.address}/{name}", "name": name})
        if "/validate-yaml" in self.path:
            return self._send(200, {"errors": [], "warnings": []})
        kind, *words = self.path.split("/")[2:5]
        name = "/".join(words)
        files = self.server.repositories[f"{kind}/{name}"]
        if "/preupload/" in self.path:
            asked = json.loads(body)["files"]
            kept = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in asked
            ]
            return self._send(200, {"files": kept})
        for line in body.decode().splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        return self._send(
            200,
            {
                "success": True,
                "commitOid": "a" * 40,
                "commitUrl": f"{self.server.address}/{name}/commit/{'a' * 40}",
                "hookOutput": "",
            },
        )

    def do_GET(self) -> None:
        self._get()

    def do_HEAD(self) -> None:
        self._get()

    def _get(self) -> None:
        known = self.server.repositories
        if match := re.match(r"/api/((?:models|datasets)/[\w.-]+/[\w.-]+)", self.path):
            files = known.get(match[1])
            if files is None:
                return self._send(404, {"error": "no such repository"}, code="RepoNotFound")
            listed = [{"rfilename": name} for name in files]
            tree = [
                {"type": "file", "path": n, "size": len(c), "oid": "b" * 40}
                for n, c in files.items()
            ]
            about = {
                "id": match[1].partition("/")[2],
                "sha": "a" * 40,
                "siblings": listed,
                "private": False,
            }
            return self._send(200, tree if "/tree/" in self.path else about)
        match = re.match(r"/([\w.-]+/[\w.-]+)/resolve/[^/]+/(.+)", self.path)
        content = known.get(f"models/{match[1]}", {}).get(match[2]) if match else None
        if content is None:
            return self._send(404, {"error": "no such file"}, code="EntryNotFound")
        return self._send(200, content)

    def _send(self, status: int, content: Any, code: str = "") -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", '"%040x"' % (hash(body) % 16**40))
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def export(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["export", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_an_adapter_that_is_pushed_to_the_hub_is_evaluated_by_its_name(
    hub: Hub, tmp_path: Path
) -> None:
    settings = [
        "steps=1",
        "population.teachers=0",
        "population.students=2",
        "lora.rank=2",
        "evaluate.suite=",
    ]
    with Run.create(load_config("pawn-cpu", settings), tmp_path / "run"):
        pass
    assert "pushed: " in export(
        tmp_path / "run", "--member", "S1", "--push", "me/s1", "--base", "pawn"
    )
    files = hub.repositories["models/me/s1"]
    assert {"README.md", "adapter_config.json", "adapter_model.safetensors"} <= set(files)
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == "pawn"
    assert hub.created[0]["visibility"] == "private"
    target = open_target("me/s1", device="cpu")
    try:
        assert target.models[0].name == "me/s1"
        assert target.base.name == "pawn"
    finally:
        target.close()
    export(tmp_path / "run", "--member", "S1", "--out", tmp_path / "s1")
    cached = next((tmp_path / "cache").rglob("adapter_config.json")).parent
    pushed, own = load_adapter(cached), load_adapter(tmp_path / "s1")
    assert all((a == own.projections[name].a).all() for name, (a, _) in pushed.projections.items())


def test_a_data_set_is_pushed_with_its_card(hub: Hub, run: Path, tmp_path: Path) -> None:
    export(
        run,
        "--problems",
        "--as",
        "datasets",
        "--push",
        "me/data",
        "--public",
        "--out",
        tmp_path / "d",
    )
    files = hub.repositories["datasets/me/data"]
    assert files["problems.jsonl"] == (tmp_path / "d" / "problems.jsonl").read_bytes()
    assert b"license: apache-2.0" in files["README.md"]
    assert hub.created[0]["visibility"] == "public"


def test_who_may_not_write_to_the_hub_is_told_how_to_log_in(
    hub: Hub, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    words = ["export", str(run), "--problems", "--push", "me/data", "--out", str(tmp_path / "d")]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ConfigError)
    assert "Log in with `hf auth login` or set HF_TOKEN" in str(result.exception)
    assert (tmp_path / "d" / "problems.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--problems"], "say where to write to with --out"),
        (["--attempts", "--as", "trl", "--out", "x"], "go with --as sft or --as preference"),
        (["--problems", "--as", "sft", "--out", "x"], "--as sft exports attempts: give --attempts"),
        (
            ["--problems", "--push", "name"],
            "--push takes a name on the hub, owner/name; got 'name'",
        ),
    ],
)
def test_an_export_that_is_half_said_says_what_is_missing(
    words: list[str], message: str, run: Path
) -> None:
    result = CliRunner().invoke(app, ["export", str(run), *words])
    assert isinstance(result.exception, ConfigError) and message in str(result.exception)
