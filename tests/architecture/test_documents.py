"""The documents describe today: their code runs, and what they name is there."""

import ast
import importlib.resources
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main

import redqueen as rq
from redqueen.cli import dry_run
from redqueen.cli.app import app
from redqueen.config.registry import TABLES
from redqueen.config.renamed import RENAMED
from redqueen.config.section import Section
from redqueen.records import Problem
from tests.e2e.processes import run_code

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src/redqueen"
README, CHANGES = REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md"
DOCS = sorted((REPOSITORY / "docs").rglob("*.md"))
DOCS_BY_NAME = {document.stem: document for document in DOCS}
DOCUMENTS = [README, CHANGES, *DOCS, *SOURCE.glob("pawn/weights*/README.md")]
TODAY = [document for document in DOCUMENTS if document != CHANGES]
"""All but the one that has to name what there was before."""

documents = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(REPOSITORY).as_posix()
)
today = pytest.mark.parametrize(
    "document", TODAY, ids=lambda path: path.relative_to(REPOSITORY).as_posix()
)


def fences(document: Path) -> list[tuple[str, str]]:
    """Every fenced block with its language."""
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in document.read_text().splitlines():
        if line.startswith("```"):
            inside = not inside
            if inside:
                found.append((line[3:], []))
        elif inside:
            found[-1][1].append(line)
    assert not inside, f"{document} has a block that does not end"
    return [(language, "\n".join(lines) + "\n") for language, lines in found]


def blocks(document: Path, language: str) -> list[str]:
    return [text for name, text in fences(document) if name == language]


def quoted(document: Path) -> list[str]:
    """What stands between backticks."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


# code


@pytest.mark.slow
def test_the_python_of_the_readme_and_the_ledger_runs_as_pasted(tmp_path: Path) -> None:
    (api,), (base,) = blocks(README, "python"), blocks(DOCS_BY_NAME["pawn"], "python")
    (ledger,) = blocks(DOCS_BY_NAME["ledger"], "python")
    assert api.count("\n") <= 30
    ledger = ledger.replace("runs/pawn-cpu-1", "runs/mine")
    for name, code in {"readme": api, "pawn": base, "ledger": ledger}.items():
        run_code(code, tmp_path, name)
    assert json.loads((tmp_path / "runs/mine/S1/adapter_config.json").read_text())["r"] == 8


def test_the_readme_is_short() -> None:
    assert README.read_text().count("\n") <= 150


def test_the_readme_says_how_its_commands_get_onto_the_path() -> None:
    text = README.read_text()
    activate = text.index(". .venv/bin/activate")
    assert "make demo" in text[:activate] and "`redqueen run" not in text[:activate]


@pytest.mark.parametrize(
    ("name", "digits"),
    [("pawn-gpu", 0), ("qwen-coder-0.5b", 1), ("qwen-coder-1.5b", 1), ("paper-7b", 0)],
)
def test_the_readme_estimates_what_a_dry_run_does(
    name: str, digits: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between completions of a quarter of their limits and of all, on one H200."""
    monkeypatch.setattr(dry_run, "_measure_gpu", lambda: None)
    config = rq.load_config(name)
    dry_run.show_plan([("run", config)])
    told = capsys.readouterr().out
    (memory,) = re.findall(r"all *│ *(\d+) of 140", told)
    steps = [
        float(s) for s in re.findall(r"│ *1 │ *\d+ % of limits │.*│ *([\d.]+) s │ *[\d.]+ h", told)
    ]
    unit, seconds = ("minutes", 60) if name == "pawn-gpu" else ("hours", 3600)
    low, high = (f"{round(s * config.steps / seconds, digits):.{digits}f}" for s in steps)
    (row,) = [line for line in README.read_text().splitlines() if f"`redqueen run {name}`" in line]
    assert f"{memory} GB, {low} to {high} {unit}, estimated" in row


@pytest.mark.parametrize("name", ["method", "operators", "evaluation", "report", "results"])
def test_settings_in_other_pages_can_be_loaded(name: str, tmp_path: Path) -> None:
    for number, text in enumerate(blocks(DOCS_BY_NAME[name], "toml")):
        (tmp_path / f"{number}.toml").write_text(text)
        rq.load_config(tmp_path / f"{number}.toml")


def test_queries_of_the_ledger_run() -> None:
    import sqlite3

    schema = importlib.resources.files("redqueen.ledger").joinpath("schema.sql").read_text()
    connection = sqlite3.connect(":memory:")
    connection.executescript(schema)
    for text in blocks(DOCS_BY_NAME["ledger"], "sql"):
        for query in text.split(";")[:-1]:
            connection.execute(query)
    connection.close()


# tables


@documents
def test_every_row_of_a_table_has_a_head(document: Path) -> None:
    """A blank line within a table would make text of the rows below it."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n(?!\|)", text):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert not rows or re.fullmatch(r"\|(?:\s*:?-+:?\s*\|)+", rows[1]), rows[0]


# what they name


@documents
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        generated = "reference/" in link  # pages that the site's build makes, and checks
        if not generated and not link.startswith(("http://", "https://")):
            assert (document.parent / link.partition("#")[0]).exists(), link


@today
def test_files_are_there(document: Path) -> None:
    """Paths in the repository, in the package, or beside the page; a bare name anywhere."""
    names = {path.name for root in (SOURCE, REPOSITORY / "tests") for path in root.rglob("*")}
    for text in quoted(document):
        if re.fullmatch(r"[\w./-]+\.(py|sql|js|css|sh)|(src|docs|tests|examples)/[\w./-]*", text):
            places = (REPOSITORY, SOURCE, document.parent, REPOSITORY / "tests/contract")
            found = any((place / text).exists() for place in places) or (
                "/" not in text and text in names
            )
            assert found, text


def command_words(text: str) -> list[str]:
    """`redqueen COMMAND ...` in a document, without what comes after a comment or an ellipsis."""
    found = re.findall(r"(?<!import )\bredqueen ((?:[a-z]+\b)[^`|\n]*)", text)
    return [words.partition(" #")[0] for words in found]


@documents
def test_commands_and_their_options_are_there(document: Path) -> None:
    code = quoted(document) + blocks(document, "")
    for words in command_words("\n".join(code)):
        command: Any = typer.main.get_command(app)
        for word in words.split():
            if not hasattr(command, "list_commands"):
                break
            context = command.make_context("redqueen", [], resilient_parsing=True)
            assert word in command.list_commands(context), f"redqueen {words}"
            command = command.get_command(context, word)
        options = {
            name
            for parameter in command.params
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", words):
            assert option in options | {"--help"}, f"redqueen {words}"


def setting_names(section: type[Section] = rq.Config, before: str = "") -> set[str]:
    names = set()
    for name, field in section.model_fields.items():
        names.add(before + name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            names |= setting_names(inner, f"{before}{name}.")
    return names


@today
def test_settings_are_there(document: Path) -> None:
    known = setting_names()
    sections = "|".join(name for name in known if any(n.startswith(f"{name}.") for n in known))
    for text in quoted(document):
        for path in re.findall(rf"(?<![\w./])((?:{sections})(?:\.[a-z_]+)+)(?![\w(:/])", text):
            if path.endswith((".py", ".md", ".html", ".sqlite", ".jsonl", ".grade")):
                continue
            parents = {path.rpartition(".")[0], path}  # a setting of a choice is not in the schema
            assert parents & known, path
            assert path not in RENAMED, path


def metric_patterns(*paths: Path) -> list[str]:
    """Texts with a slash in the stages, as patterns: what is filled in may be anything."""
    patterns = []
    for path in paths or (SOURCE / "stages").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\S+"
                    for part in node.values
                ]
                patterns.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                patterns.append(re.escape(node.value))
    return [pattern for pattern in patterns if re.fullmatch(r"\S*/\S+", pattern)]


@today
def test_metrics_are_there(document: Path) -> None:
    stages = "propose|verify|solve|reward|update|evolve|population|coverage|complexity|archive"
    patterns = metric_patterns()
    for text in quoted(document):
        if re.fullmatch(rf"(?:{stages})/[a-z_]+(?:/\S+)?", text) and "." not in text:
            assert any(re.fullmatch(pattern, text) for pattern in patterns), text


@today
def test_no_place_of_somebodys_own_is_named(document: Path) -> None:
    text = document.read_text()
    assert not re.findall(r"(?<![\w.~<>:/*-])/(?!dev/)[a-z]+/[a-z]\S*", text)
    assert not re.findall(r"\b(?:session|hostname|localhost)s?\b", text)


# the architecture page


def test_the_layers_of_the_page_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [layer.replace("redqueen.", "") for layer in contracts["contracts"][0]["layers"]]
    assert "\n".join(layers) + "\n" in blocks(DOCS_BY_NAME["architecture"], "")


def test_the_page_lists_every_table_and_every_field_of_a_problem() -> None:
    text = " ".join(DOCS_BY_NAME["architecture"].read_text().split())
    assert " · ".join(sorted(TABLES)) in text
    assert f"`Problem = ({', '.join(Problem.__dataclass_fields__)})`" in text


def test_the_tree_shows_rooms_that_are_there() -> None:
    page = DOCS_BY_NAME["architecture"]
    tree = next(block for block in blocks(page, "") if block.startswith("src/redqueen/"))
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert rooms <= set(re.findall(r"(\w+)/", tree))
    names = {path.name for path in REPOSITORY.rglob("*") if ".venv" not in path.parts}
    for name in re.findall(r"\b\w+\.(?:py|sql)\b|\b\w+(?=/)", tree):
        assert name in names, name


def test_the_walk_of_a_problem_counts_the_files_it_lists() -> None:
    text = DOCS_BY_NAME["architecture"].read_text()
    walk = text[text.index("## The walk of one problem") : text.index("## What is different")]
    listed = re.findall(r"\b(\d+) `([\w/.]+\.py)`", walk)
    assert [int(number) for number, _ in listed] == list(range(1, len(listed) + 1))
    assert f"{len(listed)} files" in walk
