"""Rows as a student writes them: a JSON array of arrays."""

import json
from typing import Any

from redqueen.tasks.kind import Malformed
from redqueen.tasks.sql.databases import Rows

MAX_CHARS = 4000


def read_rows(text: str) -> Rows:
    """Numbers by value, as results have them: 2.0 is 2, and fractions have four digits."""
    if len(text) > MAX_CHARS:
        raise Malformed(f"{len(text)} characters, at most {MAX_CHARS}")
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("not a JSON array of rows") from error
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise Malformed("expected a JSON array with an array for every row")
    return [tuple(map(_read_value, row)) for row in rows]


def _read_value(value: Any) -> Any:
    if value is None or type(value) in (int, str):
        return value
    if type(value) is float and abs(value) < 1e12:
        value = round(value, 4)
        return int(value) if value == int(value) else value
    raise Malformed("a value is a number, a text or null")
