"""What commands make of a stored run that has changed since, or names things of its own."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from redqueen.config.schema import Config
from redqueen.core.fork import _check
from redqueen.errors import ConfigError
from redqueen.evaluate import crossplay as crossplay_module
from redqueen.evaluate.in_run import _living
from redqueen.tasks import load_kind, stored_kind
from tests.report.synthetic import Synthetic

KIND = "tests.outside.any_order:AnyOrder"


def test_crossplay_imports_the_kinds_of_its_run_before_it_reads_their_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Synthetic(steps=2, settings={"tasks": {"kinds": [KIND]}}).write(tmp_path / "run")
    load_kind.cache_clear()
    monkeypatch.delitem(sys.modules, "tests.outside.any_order", raising=False)
    taken = [SimpleNamespace(step=step) for step in (1, 2)]
    monkeypatch.setattr(crossplay_module, "read_snapshots", lambda folder: taken)

    def sample(*arguments: object) -> None:
        assert stored_kind(KIND) is not None
        raise KeyboardInterrupt

    monkeypatch.setattr(crossplay_module, "_sample_problems", sample)
    with pytest.raises(KeyboardInterrupt):
        crossplay_module.crossplay(tmp_path / "run")


def test_a_member_that_was_replaced_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    world = SimpleNamespace(members=[SimpleNamespace(id="S3"), SimpleNamespace(id="T0")])
    run: Any = SimpleNamespace(worlds=[world])
    assert _living(run, ["soup", "S2", "0/S3"]) == ["soup", "0/S3"]
    assert "not measured, because replaced: S2" in caplog.text


def test_a_fork_keeps_kinds_of_its_own() -> None:
    before = Config.model_validate({"tasks": {"kinds": ["code_o", KIND]}})
    after = Config.model_validate({"tasks": {"kinds": ["code_o"]}})
    with pytest.raises(ConfigError, match=r"tasks\.kinds has to keep tests\.outside\.any_order"):
        _check([("a", before)], [("a", after)])
