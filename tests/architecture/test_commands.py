"""The commands that documents show can be typed: every command, option, setting, recipe and suite of
a block exists. `test_tutorials.py` runs those that are cheap."""

import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main

from redqueen.cli.app import app
from redqueen.config.study import load_study
from redqueen.config.toml import find_recipe, load_config
from redqueen.evaluate.suites import expand_names
from tests.architecture.test_documents import (
    REPOSITORY,
    documents,
    fences,
    quoted,
    today,
)

INSTALL = REPOSITORY / "docs/install.md"
MAKEFILE = (REPOSITORY / "Makefile").read_text()
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
OTHERS = {".", "chmod", "curl", "do", "done", "export", "for", "git", "kubectl", "sbatch"}
"""Commands that are not ours. A document must not show others by mistake."""


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell script, one by one, without comments, pipes and redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        # a lexer of its own: a token such as `&&` needs no space around it
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        words: list[str] = []
        for word in lexer:
            if word.startswith("#"):
                break
            if set(word) <= set("&|;"):
                yield words
                words = []
            else:
                words.append(word)
        yield words


def plain(words: list[str]) -> list[str]:
    """Without variables before the command, and without redirections behind it."""
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    end = next((n for n, word in enumerate(words) if set(word) <= set("<>")), len(words))
    return words[:end]


def shown(document: Path) -> list[list[str]]:
    """The commands in the blocks of a document. What has no language may be output as well: there
    only those of ours count."""
    found = []
    for language, text in fences(document):
        for words in map(plain, commands(text) if language in ("sh", "bash") else ()):
            found.append(words)
        for line in text.splitlines() if language == "" else ():
            if line.startswith("redqueen ") and "..." not in line.partition(" #")[0]:
                found += map(plain, commands(line))
    return [words for words in found if words]


def named_files(document: Path) -> dict[str, str]:
    """Python files that a document has in a block which begins with their name."""
    matches = (
        (re.match(r"# ([\w/]+\.py)\n", text), text)
        for language, text in fences(document)
        if language == "python"
    )
    return {match[1]: text for match, text in matches if match}


def write_files(document: Path, folder: Path) -> None:
    for name, text in named_files(document).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@documents
def test_every_command_of_a_block_can_be_typed(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(document, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for words in shown(document):
        check(words, set(named_files(document)))


@today
def test_every_command_in_a_sentence_can_be_typed(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may leave out what it is about, such as the run, or name it in capitals."""
    write_files(document, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for text in quoted(document):
        if re.match(r"(?:PYTHONPATH=\. )?redqueen [a-z]", text) and not re.search(
            r"\.\.\.|\[", text
        ):
            words = plain(
                next(commands(re.sub(r"\bFILE\b", "study-pawn", re.sub(r"\bN\b", "1000000", text))))
            )
            try:
                parse(words[1:])
            except Exception as error:
                if type(error).__name__ not in ("MissingParameter", "BadOptionUsage"):
                    raise


def check(words: Sequence[str], files: set[str]) -> None:
    name, *rest = words
    if name == "redqueen":
        parse(rest)
    elif name == "make":
        for word in rest:
            target = rf"^{re.escape(word)}:|^\.PHONY:.* {re.escape(word)}\b"
            variable = re.compile(rf"^{word.partition('=')[0]} \?=", re.MULTILINE)
            found = variable if "=" in word else re.compile(target, re.MULTILINE)
            assert found.search(MAKEFILE), f"make {word}"
    elif name == "pip":
        for extras in re.findall(r"\[([\w,-]+)\]", " ".join(rest)):
            assert set(extras.split(",")) <= set(EXTRAS), extras
    elif name == "docker":
        if "-f" in rest:
            assert (REPOSITORY / rest[rest.index("-f") + 1]).exists(), rest
        if "redqueen" in rest:
            parse(rest[rest.index("redqueen") + 1 :])
    elif name in ("python", "python3"):
        if rest[0] == "-c":
            compile(rest[1], "-c", "exec")
        elif rest[0] != "-m":
            assert rest[0] in files | {"my_training_script.py"}, rest
    elif name == "pytest":
        assert (REPOSITORY / rest[0]).exists(), rest
    elif name == "mkdir":
        assert rest == ["-p", "runs"]
    else:
        assert name in OTHERS, f"{' '.join(words)}: what is {name}?"


def parse(words: Sequence[str]) -> None:
    """As the command line does: it names what is unknown, missing or of another type."""
    command: Any = typer.main.get_command(app)
    context, left = None, list(words)
    while hasattr(command, "list_commands"):
        context = command.make_context("redqueen", list(left), parent=context)
        left = [*context._protected_args, *context.args]
        assert left, f"redqueen {' '.join(words)} has no command"
        _, command, left = command.resolve_command(context, left)
    given = command.make_context("redqueen", list(left), parent=context).params
    check_settings(words[0], given)
    suites = [name for name in given.get("suite") or () if "RUN" not in name]
    if words[0] == "eval":
        expand_names(suites, ["proposals", "NAME", "SUITE"])


def check_settings(name: str, given: dict[str, Any]) -> None:
    if name not in ("run", "config", "fork", "study"):
        return
    settings = list(given.get("settings") or ())
    file = find_recipe(given.get("recipe") or given.get("file") or "pawn-cpu")
    if name == "study" and file.exists():
        load_study(file, settings, given.get("arm") or ())
    elif file.exists():  # else the reader's own
        load_config(file, settings)


def test_the_install_page_lists_every_extra() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", INSTALL.read_text(), re.MULTILINE))
    assert set(rows) == set(EXTRAS)
    (everything,) = EXTRAS["all"]
    own = set(re.findall(r"[\w-]+", everything)) - {"redqueen"}
    assert set(re.findall(r"`([\w-]+)`", rows["all"])) == set(EXTRAS) - own - {"all"}
