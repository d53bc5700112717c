"""The warm-up before the first step: it teaches the form of replies, is in the ledger, and comes
out the same when it is begun again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import redqueen as rq
from redqueen.config.schema import Config
from redqueen.config.toml import find_recipe, load_config
from redqueen.core.warmup import _encode, make_examples
from redqueen.core.world import World, new_world
from redqueen.errors import ConfigError
from redqueen.ledger.store import digest
from redqueen.models.base import load_base
from redqueen.records import Problem
from redqueen.sandbox import Sandbox
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import load_kinds
from redqueen.tasks.prompts import PROMPT_FORMATS, Quote
from redqueen.tasks.sources import seed_payloads
from tests.contract.test_background import SMALL

KINDS = ("code_o", "code_i", "code_f", "logic", "sql_o", "sql_q")


@pytest.fixture(scope="module")
def seeded(pool: Sandbox) -> World:
    config = load_config(
        find_recipe("qwen-coder-0.5b"), [f"tasks.kinds={list(KINDS)}", "warmup.steps=1"]
    )
    payloads = seed_payloads(config.archive, config.tasks.kinds, 0)
    verdicts = verify_payloads(
        [(kind, payload, None) for kind, payload in payloads],
        load_kinds(*KINDS),
        pool,
        config.verify,
    )
    seeds = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    return new_world(0, "run", config, 0, seeds)


def ports(prompt_format: str) -> Any:
    return SimpleNamespace(kinds=load_kinds(*KINDS), prompt_format=PROMPT_FORMATS[prompt_format])


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])
def test_every_kind_and_role_has_examples_and_reads_its_own(
    seeded: World, prompt_format: str
) -> None:
    examples = make_examples(seeded, ports(prompt_format))
    assert len(examples) == len(set(examples))
    for role in ("teacher", "student"):
        assert sum(example.role == role for example in examples) >= len(KINDS)


def test_only_the_marks_of_the_format_are_learned(seeded: World) -> None:
    tokenizer = load_base("pawn", device="cpu")
    for example in make_examples(seeded, ports("compact"))[::7]:
        sample = _encode(example, tokenizer)
        assert isinstance(sample.advantage, tuple)
        assert len(sample.advantage) == len(sample.completion) and sample.has_gradient
        pairs = list(zip(sample.completion, sample.advantage, strict=True))
        learned, read = (
            str(tokenizer.tokenizer.decode([token for token, w in pairs if bool(w) == marked]))
            for marked in (True, False)
        )
        marks = [part for part in example.reply if not isinstance(part, Quote)]
        assert [line for line in learned.split() if line.startswith(">>")] == "".join(marks).split()
        assert ">>" not in read


def test_that_there_is_no_reasoning_is_not_learned() -> None:
    parts = PROMPT_FORMATS["chat"].write_reply("", (("output", "1"),))  # type: ignore[attr-defined]
    assert isinstance(parts[0], Quote) and parts[0] == "<think>\n\n</think>\n"
    assert "".join(parts[1:]) == "<answer>\n```output\n1\n```\n</answer>"


def warm(*settings: str) -> Config:
    return load_config(
        find_recipe("pawn-cpu"), [*SMALL, "warmup.steps=4", "warmup.examples=2", *settings]
    )


@pytest.mark.slow
def test_a_warm_up_is_in_the_ledger_and_the_same_when_it_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = warm("steps=1", "warmup.learning_rate=3e-3")
    with rq.Run.create(config, tmp_path / "straight") as run:
        untouched = run.engine.read(0)
        for _ in run:
            pass
    with rq.open_run(tmp_path / "straight") as straight:
        metrics = {row["name"]: row["value"] for row in straight.metrics() if row["step"] == 0}
    assert metrics["warmup/last_loss"] < 0.7 * metrics["warmup/first_loss"]
    assert metrics["warmup/steps"] == 4 and metrics["warmup/tokens"] > 0
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(rq.Run, "save", _interrupt)  # killed when it is over, before its checkpoint
        rq.Run.create(config, tmp_path / "killed")
    with rq.Run.resume(tmp_path / "killed") as run:
        projections = run.engine.read(0).projections
        name = next(iter(projections))
        assert projections[name].b.equal(untouched.projections[name].b)
        for _ in run:
            pass
    assert digest(tmp_path / "killed") == digest(tmp_path / "straight")


def _interrupt(run: rq.Run) -> None:
    raise KeyboardInterrupt


def test_without_examples_of_a_role_the_settings_are_named(seeded: World) -> None:
    empty = new_world(0, "run", seeded.config, 0, [])
    with pytest.raises(ConfigError, match=r"what a student writes.*archive.seeds.*warmup.steps=0"):
        make_examples(
            empty,
            SimpleNamespace(  # type: ignore[arg-type]
                kinds=load_kinds("logic"), prompt_format=PROMPT_FORMATS["chat"]
            ),
        )


def test_a_learning_rate_rises_over_a_members_own_updates() -> None:
    config = load_config(
        find_recipe("pawn-cpu"), ["update.warmup_steps=4", "update.learning_rate=1e-3"]
    )
    world = new_world(0, "run", config, 0, [])
    rates = []
    for version in (0, 1, 3, 9):
        world.change("S0", version=version)
        rates.append(world.learning_rate(world.by_id("S0")))
    assert rates == pytest.approx([0.25e-3, 0.5e-3, 1e-3, 1e-3])
    plain = new_world(0, "run", load_config(find_recipe("pawn-cpu"), []), 0, [])
    assert plain.learning_rate(plain.by_id("S0")) == plain.config.update.learning_rate
