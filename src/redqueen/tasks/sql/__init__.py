"""SQL: small databases and queries, run by SQLite in the sandbox."""

from redqueen.tasks.kind import TaskKind
from redqueen.tasks.sql.predict import SqlO
from redqueen.tasks.sql.write import SqlQ

KINDS: dict[str, TaskKind] = {"sql_o": SqlO(), "sql_q": SqlQ()}
