"""What runs in the sandbox: builds a database in memory, runs one query on it, returns the rows.

Its text is the program of a job; what models wrote are its arguments. The standard library only.

A model's SQL may create tables, insert rows and select, with functions that always return the same;
SQLite's authorizer refuses the rest. The budget counts SQLite's own instructions, so that it does
not depend on the machine.

A result must not depend on the order in which rows are stored: every query runs on the same rows in
four orders. Rows that differ are `unstable` (a LIMIT without an order, say). The order of rows
counts only where the query has an ORDER BY that makes it the same four times.
"""

import re
import sqlite3
from contextlib import closing
from itertools import pairwise
from random import Random
from typing import Any

BUDGET = 600_000
"""Instructions of SQLite for one job, all its queries together."""
_STEP = 10
MAX_TABLES, MAX_COLUMNS, MAX_STORED, MAX_TEXT = 5, 8, 80, 60
MAX_ROWS, MAX_FIELDS = 20, 6
HIDDEN = 3
"""Databases with other rows."""
ORDERS = 4
"""In which rows are stored."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,23}")
_TOKEN = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)|\w+|\S""", re.S
)
_FUNCTIONS = frozenset(
    "abs avg coalesce count cume_dist dense_rank first_value glob group_concat ifnull iif instr "
    "lag last_value lead length like lower ltrim max min nth_value ntile nullif percent_rank rank "
    "replace round row_number rtrim sign substr substring sum total trim typeof upper".split()
)
_INDEX, _CREATE_TABLE, _INSERT, _READ, _SELECT, _UPDATE, _FUNCTION, _RECURSIVE = (
    1,
    2,
    18,
    20,
    21,
    23,
    31,
    33,
)
_CHANCE = frozenset("random randomblob date time datetime julianday strftime unixepoch".split())
_CLOCKS = frozenset(("current_date", "current_time", "current_timestamp"))
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 40,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 60,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 50_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 10,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
Row = tuple[Any, ...]


class Refused(Exception):
    """The reason is one word; then what it is about."""


class Table:
    def __init__(self, name: str, columns: list[dict[str, str]], rows: list[Row]) -> None:
        self.name, self.columns, self.rows = name, columns, rows


def f(setup: str, query: str, hidden: bool) -> dict[str, Any]:
    """The tables in normal spelling, and what the query gives: on the rows as they are, and, on
    demand, on hidden ones."""
    budget = Budget()
    try:
        tables = read_tables(setup, budget)
        text = write_tables(tables)
        if write_tables(read_tables(text, budget)) != text:
            raise Refused("unsupported", "tables that cannot be written down again")
        seeds = [f"{number} {text}" for number in range(HIDDEN if hidden else 0)]
        databases = [hide(tables, Random(seed)) for seed in seeds]
        before = budget.spent
        results = [run_query(tables, query, budget)]
        steps = (budget.spent - before) // ORDERS
        results += [run_query(database, query, budget) for database in databases]
        return {"tables": text, "results": results, "steps": steps}
    except Refused as refused:
        return {"refused": refused.args[0], "detail": str(refused.args[1])[:200]}
    except MemoryError:
        return {"refused": "memory", "detail": "the database grew too large"}
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
        if budget.spent > BUDGET:
            return {"refused": "timeout", "detail": f"more than {BUDGET} instructions"}
        return {"refused": "error", "detail": str(error)[:200]}


class Budget:
    """Instructions of SQLite, in tens."""

    def __init__(self) -> None:
        self.spent = 0

    def spend(self) -> bool:
        self.spent += _STEP
        return self.spent > BUDGET


def connect(budget: Budget) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for name, most in _LIMITS.items():
        connection.setlimit(name, most)
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA hard_heap_limit = 64000000")
    connection.set_progress_handler(budget.spend, _STEP)
    return connection


def read_tables(setup: str, budget: Budget) -> list[Table]:
    """The tables that CREATE TABLE and INSERT statements make."""
    words = [word.lower() for word in _TOKEN.findall(setup)]
    for word, after in pairwise([*words, ""]):
        # the authorizer is not asked about defaults
        if word in _CLOCKS or (after == "(" and word in _CHANCE):
            raise Refused("unsupported", f"{word} is never the same")
    with closing(connect(budget)) as connection:
        connection.set_authorizer(_may_set_up)
        connection.executescript(setup)
        connection.set_authorizer(None)
        tables = _read_all(connection)
    stored = sum(len(table.rows) for table in tables)
    if not 1 <= stored <= MAX_STORED:
        raise Refused("too_long", f"{stored} rows, from 1 to {MAX_STORED}")
    return tables


def _read_all(connection: sqlite3.Connection) -> list[Table]:
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite@_%' "
            "ESCAPE '@' ORDER BY rowid"  # AUTOINCREMENT keeps a table of its own
        )
    ]
    if not 1 <= len(names) <= MAX_TABLES:
        raise Refused("too_long", f"{len(names)} tables, from 1 to {MAX_TABLES}")
    return [_read_table(connection, name) for name in names]


def _may_set_up(action: int, what: str | None, name: str | None, *_: Any) -> int:
    own = (what or "").startswith("sqlite_")  # the schema, and the indices of keys
    if action in (_CREATE_TABLE, _INSERT, _SELECT, _READ) or (action in (_UPDATE, _INDEX) and own):
        return sqlite3.SQLITE_OK
    if action == _FUNCTION and (name or "").lower() in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _read_table(connection: sqlite3.Connection, name: str) -> Table:
    columns = []
    found = connection.execute(
        "SELECT name, type, pk FROM pragma_table_xinfo(?)", (name,)
    ).fetchall()  # with generated columns, as rows have them
    for text in (name, *(column for column, _, _ in found)):
        if not _NAME.fullmatch(text) or text.lower().startswith("sqlite"):
            raise Refused("unsupported", f"the name {text[:30]!r}")
    keys = sum(pk > 0 for _, _, pk in found)
    links = {
        column: f" REFERENCES {table}({to})" if to else f" REFERENCES {table}"
        for column, table, to in connection.execute(
            'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (name,)
        )
    }
    rows = connection.execute(
        f'SELECT * FROM "{name}" ORDER BY rowid LIMIT {MAX_STORED + 1}'
    ).fetchall()
    stored = []
    for place, (column, declared, pk) in enumerate(found):
        key = " PRIMARY KEY" if pk and keys == 1 else ""
        values = [_check_value(row[place]) for row in rows]
        kind = _choose_type(declared.upper(), values)
        columns.append({"name": column, "type": kind, "key": key, "link": links.get(column, "")})
        stored.append([value if value is None else _CONVERT[kind](value) for value in values])
    if len(columns) > MAX_COLUMNS:
        raise Refused("too_long", f"{len(columns)} columns, at most {MAX_COLUMNS}")
    return Table(name, columns, list(zip(*stored, strict=True)))


_CONVERT: dict[str, Any] = {"INTEGER": int, "REAL": float, "TEXT": str}


def _choose_type(declared: str, values: list[Any]) -> str:
    """One of three types, as declared where its values agree with it: SQLite stores values of any
    type in any column, which would be no fair problem."""
    kinds = {type(value) for value in values}
    if str in kinds or any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    is_real = any(word in declared for word in ("REAL", "FLOA", "DOUB"))
    return "REAL" if float in kinds or is_real else "INTEGER"


def _check_value(value: Any) -> Any:
    if isinstance(value, bytes):
        raise Refused("unsupported", "a blob")
    if isinstance(value, float) and not abs(value) < 1e12:
        raise Refused("unsupported", "a number that is too large")
    if isinstance(value, int) and abs(value) >= 10**12:
        raise Refused("unsupported", "a number that is too large")
    if isinstance(value, str) and (len(value) > MAX_TEXT or not value.isprintable()):
        raise Refused("too_long", f"a text of more than {MAX_TEXT} characters, or of other lines")
    return value


def write_tables(tables: list[Table]) -> str:
    """As SQL: what `read_tables` reads, in normal spelling."""
    parts = []
    for table in tables:
        columns = ", ".join(
            f"{column['name']} {column['type']}{column['key']}{column['link']}"
            for column in table.columns
        )
        parts.append(f"CREATE TABLE {table.name} ({columns});")
        if table.rows:
            rows = ",\n  ".join(f"({', '.join(map(_write, row))})" for row in table.rows)
            parts.append(f"INSERT INTO {table.name} VALUES\n  {rows};")
    return "\n".join(parts)


def _write(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else repr(value)


def hide(tables: list[Table], rng: Random) -> list[Table]:
    """Other rows of the same sort. Every column keeps its values in another order, so that keys
    stay unique and references lead somewhere. Tables that no other refers to lose some rows, and
    numbers that are no keys change a little."""
    referred = {
        column["link"].removeprefix(" REFERENCES ").partition("(")[0].lower()
        for table in tables
        for column in table.columns
    }
    others = []
    for table in tables:
        columns = []
        for column, values in zip(table.columns, zip(*table.rows, strict=True), strict=False):
            mixed = rng.sample(values, len(values))
            name = column["name"].lower()
            is_key = column["key"] or column["link"] or name == "id" or name.endswith("_id")
            if column["type"] == "INTEGER" and not is_key and len(set(values)) > 2:
                mixed = [
                    value + rng.choice((0, 0, 1)) if type(value) is int else value
                    for value in mixed
                ]
            columns.append(mixed)
        rows: list[Row] = list(zip(*columns, strict=True))
        if table.name.lower() not in referred and len(rows) > 2:
            rows = rows[: len(rows) - rng.randint(1, max(1, len(rows) // 3))]
        others.append(Table(table.name, table.columns, rows))
    return others


def run_query(tables: list[Table], query: str, budget: Budget) -> dict[str, Any]:
    """Its rows, and whether their order counts."""
    words = [token for token in _TOKEN.findall(query) if token[:2] not in ("--", "/*")]
    if not words or words[0].lower() not in ("select", "with", "values"):
        raise Refused("unsupported", "not a query")
    rng = Random(1)
    runs, read = [], set[str]()
    for order in range(ORDERS):
        stored = [_reorder(table, order, rng) for table in tables]
        runs.append(_run(stored, query, budget, read))
    if any(_sorted(run) != _sorted(runs[0]) for run in runs):
        raise Refused("unstable", "the rows depend on the order in which they are stored")
    ordered = len(runs[0]) > 1 and _has_order(words) and all(run == runs[0] for run in runs)
    rows = runs[0] if ordered else _sorted(runs[0])
    return {"ordered": ordered, "rows": rows, "read": sorted(read)}


def _reorder(table: Table, order: int, rng: Random) -> Table:
    rows = (
        [table.rows, table.rows[::-1]][order]
        if order < 2
        else rng.sample(table.rows, len(table.rows))
    )
    return Table(table.name, table.columns, rows)


def _run(tables: list[Table], query: str, budget: Budget, read: set[str]) -> list[Row]:
    """On tables without keys, which would keep rows in an order of their own."""
    names = {table.name.lower() for table in tables}

    def may_select(action: int, what: str | None, name: str | None, *_: Any) -> int:
        table = (what or "").lower()
        if action == _READ and table in names and name != "ROWID":
            # without keys, the number of a row is not the one that the shown tables have
            read.add(table)
            return sqlite3.SQLITE_OK
        if action == _READ and name == "" and not table.startswith(("sqlite_", "pragma_", "json_")):
            return sqlite3.SQLITE_OK  # rows of a named subquery are counted
        if action in (_SELECT, _RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == _FUNCTION and (name or "").lower() in _FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    with closing(connect(budget)) as connection:
        for table in tables:
            columns = ", ".join(f'"{column["name"]}" {column["type"]}' for column in table.columns)
            connection.execute(f'CREATE TABLE "{table.name}" ({columns})')
            marks = ", ".join("?" for _ in table.columns)
            connection.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', table.rows)
        connection.set_authorizer(may_select)
        rows = connection.execute(query).fetchmany(MAX_ROWS + 1)
    if len(rows) > MAX_ROWS or (rows and len(rows[0]) > MAX_FIELDS):
        raise Refused("too_long", f"more than {MAX_ROWS} rows or {MAX_FIELDS} columns")
    return [tuple(map(_round, row)) for row in rows]


def _round(value: Any) -> Any:
    """Numbers by value: 2.0 is 2, and fractions have four digits."""
    value = _check_value(value)
    if isinstance(value, float):
        value = round(value, 4)
        return int(value) if value == int(value) else value
    return value


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def _has_order(words: list[str]) -> bool:
    """Whether the query itself has an ORDER BY, not only a part of it in brackets."""
    depth = 0
    for word, after in pairwise(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.lower() == "order" and after.lower() == "by":
            return True
    return False
