"""Random texts of tables and queries: well-formed, mutated and hostile."""

import re
from collections.abc import Callable
from random import Random

TEXTS = ("'Ann'", "'Bob'", "'x'", "''", "'it''s'", "'é'", "'10'", "'a%'", "'1e3'", "NULL")
NUMBERS = ("0", "1", "2", "3", "-1", "10", "2.5", "0.1", "1e2", "NULL", "0.30000000000000004")
Columns = dict[str, list[tuple[str, str]]]
"""Of each table: names and types."""


def tables(rng: Random) -> tuple[str, Columns]:
    columns: Columns = {}
    parts = []
    for name in rng.sample(["t", "people", "Orders", "u_1"], rng.choice([1, 1, 2, 3])):
        own = [("id", "INTEGER")]
        for column in rng.sample(["g", "v", "w", "name", "amount", "ref_id"], rng.randint(1, 4)):
            kind = rng.choice(["INTEGER", "INTEGER", "REAL", "TEXT"])
            own.append((column, "TEXT" if column in ("g", "name") else kind))
        key = rng.choice([" PRIMARY KEY", " PRIMARY KEY", "", " UNIQUE"])
        declared = [f"id INTEGER{key}"]
        for column, kind in own[1:]:
            link = (
                f" REFERENCES {next(iter(columns))}(id)" if columns and column == "ref_id" else ""
            )
            collate = " COLLATE NOCASE" if kind == "TEXT" and rng.random() < 0.1 else ""
            declared.append(f"{column} {rng.choice([kind, kind, _ALSO[kind]])}{link}{collate}")
        start = rng.choice([0, 1, 1, 5, 100])
        rows = [
            f"({', '.join([str(start + 2 * n), *(_value(rng, kind) for _, kind in own[1:])])})"
            for n in range(rng.randint(1, 8))
        ]
        rng.shuffle(rows)
        parts.append(f"CREATE TABLE {name} ({', '.join(declared)});")
        parts.append(f"INSERT INTO {name} VALUES {', '.join(rows)};")
        columns[name] = own
    return "\n".join(parts), columns


_ALSO = {"INTEGER": "BIGINT", "REAL": "DOUBLE", "TEXT": "VARCHAR(20)"}


def _value(rng: Random, kind: str) -> str:
    if kind == "TEXT":
        return rng.choice(TEXTS)
    number = rng.choice(NUMBERS)
    return number if kind == "REAL" else number.partition(".")[0].replace("1e2", "100")


def query(rng: Random, columns: Columns, depth: int = 0) -> str:
    """Most are right, and many give the same rows in whatever order rows are stored."""
    names = [rng.choice(list(columns)) for _ in range(rng.choice([1, 1, 1, 2]))]
    aliases = "ab"[: len(names)]
    fields = [
        (f"{alias}.{column}", kind)
        for name, alias in zip(names, aliases, strict=True)
        for column, kind in columns[name]
    ]
    source = f"{names[0]} a"
    if len(names) > 1:
        join = rng.choice(["JOIN", "LEFT JOIN", "CROSS JOIN", "NATURAL JOIN"])
        on = "" if join[0] in "CN" else f" ON {_condition(rng, fields, depth)}"
        source += f" {join} {names[1]} b{on}"
    where = f" WHERE {_condition(rng, fields, depth)}" if rng.random() < 0.5 else ""
    if rng.random() < 0.35:
        by = rng.choice(fields)[0]
        having = f" HAVING {_aggregate(rng, fields)} > 1" if rng.random() < 0.3 else ""
        select = f"{by}, {_aggregate(rng, fields)}"
        text = f"SELECT {select} FROM {source}{where} GROUP BY {by}{having}"
    elif rng.random() < 0.2:
        text = f"SELECT {_aggregate(rng, fields)}, {_aggregate(rng, fields)} FROM {source}{where}"
    else:
        picked = [_expression(rng, fields, depth) for _ in range(rng.randint(1, 3))]
        distinct = "DISTINCT " if rng.random() < 0.2 else ""
        text = f"SELECT {distinct}{', '.join(picked)} FROM {source}{where}"
    if depth == 0:
        text = _finish(rng, text, columns, len(re.findall(r"\bGROUP BY\b", text)))
    return text


def _finish(rng: Random, text: str, columns: Columns, grouped: int) -> str:
    draw = rng.random()
    if draw < 0.1:
        text = f"{text} {rng.choice(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT'])} {text}"
    elif draw < 0.2:
        text = f"WITH c AS ({text}) SELECT {rng.choice(['*', 'count(*)'])} FROM c"
    elif draw < 0.25:
        text = (
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < "
            f"{rng.randint(2, 9)}) SELECT n, (SELECT count(*) FROM {next(iter(columns))}) FROM c"
        )
    if rng.random() < 0.5:
        text += f" ORDER BY {rng.choice(['1', '1 DESC', '1, 2', '2', 'a.id', 'NULL'])}"
    if rng.random() < 0.15:
        text += f" LIMIT {rng.choice(['1', '3', '0', '-1', '2 OFFSET 1'])}"
    return text + rng.choice(["", "", ";", " -- end", "\n"])


Fields = list[tuple[str, str]]


def _condition(rng: Random, fields: Fields, depth: int) -> str:
    name, kind = rng.choice(fields)
    value = rng.choice(TEXTS if kind == "TEXT" else NUMBERS)
    same = rng.choice([one for one in fields if one[1] == kind])[0]
    return rng.choice(
        [
            f"{name} {rng.choice(['=', '<', '>=', '<>', 'IS', 'IS NOT'])} {value}",
            f"{name} {rng.choice(['=', '<', '<>'])} {same}",
            f"{name} IS NOT NULL",
            f"{name} IN ({value}, {rng.choice(NUMBERS)})",
            f"{name} BETWEEN 1 AND 5",
            f"{name} LIKE '%n%'",
            f"NOT ({name} = {value} OR {same} > {value})",
            f"{name} = (SELECT max({name}) FROM (SELECT {value} AS z))",
        ]
    )


def _aggregate(rng: Random, fields: Fields) -> str:
    name = rng.choice(fields)[0]
    function = rng.choice(["sum", "count", "min", "max", "avg", "total", "COUNT(DISTINCT", "Sum"])
    return f"{function} {name})" if "(" in function else f"{function}({name})"


def _expression(rng: Random, fields: Fields, depth: int) -> str:
    name, other = rng.choice(fields)[0], rng.choice(fields)[0]
    return rng.choice(
        [
            name,
            name,
            f"{name} + {rng.choice(NUMBERS)}",
            f"{name} || {other}",
            f"{name} / {other}",
            f"CASE WHEN {_condition(rng, fields, depth)} THEN {name} ELSE 0 END",
            f"coalesce({name}, {other}, 'none')",
            f"round({name} * 1.005, 2)",
            f"substr({name}, 1, 2)",
            f"typeof({name})",
            f"rank() OVER (ORDER BY {name})",
            f"sum({name}) OVER (PARTITION BY {other})",
            f"row_number() OVER (ORDER BY {name}, {other})",
            f"CAST({name} AS TEXT)",
            f"lower({name}) = {other}",
            f"-{name}",
            f"{name} % 3",
            f"abs({name})",
            rng.choice(["rowid", "a.rowid", "max(a._rowid_)", "a.oid", "*", "a.*"]),
        ]
    )


NASTY = (
    "random()", "randomblob(9)", "abs(random()) % 1", "datetime('now')", "current_timestamp", "strftime('%s', 'now')", "julianday()", "sqlite_version()", "changes()",
    "load_extension('/tmp/x')", "readfile('/etc/passwd')", "writefile('/tmp/x', 'y')", "edit('x')", "zeroblob(1000000000)", "hex(zeroblob(9000))", "x'00ff'",
    "printf('%.*c', 999999999, 'x')", "printf('%1000000000d', 1)", "format('%s', 1)", "char(0)", "char(55296)", "CAST(x'ff' AS TEXT)", "CAST(x'00' AS TEXT)", "1e999",
    "-1e999", "1e308 * 10", "0.0 / 0.0", "1 / 0", "9223372036854775807 + 1", "-9223372036854775808", "abs(-9223372036854775808)", "1 << 63", "json('[1]')", "unicode('é')",
    "replace(replace(replace('aaaaaaaaaaaaaaaa', 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa')", "group_concat(g, 'x')", "?", "?1", ":a",
    "@b", "$c", "zz", '"zz"', "`zz`", "[zz]", "'\ud800'", "'\0'", "'\u2028'", "'\u202e'", "'</answer>'", "'```'", "likely(1)", "sqlite_compileoption_get(1)",
    "fts3_tokenizer('simple')", "last_insert_rowid()", "RAISE(ABORT, 'x')", "(SELECT sql FROM sqlite_master)", "(SELECT count(*) FROM pragma_database_list)", "''''", "nth_value(id, 0) OVER ()",
    "ntile(-1) OVER ()", "substr('abc', -9223372036854775807, 9)", "round(1.5, 9999999999)", "iif(1, 2)", "0x7fffffffffffffff", "1_000", "max()", "min(1, 2, 3)", "total(1e308)",
)  # fmt: skip
STATEMENTS = (
    "PRAGMA writable_schema = 1", "PRAGMA table_info(t)", "ATTACH '/tmp/x.db' AS y", "ATTACH ':memory:' AS y", "DETACH main", "VACUUM INTO '/tmp/y.db'", "DROP TABLE t", "DELETE FROM t",
    "UPDATE t SET id = 1", "CREATE VIEW z AS SELECT 1", "CREATE TEMP TABLE z (x)", "CREATE VIRTUAL TABLE z USING fts5(x)", "CREATE INDEX i ON t (id)", "ALTER TABLE t RENAME TO z", "BEGIN",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO t VALUES (new.id + 1); END", "REINDEX", "ANALYZE", "EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1", "COMMIT", "SAVEPOINT s", "",
    ";", "--", "/*", "SELECT 1; SELECT 2", "INSERT INTO t SELECT * FROM t", "INSERT INTO t DEFAULT VALUES", "INSERT OR REPLACE INTO t (id) VALUES (1)", "SELECT load_extension('x')", "INSERT INTO sqlite_master VALUES (1, 2, 3, 4, 5)",
    "CREATE TABLE z (x DEFAULT (random())); INSERT INTO z DEFAULT VALUES", "CREATE TABLE z (x DEFAULT CURRENT_TIMESTAMP); INSERT INTO z DEFAULT VALUES",
    "CREATE TABLE z (x, y AS (x + 1), w); INSERT INTO z VALUES (1, 7), (2, 8)", "CREATE TABLE z (x, y AS (random())); INSERT INTO z VALUES (1)", "CREATE TABLE z (x CHECK (x > random())); INSERT INTO z VALUES (1)",
    'CREATE TABLE "a""b" (x); INSERT INTO "a""b" VALUES (1)', 'CREATE TABLE "t"" UNION SELECT random() --" (x)', "CREATE TABLE z (x) WITHOUT ROWID", "CREATE TABLE z (x PRIMARY KEY) WITHOUT ROWID; INSERT INTO z VALUES (1)",
    "CREATE TABLE z (x REFERENCES \"t) , y TEXT DEFAULT ('a'\")", "CREATE TABLE select (x)", "CREATE TABLE z (rowid INTEGER, oid TEXT); INSERT INTO z VALUES (9, 'a')", "CREATE TABLE z (x STRICT)", "CREATE TABLE z AS SELECT 1 AS x",
    "CREATE TABLE z (x INT PRIMARY KEY); INSERT INTO z VALUES (NULL), (NULL)", "CREATE TABLE z (x BLOB); INSERT INTO z VALUES (x'00')", "CREATE TABLE z (x); INSERT INTO z VALUES (zeroblob(900000000))",
    "CREATE TABLE z (x UNIQUE, y AS (x) STORED UNIQUE); INSERT INTO z VALUES (1)", "CREATE TABLE sqlite_z (x)", "CREATE TABLE z (é TEXT); INSERT INTO z VALUES ('é')", "CREATE TABLE z (x INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO z VALUES (7)",
)  # fmt: skip


def _explosion(rng: Random, columns: Columns) -> str:
    table = next(iter(columns))
    size = rng.choice([3, 9, 40, 200])
    many = ", ".join(f"{table} j{n}" for n in range(size))
    return rng.choice(
        [
            f"SELECT count(*) FROM {many}",
            f"SELECT * FROM {many}",
            f"SELECT a.id FROM {table} a, {many} ORDER BY 1",
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
            f"WITH RECURSIVE c(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM c LIMIT {size}) "
            f"SELECT length(x), (SELECT count(*) FROM {table}) FROM c",
            "WITH RECURSIVE c(x) AS (SELECT id FROM t UNION SELECT x + 1 FROM c) SELECT max(x) FROM c",
            "WITH c AS (SELECT * FROM c) SELECT * FROM c",
            f"WITH {', '.join(f'c{n + 1} AS (SELECT * FROM c{n}, c{n} z)' for n in range(size))} "
            f"SELECT 1 FROM c{size}",
            f"WITH c0 AS (SELECT id FROM {table}), "
            + ", ".join(f"c{n + 1} AS (SELECT a.id FROM c{n} a, c{n} b)" for n in range(size // 3))
            + f" SELECT count(*) FROM c{size // 3}",
            f"SELECT {'(SELECT ' * size}1{')' * size} FROM {table}",
            f"SELECT id FROM {table} WHERE {'(' * size}id{')' * size} > {'-' * size}1",
            f"SELECT id FROM {table} WHERE {' OR '.join(['id = 1'] * size)}",
            f"SELECT {'1+' * size}id FROM {table}",
            " UNION ALL ".join([f"SELECT id FROM {table}"] * size),
            f"VALUES {', '.join(['(1)'] * size)}",
            f"SELECT '{'a' * 13 * size}' LIKE '{'%a' * min(size, 24)}b' FROM {table}",
            f"SELECT {'n' * 30 * size} FROM {table}",
            f"SELECT {', '.join(['id'] * size)} FROM {table}",
            f"SELECT group_concat(a.id) OVER (ORDER BY a.id) FROM {table} a, {many}",
        ]
    )


def mutated(rng: Random, text: str) -> str:
    tokens = re.findall(r"\w+|\s+|.", text)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(tokens))
        draw = rng.random()
        if draw < 0.3:
            tokens[place] = rng.choice(tokens)
        elif draw < 0.5:
            tokens[place] = ""
        elif draw < 0.7:
            tokens[place] = rng.choice(NASTY)
        else:
            tokens[place] += rng.choice(["(", ")", ",", "'", '"', ";", "--", "/*", "é", "[", "."])
    return "".join(tokens)


def _nasty_value(rng: Random, columns: Columns) -> str:
    table = next(iter(columns))
    return rng.choice(
        [
            f"SELECT id, {rng.choice(NASTY)} FROM {table}",
            f"SELECT id FROM {table} WHERE {rng.choice(NASTY)} > 0",
            f"SELECT id FROM {table} ORDER BY {rng.choice(NASTY)}",
            f"SELECT id FROM {table} LIMIT {rng.choice(NASTY)}",
        ]
    )


def _nasty_statement(rng: Random, columns: Columns) -> str:
    return rng.choice(["", "SELECT 1; ", "WITH c AS (SELECT 1) "]) + rng.choice(STATEMENTS)


HOSTILE: tuple[Callable[[Random, Columns], str], ...] = (_explosion, _nasty_value, _nasty_statement)


def _hostile_tables(rng: Random, text: str) -> str:
    size = rng.choice([50, 81, 3000])
    return rng.choice(
        [
            text + rng.choice(STATEMENTS),
            rng.choice(STATEMENTS) + ";" + text,
            f"CREATE TABLE t (id, g); INSERT INTO t VALUES (1, {rng.choice(NASTY)});",
            f"CREATE TABLE t (id, g DEFAULT ({rng.choice(NASTY)})); INSERT INTO t (id) VALUES (1);",
            f"{text} INSERT INTO t SELECT * FROM {', '.join(f't j{n}' for n in range(9))};",
            f"CREATE TABLE t (id); INSERT INTO t VALUES {', '.join(['(1)'] * size)};",
            f"CREATE TABLE {'t' * size} (id); INSERT INTO {'t' * size} VALUES (1);",
            f"CREATE TABLE t ({', '.join(f'c{n}' for n in range(size))});",
            f"CREATE TABLE t (id); INSERT INTO t VALUES ('{'a' * size}');",
            f"CREATE TABLE t (id); INSERT INTO t VALUES ({'(' * size}1{')' * size});",
            f"{text[: rng.randrange(len(text))]}",
            mutated(rng, text),
            text.replace("(", "((", 1),
            text.replace(
                "id", rng.choice(["select", "rowid", "_rowid_", "é", '"a b"', "sqlite_x"])
            ),
        ]
    )


def database(rng: Random) -> tuple[str, str, str]:
    """What sort of case it is, tables and a query."""
    text, columns = tables(rng)
    draw = rng.random()
    if draw < 0.55:
        return "well-formed", text, query(rng, columns)
    if draw < 0.7:
        return "mutated", text, mutated(rng, query(rng, columns))
    if draw < 0.85:
        return "hostile query", text, rng.choice(HOSTILE)(rng, columns)
    columns.setdefault("t", [("id", "INTEGER")])
    asked = rng.choice(
        ["SELECT * FROM t", "SELECT id FROM t", "SELECT * FROM z", query(rng, columns)]
    )
    return "hostile tables", _hostile_tables(rng, text), asked
