"""The documentation site builds without a warning, and its reference is complete."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

import redqueen as rq
from redqueen.config.registry import TABLES, Choice, table
from redqueen.config.section import Section
from redqueen.ledger.tables import table_shapes

REPOSITORY = Path(__file__).parents[2]
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
    assert "private vulnerability report" in (site / "security/index.html").read_text()
    ledger = (site / "reference/ledger/index.html").read_text()
    for shape in table_shapes().values():
        assert all(f"<code>{name}</code>" in ledger for name in (shape.name, *shape.columns))


@pytest.mark.slow
def test_every_setting_command_and_column_has_a_meaning(site: Path) -> None:
    """The last cell of every row of the reference is what it means; of a table's row the second."""
    for page in ("settings", "commands", "ledger", "api", "tables"):
        html = (site / f"reference/{page}/index.html").read_text()
        for row in re.findall(r"<tr>\n(.*?)</tr>", html, re.DOTALL):
            cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
            meaning = cells[1 if page == "tables" else -1].strip() if cells else "a head"
            assert meaning, f"{page}: {cells[0]} has no description"


# the pages of the reference, as they are made


@cache
def reference(page: str) -> str:
    """The Markdown of a page, as the hook of mkdocs makes it."""
    path = REPOSITORY / "scripts/site.py"
    spec = importlib.util.spec_from_file_location("reference_pages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    text: str = module.PAGES[page]()
    return text


def rows(text: str) -> Iterator[list[str]]:
    """Cells of the tables in a text, without heads."""
    for line in text.splitlines():
        if line.startswith("| `"):
            yield [
                cell.strip()
                for cell in re.split(r"(?<!\\)\|(?=(?:[^`]*`[^`]*`)*[^`]*$)", line)[1:-1]
            ]


def sections(text: str) -> dict[str, str]:
    """By the name in the heading; what stands before the first has none."""
    first, *others = re.split(r"^##+ ", text, flags=re.MULTILINE)
    named = (other.partition("\n") for other in others)
    return {"": first, **{name.strip("`"): body for name, _, body in named}}


def test_every_function_of_the_api_says_what_its_parameters_mean() -> None:
    page = sections(reference("api"))
    assert set(rq.__all__) - {"__version__"} <= set(page)
    for name, body in page.items():
        for signature in re.findall(r"^```python\n(.*?)```$", body, re.DOTALL | re.MULTILINE):
            (function,) = ast.parse(f"def {signature.strip()}: ...").body
            assert isinstance(function, ast.FunctionDef)
            given = function.args
            assert given.vararg is None, name
            text = body.partition("```\n")[2].rpartition("```\n")[2]
            for one in [*given.args, *given.kwonlyargs, given.kwarg]:
                assert one is None or f"`{one.arg}`" in text, f"{name} does not explain {one.arg}"
        assert body.partition("```\n")[2] or "|" in body or len(body) > 20, name
        for *_, meaning in rows(body):
            assert meaning, f"{name}: a field without a meaning"


def fields(section: type[Section] = rq.Config, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Section, name and field of every setting."""
    for name, field in section.model_fields.items():
        inner: Any = field.annotation
        is_class = isinstance(inner, type)
        if is_class and issubclass(inner, Section) and not issubclass(inner, Choice):
            yield from fields(inner, f"{path}.{name}".lstrip("."))
        else:
            yield path, name, field


def literals(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from literals(inner)


def test_every_setting_shows_its_default_and_the_values_it_takes() -> None:
    page = sections(reference("settings"))
    for path, name, field in fields():
        (row,) = (row for row in rows(page[path]) if row[0] == f"`{name}`")
        _, default, values, meaning = row
        assert meaning, f"{path}.{name}"
        assert default not in ("", "``") and (default == "required") == field.is_required(), row
        for value in literals(field.annotation):
            assert str(value) in values, f"{path}.{name} does not show {value}"
        if field.annotation is Choice:
            assert default == f'`"{field.default}"`' and "tables.md#" in values, row


def test_the_settings_of_a_default_choice_are_shown() -> None:
    page = sections(reference("settings"))
    for path, what in {"reward.teacher": "teacher reward", "update.loss": "loss"}.items():
        section, name = path.split(".")
        chosen = getattr(getattr(rq.load_config(), section), name)
        shown = {row[0].strip("`"): row[1] for row in rows(page[path])}
        own = set(table(what).settings(chosen.type).model_fields) - {"type"}
        assert set(shown) == own and all(shown.values())


@pytest.mark.parametrize("what", TABLES)
def test_every_row_of_a_table_says_what_it_is(what: str) -> None:
    shown = {row[0].strip("`"): row for row in rows(sections(reference("tables"))[what])}
    assert set(shown) == set(table(what))
    for name, (_, meaning, settings) in shown.items():
        assert meaning and meaning != "needs an extra", f"{what} {name} has no docstring"
        assert not re.match(r"\w+\(\w+: ", meaning), f"{what} {name} shows a signature"
        for setting in filter(None, settings.split("<br>")):
            assert setting.partition(": ")[2], f"{what} {name}: {setting} has no meaning"


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
