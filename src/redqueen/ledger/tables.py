"""The shape of the ledger's tables, and the rows that fit them."""

import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from redqueen.errors import unknown


@dataclass(frozen=True)
class Table:
    """One table: its columns in order, and those that make up the primary key, in the key's order."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def of_steps(self) -> bool:
        """Whether its rows belong to steps, and leave with them."""
        return "step" in self.columns

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.columns)

    def insert(self, verb: str) -> str:
        return f"{verb} INTO {self.name} ({', '.join(self.columns)}) VALUES ({', '.join('?' * len(self.columns))})"

    def values(self, row: Mapping[str, Any]) -> list[Any]:
        """The row in the order of the columns. A column that is left out is NULL, which the schema
        allows or not."""
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
            raise ValueError(f"{self.name}.{name} is not a number (NaN)")
        if isinstance(value, list | tuple | dict):
            return _storable(json.dumps(value, ensure_ascii=False))
        return value


def _storable(text: str) -> str:
    """Text that UTF-8 can hold: a lone surrogate, which a model's text may well contain, becomes
    its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def schema_text() -> str:
    return resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")


def tables(connection: sqlite3.Connection) -> dict[str, Table]:
    """The tables of a ledger in the order of its schema."""
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        )
    ]
    return {name: _table(connection, name) for name in names}


def _table(connection: sqlite3.Connection, name: str) -> Table:
    info = connection.execute(
        "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid", (name,)
    ).fetchall()
    key = sorted((place, column) for column, place in info if place)
    return Table(name, tuple(column for column, _ in info), tuple(column for _, column in key))
