"""SQL problems: results against an implementation in plain Python, hostile SQL, hidden rows."""

import json
import sqlite3
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from redqueen.config.stages import VerifyConfig
from redqueen.records import Problem, Rejection
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import Malformed, load_kind, load_kinds
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.sql import runner, texts
from redqueen.tasks.sql.databases import Database
from redqueen.testing import check_kind

CHAT = load_prompt_format("chat")
TABLES = """CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, age INT CHECK (age > 0));
CREATE TABLE orders (id INTEGER, owner INTEGER REFERENCES people(id), amount DECIMAL(10, 2));
INSERT INTO people VALUES (1, 'Ann', 30), (2, 'Bob', 25), (3, 'Cid', 30);
INSERT INTO orders VALUES (1, 1, 10.5), (2, 1, 20), (3, 2, 5), (4, 3, 7.25), (5, 3, 7.25);"""


def run(query: str, tables: str = TABLES, hidden: bool = False) -> dict[str, Any]:
    return runner.f(tables, query, hidden)


def rows(query: str, tables: str = TABLES) -> list[Any]:
    (result,) = run(query, tables)["results"]
    return [list(row) for row in result["rows"]]


def verify(pool: SandboxPool, kind: str, *payloads: Database) -> list[Problem | Rejection]:
    return verify_payloads(
        [(kind, one, None) for one in payloads], load_kinds(), pool, VerifyConfig()
    )


def problem(pool: SandboxPool, kind: str, payload: Database) -> Problem:
    (verdict,) = verify(pool, kind, payload)
    assert isinstance(verdict, Problem), verdict
    return verdict


def verdicts(pool: SandboxPool, given: Problem, *answers: str) -> list[str]:
    pairs = [(given, f"<answer>{text}</answer>") for text in answers]
    return [one.verdict for one in grade_answers(pairs, load_kinds(), CHAT, pool, VerifyConfig())]


def fenced(*blocks: tuple[str, str]) -> str:
    return (
        "<answer>" + "".join(f"\n```{label}\n{text}\n```" for label, text in blocks) + "</answer>"
    )


def test_both_kinds_satisfy_the_contract_of_plug_ins(pool: SandboxPool) -> None:
    query = "SELECT name, SUM(amount) FROM people JOIN orders ON owner = people.id GROUP BY name"
    check_kind(
        "sql_o",
        proposals=[fenced(("tables", TABLES), ("query", query + " ORDER BY 2 DESC"))],
        answers=['<answer>[["Ann", 30.5], ["Cid", 14.50], ["Bob", 5.0]]</answer>'],
        wrong=['<answer>[["Ann", 30.5], ["Bob", 5], ["Cid", 14.5]]</answer>'],
        prompt_format="chat",
        sandbox=pool,
    )
    (given,) = check_kind(
        "sql_q",
        proposals=[
            fenced(("tables", TABLES), ("query", query), ("question", "Who spent\nhow much?"))
        ],
        answers=[
            "<answer>select p.name, total(o.amount) from orders o, people p where o.owner = p.id group by 1 order by 2;</answer>"
        ],
        wrong=["<answer>VALUES ('Ann', 30.5), ('Cid', 14.5), ('Bob', 5)</answer>"],
        prompt_format="chat",
        sandbox=pool,
    )
    assert given.payload.question == "Who spent how much?"
    assert (
        "SELECT"
        not in CHAT.render(load_kind("sql_q").ask_answer(given)).text.partition("```tables")[2]
    )


@pytest.mark.parametrize("kind", ["sql_o", "sql_q"])
def test_examples_and_few_shots_are_problems_with_the_answers_that_they_show(
    kind: str, pool: SandboxPool
) -> None:
    own = load_kind(kind)
    shown = [
        Database(texts._POSED, texts._JOINED, "?"),
        Database(texts._TABLES, texts._GROUPED, "?"),
    ]
    found = verify(pool, kind, *own.seeds(), *shown)
    problems = [one for one in found if isinstance(one, Problem)]
    assert len(problems) == len(found) == len({one.key for one in problems})
    assert dict(own.show(problems[-1]))["result"] == texts._RESULT
    assert problems[-1].payload.tables == texts._TABLES  # in normal spelling
    assert len({own.cell(one) for one in problems}) >= 4
    again = verify(pool, kind, *(one.payload for one in problems))
    assert again == problems
    few_shot = own.ask_answer(problems[-1]).few_shot
    assert few_shot is not None
    assert verdicts(pool, problems[-1], few_shot.reply[0][1]) == ["correct"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT random() FROM people", "error"),
        ("SELECT abs(random()) % 1 FROM people", "error"),
        ("SELECT hex(randomblob(2)) FROM people", "error"),
        ("SELECT current_timestamp, name FROM people", "error"),
        ("SELECT datetime('now') FROM people", "error"),
        ("SELECT strftime('%s') FROM people", "error"),
        ("SELECT sqlite_version() FROM people", "error"),
        ("SELECT last_insert_rowid() FROM people", "error"),
        ("SELECT load_extension('x') FROM people", "error"),
        ("SELECT readfile('/etc/passwd')", "error"),
        ("SELECT * FROM sqlite_master", "error"),
        ("SELECT count(*) FROM sqlite_master", "error"),
        ("SELECT * FROM pragma_table_info('people')", "error"),
        ("SELECT count(*) FROM pragma_database_list", "error"),
        ("SELECT * FROM json_each('[1, 2]')", "error"),
        ("SELECT 1; DROP TABLE people", "error"),
        ("SELECT ? FROM people", "error"),
        ("SELECT name FROM", "error"),
        ("PRAGMA table_info(people)", "unsupported"),
        ("ATTACH '/tmp/x' AS y", "unsupported"),
        ("DELETE FROM people", "unsupported"),
        ("EXPLAIN SELECT * FROM people", "unsupported"),
        ("WITH a AS (SELECT 1) DELETE FROM people", "error"),
        ("", "unsupported"),
        ("-- nothing", "unsupported"),
        ("SELECT x'00' FROM people", "unsupported"),
        ("SELECT 9e999 FROM people", "unsupported"),
        ("SELECT name FROM people LIMIT 1", "unstable"),
        ("SELECT name FROM people ORDER BY age DESC LIMIT 1", "unstable"),
        ("SELECT group_concat(name) FROM people", "unstable"),
        ("SELECT name, count(*) FROM people GROUP BY age", "unstable"),
        ("SELECT name, row_number() OVER () FROM people", "unstable"),
        ("SELECT rowid, name FROM people", "error"),
        ("SELECT max(_rowid_) FROM people", "error"),
        ("SELECT count(oid) FROM people", "error"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "timeout"),
        ("SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f, orders g, orders h", "timeout"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 99) SELECT x FROM c", "too_long"),
        ("SELECT name, name, name, name, name, name, name FROM people", "too_long"),
        ("SELECT replace('aaaaaaaa', 'a', 'bbbbbbbbbbbbbbbb') FROM people", "too_long"),
        ("SELECT 1 WHERE " + "(" * 80 + "1" + ")" * 80, None),
        ("SELECT " + "1+" * 200 + "1", "error"),
        ("SELECT " + "(SELECT " * 100 + "1" + ")" * 100, "error"),
    ],
)  # fmt: skip
def test_a_query_may_only_select_what_is_always_the_same(query: str, why: str | None) -> None:
    assert run(query).get("refused") == why


@pytest.mark.parametrize(
    "tables",
    [
        "", ";", "CREATE TABLE t (x)", "SELECT 1", "CREATE TABLE t (x); INSERT INTO t VALUES (random())",
        "CREATE TABLE t (x DEFAULT (random())); INSERT INTO t DEFAULT VALUES",
        "CREATE TABLE t (x DEFAULT CURRENT_TIMESTAMP); INSERT INTO t DEFAULT VALUES",
        "CREATE TABLE t (x, y AS (date(x))); INSERT INTO t VALUES ('now')",
        "CREATE TABLE t (x); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT 1",
        "CREATE TABLE t (x); CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END; INSERT INTO t VALUES (1)",
        "CREATE TEMP TABLE t (x); INSERT INTO t VALUES (1)",
        "CREATE VIRTUAL TABLE t USING fts5(x)",
        "ATTACH '/tmp/x' AS y; CREATE TABLE y.t (x)",
        "PRAGMA writable_schema = 1; CREATE TABLE t (x); INSERT INTO t VALUES (1)",
        "CREATE TABLE t (x); INSERT INTO t VALUES (1); UPDATE t SET x = 2",
        "CREATE TABLE t (x); INSERT INTO t VALUES (1); DELETE FROM t",
        "INSERT INTO sqlite_master VALUES (1, 2, 3, 4, 5)",
        'CREATE TABLE "order" (x); INSERT INTO "order" VALUES (1)',
        'CREATE TABLE "t; DROP" (x); INSERT INTO "t; DROP" VALUES (1)',
        "CREATE TABLE t (x); INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
        "CREATE TABLE t (x); INSERT INTO t VALUES " + ", ".join("(1)" for _ in range(81)),
        "CREATE TABLE t (x); INSERT INTO t VALUES ('" + "a" * 61 + "')",
        "CREATE TABLE t (x); INSERT INTO t VALUES (x'00')",
        "CREATE TABLE t (x); INSERT INTO t VALUES (9223372036854775807)",
        "CREATE TABLE t (a,b,c,d,e,f,g,h,i); INSERT INTO t VALUES (1,2,3,4,5,6,7,8,9)",
        ";".join(f"CREATE TABLE t{n} (x); INSERT INTO t{n} VALUES (1)" for n in range(6)),
    ],
)  # fmt: skip
def test_tables_are_created_and_filled_and_nothing_else(tables: str) -> None:
    assert "refused" in run("SELECT 1", tables)


def test_the_order_of_rows_counts_where_an_order_by_decides_it() -> None:
    assert run("SELECT name FROM people ORDER BY age, name")["results"][0]["ordered"]
    assert run("SELECT name FROM people UNION SELECT 'Z' ORDER BY 1 DESC")["results"][0]["ordered"]
    for query in (
        "SELECT name FROM people",
        "SELECT name FROM people ORDER BY age",
        "SELECT * FROM (SELECT name FROM people ORDER BY name)",
        "SELECT name, rank() OVER (ORDER BY age) FROM people",
        "SELECT max(age) FROM people ORDER BY 1",
    ):
        assert not run(query)["results"][0]["ordered"], query


def test_tables_have_one_spelling_and_columns_one_type() -> None:
    messy = "create table T(a, b numeric, c date, d boolean);insert into T values(1,'2',3,0),(2.5,3.0,'2020-01-01',1),(NULL,4,5,1);"
    text = run("SELECT 1", messy)["tables"]
    assert text.startswith("CREATE TABLE T (a REAL, b INTEGER, c TEXT, d INTEGER);")
    assert run("SELECT 1", text)["tables"] == text
    assert rows("SELECT typeof(c), count(*) FROM T GROUP BY 1", messy) == [["text", 3]]


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT name FROM people", TABLES),
        ("SELECT name FROM", TABLES),
        ("SELECT 1", "CREATE TABLE t ("),
        ("SELECT 1", "CREATE TABLE t (a)"),
        ("SELECT 1", ""),
    ],
)
def test_no_database_stays_open(query: str, tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def connect(budget: runner.Budget, natural: Any = runner.connect) -> Any:
        opened.append(natural(budget))
        return opened[-1]

    monkeypatch.setattr(runner, "connect", connect)
    run(query, tables)
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    assert opened


def test_hidden_rows_keep_keys_and_references_and_change_the_rest() -> None:
    tables = runner.read_tables(TABLES, runner.Budget())
    for seed in range(50):
        people, orders = runner.hide(tables, Random(seed))
        assert sorted(row[0] for row in people.rows) == [1, 2, 3]
        assert 3 <= len(orders.rows) <= 4  # nothing refers to these
        assert {row[1] for row in orders.rows} <= {1, 2, 3}
        assert {row[1] for row in people.rows} == {"Ann", "Bob", "Cid"}


def test_what_hardly_depends_on_the_rows_is_trivial(pool: SandboxPool) -> None:
    for query in ("SELECT 1", "SELECT count(*) FROM people", "SELECT 1 FROM people WHERE 0"):
        (verdict,) = verify(pool, "sql_q", Database(TABLES, query, "?"))
        assert isinstance(verdict, Rejection) and verdict.reason == "trivial"


def test_a_result_that_vanishes_on_hidden_rows_is_trivial(pool: SandboxPool) -> None:
    """A query that gives the shown result and else nothing would be correct."""
    query = "SELECT name FROM people WHERE id = 1 AND name = 'Ann' AND age = 30"
    tables = (
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age INTEGER);\n"
        "INSERT INTO people VALUES (1, 'Ann', 30), (2, 'Bob', 41), (3, 'Cid', 52), (4, 'Dan', 63), "
        "(5, 'Eve', 74), (6, 'Fay', 85), (7, 'Gus', 96);"
    )
    (verdict,) = verify(pool, "sql_q", Database(tables, query, "Who?"))
    assert isinstance(verdict, Rejection) and verdict.reason == "trivial"


def test_a_student_is_told_whether_the_order_of_rows_counts(pool: SandboxPool) -> None:
    for end, told in ((" ORDER BY age DESC, name", texts.ORDERED), ("", texts.UNORDERED)):
        query = f"SELECT name FROM people WHERE age > 25{end}"
        asked = load_kinds()["sql_q"].ask_answer(
            problem(pool, "sql_q", Database(TABLES, query, "Who?"))
        )
        assert told in asked.instruction and "{" not in asked.instruction


def test_a_generated_column_is_a_plain_column_and_others_keep_their_values() -> None:
    tables = "CREATE TABLE t (x INT, y AS (x + 1), z INT); INSERT INTO t VALUES (1, 7), (2, 8);"
    assert rows("SELECT x, y, z FROM t", tables) == [[1, 2, 7], [2, 3, 8]]


def test_a_name_is_checked_before_it_stands_in_any_sql() -> None:
    tables = (
        'CREATE TABLE t (x); INSERT INTO t VALUES (1); CREATE TABLE "t"" UNION SELECT 2 --" (x);'
    )
    assert run("SELECT x FROM t", tables)["detail"].startswith("the name")


def test_queries_that_differ_by_a_space_in_a_number_are_two_problems(pool: SandboxPool) -> None:
    one, other = (
        problem(pool, "sql_o", Database(TABLES, f"SELECT name, {text} FROM people"))
        for text in ("1e2", "1 e2")
    )
    assert one.gold != other.gold and one.key != other.key


def test_a_key_that_counts_up_is_a_plain_key() -> None:
    tables = (
        "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, n TEXT);"
        "INSERT INTO a (n) VALUES ('x'), ('y');"
    )
    found = run("SELECT id, n FROM a", tables)
    assert found["tables"].startswith("CREATE TABLE a (id INTEGER PRIMARY KEY, n TEXT);")
    assert found["results"][0]["rows"] == [(1, "x"), (2, "y")]
    assert "refused" in run("SELECT * FROM sqlite_sequence", tables)


def test_a_comment_makes_no_new_problem(pool: SandboxPool) -> None:
    query = "SELECT name FROM people WHERE age > 25"
    keys = {
        problem(pool, "sql_o", Database(TABLES, text)).key
        for text in (query, f"{query} /* again\n */", f"/* a */ {query} -- b", f"{query} /* open")
    }
    assert len(keys) == 1


def test_answers_of_hostile_text_are_wrong_or_malformed(pool: SandboxPool) -> None:
    query = "SELECT name FROM people WHERE age > 25"
    predict, write = (
        problem(pool, "sql_o", Database(TABLES, query)),
        problem(pool, "sql_q", Database(TABLES, query, "?")),
    )
    assert verdicts(pool, predict, '[["Cid"], ["Ann"]]', '[["Ann"]]', "[]", "[1]", "{}", "[[true]]", "[" * 9999, '[["Ann"], [NaN]]', "[[1e999]]") == [
        "correct", "wrong", "wrong", "malformed", "malformed", "malformed", "malformed", "malformed", "malformed",
    ]  # fmt: skip
    hostile = ["DROP TABLE people", "SELECT 'Ann' UNION SELECT 'Cid'", "SELECT name FROM people; SELECT 1", "\ud800",
               "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c", "SELECT '" + "a" * 2000]  # fmt: skip
    assert verdicts(pool, write, "SELECT name FROM people WHERE 25 < age ORDER BY id", *hostile) == [
        "correct", "wrong", "wrong", "wrong", "wrong", "wrong", "malformed",
    ]  # fmt: skip
    with pytest.raises(Malformed):
        load_kind("sql_o").read_proposal([("tables", "\0"), ("query", "SELECT 1")], ())


Row = tuple[int, str, int | None]
AGGREGATES: dict[str, Callable[[list[int]], Any]] = {
    "SUM(v)": lambda values: sum(values) if values else None,
    "COUNT(v)": len,
    "MAX(v)": lambda values: max(values, default=None),
    "AVG(v)": lambda values: round(sum(values) / len(values), 4) if values else None,
}


def random_query(rng: Random) -> tuple[str, str, list[Any]]:
    """Tables, a query, and its rows as plain Python computes them."""
    stored: list[Row] = [
        (number, rng.choice("abc"), rng.choice([None, *range(-3, 9)]))
        for number in range(rng.randint(1, 9))
    ]
    values = ", ".join(f"({n}, '{g}', {'NULL' if v is None else v})" for n, g, v in stored)
    tables = (
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, g TEXT, v INTEGER); INSERT INTO t VALUES {values}"
    )
    least = rng.randint(-3, 8)
    kept = (
        [row for row in stored if row[2] is not None and row[2] >= least]
        if rng.random() < 0.7
        else stored
    )
    where = "" if kept is stored else f" WHERE v >= {least}"
    form = rng.randrange(3)
    if form == 0:
        down = rng.random() < 0.5
        by_id: list[Any] = [[n, v] for n, _, v in sorted(kept, reverse=down)]
        return tables, f"SELECT id, v FROM t{where} ORDER BY id{' DESC' * down}", by_id
    if form == 1:
        name = rng.choice(list(AGGREGATES))
        groups = {
            g: [v for _, other, v in kept if other == g and v is not None]
            for g in {row[1] for row in kept}
        }
        expected: list[Any] = [[g, AGGREGATES[name](of)] for g, of in sorted(groups.items())]
        return tables, f"SELECT g, {name} FROM t{where} GROUP BY g ORDER BY g", expected
    pairs = [[a[0], b[0]] for a in stored for b in stored if a[1] == b[1] and a[0] < b[0]]
    return (
        tables,
        "SELECT a.id, b.id FROM t a JOIN t b ON a.g = b.g AND a.id < b.id ORDER BY 1, 2",
        pairs,
    )


def test_gold_of_random_queries_is_what_plain_python_computes() -> None:
    rng, checked = Random(0), 0
    for _ in range(250):
        tables, query, expected = random_query(rng)
        found = run(query, tables)
        if len(expected) > runner.MAX_ROWS:
            assert found["refused"] == "too_long"
            continue
        checked += 1
        assert json.loads(json.dumps(found["results"][0]["rows"])) == expected, query
    assert checked > 200


def test_random_sql_never_raises() -> None:
    rng = Random(1)
    words = "SELECT FROM people orders name age amount owner id WHERE AND OR NOT NULL IS IN ( ) , * + - = < > 'Ann' 1 2 JOIN ON GROUP BY ORDER LIMIT HAVING COUNT(*) SUM( max( UNION WITH AS CASE WHEN THEN END EXISTS DISTINCT ; -- random() \" ' [".split()
    reasons = set()
    for _ in range(400):
        text = "SELECT " + " ".join(rng.choice(words) for _ in range(rng.randint(1, 12)))
        reasons.add(run(text).get("refused"))
        run("SELECT 1", TABLES[: rng.randint(0, len(TABLES))] + text)
    assert {None, "error"} <= reasons
