"""Loads benchmark files: from a folder, or from the hub through `datasets`, which caches them.

A local file has one JSON object a line, plain or gzipped, with the fields that the benchmark's
authors published. Nothing is bundled.
"""

import gzip
import importlib.util
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redqueen.errors import DataError

VARIABLE = "REDQUEEN_DATA"
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of a benchmark are."""

    file: str
    """Its name in a data folder, with or without .gz."""
    fields: tuple[str, ...]
    """That every row must have."""
    hub: str = ""
    """The dataset on the hub; empty: not there in this form."""
    config: str | None = None
    split: str = "test"
    url: str = ""
    """The file itself, where the hub has none in this form."""
    rename: Mapping[str, str] | None = None
    """Fields that have another name on the hub."""


def read_rows(suite: str, source: Source, folder: Path | None) -> Rows:
    """The rows of a suite: from the folder, or the one that REDQUEEN_DATA names, else from the
    hub."""
    if folder is None and os.environ.get(VARIABLE):
        folder = Path(os.environ[VARIABLE])
    rows = _from_folder(suite, source, folder) if folder else _from_hub(suite, source)
    for number, row in enumerate(rows, 1):
        missing = [name for name in source.fields if name not in row]
        if missing:
            raise DataError(
                f"{suite}: item {number} has no field '{missing[0]}'; "
                f"every item needs {', '.join(source.fields)}"
            )
    if not rows:
        raise DataError(
            f"{suite}: {source.file} is empty: expected one JSON object a line, "
            f"with {', '.join(source.fields)}"
        )
    return rows


def _from_folder(suite: str, source: Source, folder: Path) -> Rows:
    stem = source.file.removesuffix(".gz")
    for path in (folder / stem, folder / f"{stem}.gz"):
        if path.is_file():
            return read_file(path)
    raise DataError(
        f"{suite}: there is no {stem} (or {stem}.gz) in {folder.absolute()}.\n"
        f"{how_to_get(source)}\n"
        f"Or leave --data and {VARIABLE} out to fetch it from the hub."
    )


def read_file(path: Path) -> Rows:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    rows: Rows = []
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: a text may hold U+2028
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: not JSON ({error})") from error
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {number}: expected a JSON object")
            rows.append(row)
    return rows


def how_to_get(source: Source) -> str:
    where = f"the dataset {source.hub} on the hub" if source.hub else source.url
    return (
        f"It holds one JSON object a line with {', '.join(source.fields)}; its source is {where}. "
        "Put it there, or name another folder with --data."
    )


def _from_hub(suite: str, source: Source) -> Rows:
    if importlib.util.find_spec("datasets") is None:
        raise DataError(
            f"{suite}: no data folder is given (--data DIR, or {VARIABLE}), and without the "
            f"package `datasets` the hub cannot be asked: pip install 'redqueen[hub]'.\n"
            f"A data folder needs the file {source.file}. {how_to_get(source)}"
        )
    fetch: Callable[[Source], Sequence[Mapping[str, Any]]] = (
        _fetch_file if source.url else _fetch_dataset
    )
    try:
        rows = fetch(source)
    except Exception as error:  # anything: a network, a cache, another library
        message = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(
            f"{suite}: {source.hub or source.url} could not be loaded from the network or its "
            f"cache: {message}\n"
            f"Check the network, or get the file {source.file} elsewhere. {how_to_get(source)}"
        ) from error
    names = source.rename or {}
    return [{names.get(name, name): value for name, value in row.items()} for row in rows]


def _fetch_dataset(source: Source) -> Sequence[Mapping[str, Any]]:
    from datasets import load_dataset  # type: ignore[import-not-found, unused-ignore]

    return list(load_dataset(source.hub, source.config, split=source.split))


def _fetch_file(source: Source) -> Sequence[Mapping[str, Any]]:
    """The file itself: its rows hold lists of mixed types, which a table of `datasets` cannot."""
    from datasets import DownloadManager  # type: ignore[import-not-found, unused-ignore]

    data = Path(DownloadManager().download(source.url)).read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return [json.loads(line) for line in text.decode().split("\n") if line.strip()]
