"""A few small databases and queries for archives to begin with."""

from redqueen.tasks.sql.databases import Database

_SHOP = """\
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
INSERT INTO people VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome'), (3, 'Cid', 'Oslo'), (4, 'Dan', 'Bern');
CREATE TABLE orders (id INTEGER PRIMARY KEY, person_id INTEGER REFERENCES people(id), item TEXT, price INTEGER);
INSERT INTO orders VALUES (1, 1, 'lamp', 30), (2, 1, 'desk', 120), (3, 2, 'lamp', 30), (4, 3, 'chair', 45),
  (5, 3, 'desk', 110), (6, 2, 'chair', 50);"""
_TEAMS = """\
CREATE TABLE games (home TEXT, away TEXT, home_goals INTEGER, away_goals INTEGER);
INSERT INTO games VALUES ('Reds', 'Blues', 2, 1), ('Blues', 'Greens', 0, 0), ('Greens', 'Reds', 3, 1),
  ('Blues', 'Reds', 4, 2), ('Reds', 'Greens', 1, 1), ('Greens', 'Blues', 0, 2);"""
_STAFF = """\
CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT, boss_id INTEGER REFERENCES staff(id), pay INTEGER);
INSERT INTO staff VALUES (1, 'Eva', NULL, 90), (2, 'Finn', 1, 60), (3, 'Gus', 1, 75), (4, 'Hal', 2, 62), (5, 'Ida', 3, 40);"""

EXAMPLES = (
    Database(
        _SHOP,
        "SELECT name, SUM(price) FROM people JOIN orders ON people.id = person_id GROUP BY people.id HAVING SUM(price) > 100",
        "Who has spent more than 100 in all, and how much?",
    ),
    Database(
        _SHOP,
        "SELECT name FROM people WHERE id NOT IN (SELECT person_id FROM orders WHERE item = 'lamp') ORDER BY name",
        "Which people have never ordered a lamp, by name?",
    ),
    Database(
        _TEAMS,
        "SELECT home, COUNT(*) FROM games WHERE home_goals > away_goals GROUP BY home",
        "How many home games has each team won, of those that have won any?",
    ),
    Database(
        _STAFF,
        "SELECT worker.name, worker.pay - boss.pay FROM staff AS worker JOIN staff AS boss ON worker.boss_id = boss.id "
        "WHERE worker.pay > boss.pay",
        "Who earns more than their own boss, and by how much?",
    ),
)
