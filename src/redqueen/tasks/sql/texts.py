"""What is asked about databases, in words, and few-shot examples."""

from redqueen.tasks.kind import FewShot

_RULES = """\
- `tables` has CREATE TABLE and INSERT statements only: at most 5 tables of 8 columns, and 80 rows in all, of numbers and short texts.
- `query` is one SELECT in the dialect of SQLite. It gives at most 20 rows, and at least one.
- No dates, no random numbers, nothing that depends on the order in which rows are stored: a LIMIT needs an ORDER BY without ties.
- Do not repeat an example or change it only slightly."""

PROPOSE = f"""\
Invent one new problem about reading SQL: write a small database and a query. Somebody else will be given both and has to work out the rows
of the result in the head. The best problem is one that a skilled reader solves about half of the time: it takes several steps, such as a
join, a condition and a group, each of them well defined.
{_RULES}"""

PROPOSE_QUESTION = f"""\
Invent one new problem about writing SQL: write a small database, a query, and a question that the query answers. Somebody else will be
given the tables, the question and the result, and has to write a query that gives the right rows for other rows in the same tables as
well. The best problem is one that a skilled programmer solves about half of the time. The question says exactly what is wanted, without
giving the query away.
{_RULES}"""

PREDICT = """\
Work out which rows the query gives. Go through it step by step, then give the rows as a JSON array with an array for every row, such as
[["Ann", 3], ["Bob", null]]. The order of rows counts only if the query has an ORDER BY that decides it. Round fractions to four digits."""

WRITE = """\
Write one SELECT in the dialect of SQLite that answers the question. It must give the shown result, and the right rows for other rows in
the same tables as well. Columns have the order of the result. {order}"""
ORDERED = (
    "Rows must come in the order of the result, by an ORDER BY that decides it for other rows too."
)
UNORDERED = "The order of rows does not count."

_TABLES = """\
CREATE TABLE pets (name TEXT, kind TEXT, age INTEGER);
INSERT INTO pets VALUES
  ('Rex', 'dog', 3),
  ('Tom', 'cat', 5),
  ('Kit', 'cat', 2),
  ('Ace', 'dog', 9);"""
_GROUPED = "SELECT kind, MAX(age) FROM pets GROUP BY kind HAVING MIN(age) > 2"
_RESULT = '[["dog", 9]]'
_POSED = """\
CREATE TABLE rivers (id INTEGER PRIMARY KEY, name TEXT, length INTEGER);
INSERT INTO rivers VALUES
  (1, 'Aare', 288),
  (2, 'Po', 652),
  (3, 'Oder', 840);
CREATE TABLE towns (name TEXT, river_id INTEGER REFERENCES rivers(id), people INTEGER);
INSERT INTO towns VALUES
  ('Bern', 1, 134),
  ('Thun', 1, 44),
  ('Turin', 2, 850),
  ('Opole', 3, 127);"""
_JOINED = (
    "SELECT rivers.name, COUNT(*) FROM rivers JOIN towns ON river_id = id WHERE people > 100 "
    "GROUP BY id HAVING length < 700"
)
_EXAMPLE = (("tables", _TABLES), ("query", _GROUPED), ("result", _RESULT))
_IDEA = (
    "The example groups one table. I want two tables: rows that a condition leaves out before they are counted, and a condition on "
    "the group afterwards. Thun is too small and the Oder too long, so the Aare has one town left, and so has the Po."
)

FEW_SHOT = {
    "sql_o": FewShot(_IDEA, (("tables", _POSED), ("query", _JOINED)), examples=(_EXAMPLE,)),
    "sql_q": FewShot(
        _IDEA,
        (
            ("tables", _POSED),
            ("query", _JOINED),
            (
                "question",
                "How many towns of more than 100 people has each river shorter than 700, if it has any?",
            ),
        ),
        examples=(
            (
                _EXAMPLE[0],
                (
                    "question",
                    "How old is the oldest pet of each kind that has no pet of 2 or younger?",
                ),
                *_EXAMPLE[1:],
            ),
        ),
    ),
    "predict": FewShot(
        "The groups are dog (3, 9) and cat (5, 2).\nMIN(age) > 2: dogs have 3, which is more than 2; cats have 2, which is not.\n"
        "So only dog is left, and MAX(age) is 9.",
        (("result", _RESULT),),
        _EXAMPLE[:2],
    ),
    "write": FewShot(
        "Pets are grouped by kind, and a kind counts only if its youngest is older than 2: a condition on the group, so HAVING.",
        (("query", _GROUPED),),
        (
            _EXAMPLE[0],
            ("question", "How old is the oldest pet of each kind that has no pet of 2 or younger?"),
            _EXAMPLE[2],
        ),
    ),
}
