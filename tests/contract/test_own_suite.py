"""The suite of your own that docs/evaluation.md shows, taken from the page and evaluated."""

import re
import sys
from pathlib import Path

import pytest

import redqueen
from redqueen.errors import ConfigError
from redqueen.evaluate.suites import SUITES, expand_names

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_the_suite_of_the_page_is_evaluated_by_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"```python\n(# my_package/suites.py.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "capitals_of_the_page.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        result = redqueen.evaluate("pawn", "capitals_of_the_page:Capitals", device="cpu")
    finally:
        sys.modules.pop("capitals_of_the_page", None)
    assert (result.n, result.config.suite, result.config.max_tokens) == (1, "capitals", 32)
    assert result.config.prompt_version == "capitals-1"
    assert all(0 <= end <= 1 for end in result.interval)


def test_names_of_suites_are_expanded_and_wrong_ones_answered_with_the_nearest() -> None:
    assert expand_names(["heldout", "math", "a.b:C"])[:2] == ["heldout", "gsm8k"]
    assert expand_names(["proposals", "a.b:C"], ["proposals"]) == ["proposals", "a.b:C"]
    assert {"heldout", "heldout-quick", "humaneval+"} <= set(SUITES)
    with pytest.raises(ConfigError, match="Did you mean 'heldout"):
        expand_names(["heldot"])
    with pytest.raises(ConfigError, match="cannot be imported"):
        redqueen.evaluate("pawn", "no.such.package:Suite", device="cpu")
