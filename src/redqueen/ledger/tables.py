"""The tables of the ledger, and the rows that fit them."""

import json
import math
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

from redqueen.errors import unknown


@dataclass(frozen=True)
class TableShape:
    """The columns of a table in order, and those of its primary key in the key's order."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def has_steps(self) -> bool:
        """Whether its rows belong to steps, and are deleted with them."""
        return "step" in self.columns

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.columns)

    def insert(self, verb: str) -> str:
        values = ", ".join("?" * len(self.columns))
        return f"{verb} INTO {self.name} ({', '.join(self.columns)}) VALUES ({values})"

    def values(self, row: Mapping[str, Any]) -> list[Any]:
        """The row in the order of the columns; a missing column is NULL."""
        if not self._known.issuperset(row):
            wrong = next(name for name in row if name not in self._known)
            raise ValueError(unknown(f"column of the table {self.name}", wrong, self.columns))
        if missing := [name for name in self.key if row.get(name) is None]:
            raise ValueError(
                f"a row of the table {self.name} has no {missing[0]}: {dict(row)!r:.200}"
            )
        return [self._value(name, row.get(name)) for name in self.columns]

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return _storable(value)
        if isinstance(value, float) and math.isnan(value):  # SQLite would store NULL
            raise ValueError(f"{self.name}.{name} is NaN")
        if isinstance(value, list | tuple | dict):
            return _storable(json.dumps(value, ensure_ascii=False))
        return value


def _storable(text: str) -> str:
    """UTF-8 cannot hold a lone surrogate, which a model's text may contain: store its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def schema_text() -> str:
    return resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")


@cache
def table_shapes() -> Mapping[str, TableShape]:
    """The tables of the current schema, in its order."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema_text())
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        ).fetchall()
        return {name: _shape(connection, name) for (name,) in names}


def _shape(connection: sqlite3.Connection, name: str) -> TableShape:
    info = connection.execute(
        "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid", (name,)
    ).fetchall()
    key = sorted((position, column) for column, position in info if position)
    return TableShape(name, tuple(column for column, _ in info), tuple(column for _, column in key))
