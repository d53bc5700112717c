"""JSON Lines files: one object per line, read with errors that name the line."""

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from redqueen.errors import DataError, explain_disk


def read_jsonl(path: Path, required: tuple[str, ...]) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a file with their line numbers. Required fields must be texts; blank lines are
    skipped."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    items = [
        (number, _parse_object(path, number, line, required))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    if not items:
        raise DataError(
            f"{path} is empty: expected one JSON object per line, with {', '.join(required)}"
        )
    return items


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """The file to write to, or standard output if there is no path. Open it before the work, so
    that a path that cannot be written costs nothing."""
    if path is None:
        yield sys.stdout
        return
    with explain_disk(path), path.open("w", encoding="utf-8") as file:
        yield file


def _parse_object(path: Path, number: int, line: str, required: tuple[str, ...]) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(item, dict):
        raise DataError(f"{path}, line {number}: expected an object with {', '.join(required)}")
    for name in required:
        if not isinstance(item.get(name), str):
            raise DataError(f"{path}, line {number}: the field '{name}' is missing or not text")
    return item
