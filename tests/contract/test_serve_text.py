"""OpenAI's routes, members of a run, and conversations."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from redqueen.config.toml import load_config
from redqueen.core.run import Run
from redqueen.models.base import load_base
from redqueen.serve.app import ModelServer
from redqueen.serve.openai_texts import Texts
from redqueen.serve.tenants import Keys
from tests.e2e.processes import TINY
from tests.serving import Tenant, serving


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


@pytest.fixture(scope="module")
def server(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with serving(tokenizer, tmp_path_factory.mktemp("served"), keys=Keys()) as running:
        yield running


@pytest.fixture
def client(server: ModelServer) -> TestClient:
    return TestClient(server.app, base_url="http://localhost")


ASK = {"model": "tiny", "prompt": "(x)", "max_tokens": 30, "seed": 3}


def pieces(response: Any) -> list[dict[str, Any]]:
    lines = [line for line in response.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def test_a_stream_has_the_text_of_the_whole_answer(client: TestClient) -> None:
    whole = client.post("/v1/completions", json={**ASK, "n": 2}).json()
    streamed = pieces(client.post("/v1/completions", json={**ASK, "n": 2, "stream": True}))
    for number, choice in enumerate(whole["choices"]):
        own = [one["choices"][0] for one in streamed if one["choices"][0]["index"] == number]
        assert "".join(one["text"] for one in own) == choice["text"]
        assert own[-1]["finish_reason"] == choice["finish_reason"] and len(own) > 1
    assert whole["usage"]["completion_tokens"] == 60


def test_a_stop_text_ends_an_answer_and_is_not_part_of_it(client: TestClient) -> None:
    text = client.post("/v1/completions", json=ASK).json()["choices"][0]["text"]
    stop = text[8:11]
    for stream in (False, True):
        response = client.post("/v1/completions", json={**ASK, "stop": stop, "stream": stream})
        if stream:
            got = "".join(one["choices"][0]["text"] for one in pieces(response))
        else:
            got = response.json()["choices"][0]["text"]
            assert response.json()["choices"][0]["finish_reason"] == "stop"
        assert got == text[: text.index(stop)]


class Bytes:
    """Tokens are bytes, and each that is no character yet is decoded by itself, as Llama's are."""

    def decode(self, tokens: list[int]) -> str:
        for end in range(len(tokens), -1, -1):
            with contextlib.suppress(UnicodeDecodeError):
                return bytes(tokens[:end]).decode() + "�" * (len(tokens) - end)
        raise AssertionError


@pytest.mark.parametrize("text", ["a😀b", "é", "�", "x�"])
def test_a_stream_has_no_part_of_a_character(text: str) -> None:
    texts, tokens = Texts(Bytes(), {}, chat=False), list(text.encode())  # type: ignore[arg-type]
    streamed = [
        texts.piece(0, [token], [0.0], "length" if number == len(tokens) else "")
        for number, token in enumerate(tokens, 1)
    ]
    assert "".join(one["choices"][0]["text"] for one in streamed) == text


def test_a_stream_ends_with_its_usage_where_that_is_asked_for(client: TestClient) -> None:
    asked = {**ASK, "n": 2, "max_tokens": 5}
    whole = client.post("/v1/completions", json=asked).json()["usage"]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *_, last = pieces(client.post("/v1/completions", json={**asked, **options}))
    assert last["choices"] == [] and last["usage"] == whole


def test_logprobs_and_several_prompts(client: TestClient) -> None:
    asked = {**ASK, "prompt": ["(x)", "(y)", "(z)"], "logprobs": 1, "max_tokens": 5}
    choices = client.post("/v1/completions", json=asked).json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    for choice in choices:
        assert len(choice["logprobs"]["token_logprobs"]) == 5
        assert max(choice["logprobs"]["token_logprobs"]) <= 0


def test_a_chat_is_answered(client: TestClient) -> None:
    messages = [{"role": "user", "content": "(x)"}]
    asked = {"model": "base", "messages": messages, "max_tokens": 5, "seed": 3, "logprobs": True}
    answer = client.post("/v1/chat/completions", json=asked).json()["choices"][0]
    assert answer["message"]["role"] == "assistant" and len(answer["logprobs"]["content"]) == 5
    streamed = pieces(client.post("/v1/chat/completions", json={**asked, "stream": True}))
    text = "".join(one["choices"][0]["delta"]["content"] for one in streamed)
    assert text == answer["message"]["content"]


@pytest.mark.parametrize(
    "change",
    [{"model": "tin"}, {"echo": True}, {"best_of": 3}, {"tools": [{}]}, {"top_logprobs": 5}, {"beam": 1}, {"n": 0.5}, {"prompt": [["a"]]}, {"prompt": [{}]}, {"max_tokens": -3}],
)  # fmt: skip
def test_what_is_not_supported_is_said(client: TestClient, change: dict[str, Any]) -> None:
    response = client.post("/v1/completions", json={**ASK, **change})
    assert response.status_code in (400, 404) and response.json()["error"]["message"]


def test_a_foreign_name_of_this_machine_is_refused(server: ModelServer) -> None:
    foreign = TestClient(server.app, base_url="http://evil.example")
    assert foreign.get("/v1/models").status_code == 403


def test_saved_weights_can_be_sampled_from(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path) as server:
        tenant = Tenant(server)
        path = tenant.result(tenant.command("save_weights_for_sampler", path="a"))["path"]
        names = [one["id"] for one in tenant.http.get("/v1/models").json()["data"]]
        assert path in names
        for model in (path, tenant.snapshot()):
            answer = tenant.http.post("/v1/completions", json={**ASK, "model": model})
            assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "r"
    config = load_config("pawn-cpu", [*TINY, "steps=1", "device=cpu"])
    with Run.create(config, folder) as playing:
        for _ in playing:
            pass
    return folder


@pytest.mark.slow
def test_members_of_a_run_answer_by_name(run: Path, tmp_path: Path) -> None:
    from redqueen.serve.app import ServeSettings
    from redqueen.serve.members import read_run

    served = read_run(run, ServeSettings("", tmp_path, slots=2))
    assert {"S1", "soup", "chosen"} <= set(served.adapters)
    server = ModelServer(served.settings, members=served.adapters)
    try:
        client = TestClient(server.app, base_url="http://localhost")
        names = [one["id"] for one in client.get("/v1/models").json()["data"]]
        assert "base" in names
        for name in names:
            asked = {"model": name, "prompt": "def f(x):", "max_tokens": 8, "seed": 1}
            assert client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
    finally:
        server.close()


@pytest.mark.slow
def test_chat_in_the_terminal(run: Path) -> None:
    from redqueen.cli.app import app

    runner = CliRunner()
    once = runner.invoke(app, ["chat", str(run), "--prompt", "def f(x):", "--max-tokens", "8"])
    assert once.exit_code == 0 and once.stdout.strip()
    talk = runner.invoke(app, ["chat", "pawn", "--max-tokens", "8"], input="def f(x):\n\n")
    assert talk.exit_code == 0 and "no English" in talk.stderr


class _Bytes:
    """A tokenizer whose tokens are bytes, and which counts what it decodes."""

    def __init__(self) -> None:
        self.decoded = 0

    def decode(self, tokens: list[int]) -> str:
        self.decoded += len(tokens)
        return bytes(tokens).decode("utf-8", "replace")


@pytest.mark.parametrize("told", ["naïve 🐍 text " * 100, "a" * 3000], ids=["mixed", "plain"])
@pytest.mark.parametrize("size", [1, 3, 16])
def test_a_long_stream_is_decoded_once(told: str, size: int) -> None:
    """And not from its beginning with every piece, which would keep all others waiting."""
    tokenizer = _Bytes()
    texts, tokens = Texts(cast(Any, tokenizer), {}, chat=False), list(told.encode())
    got = ""
    for start in range(0, len(tokens), size):
        part, is_last = tokens[start : start + size], start + size >= len(tokens)
        piece = texts.piece(0, part, [0.0] * len(part), "length" if is_last else "")
        got += piece["choices"][0]["text"]
    assert got == told and tokenizer.decoded < 12 * len(tokens)


def test_bytes_that_never_become_a_character_are_decoded_once_too() -> None:
    tokenizer = _Bytes()
    texts = Texts(cast(Any, tokenizer), {}, chat=False)
    for _ in range(500):
        texts.piece(0, [0xFF] * 16, [0.0] * 16, "")
    assert tokenizer.decoded < 20 * 8000
