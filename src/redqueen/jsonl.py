"""Files of one JSON object a line: read with errors that name the line, written so that a reader sees whole lines only."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from redqueen.errors import DataError


def read_jsonl(path: Path, required: Iterable[str]) -> list[dict[str, Any]]:
    """The objects of a file, each with the required fields, which hold text. Blank lines are passed over."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return [_object(path, number, line, tuple(required)) for number, line in _lines(text)]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line


def _object(path: Path, number: int, line: str, required: tuple[str, ...]) -> dict[str, Any]:
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
