"""Reads a ledger of an older schema through the current one.

The file is never changed: temporary views and tables of one read-only connection shadow its own.
Views read the file as it is, so this works on a run that is still being played, too.
"""

import contextlib
import json
import sqlite3
import tomllib

import tomlkit

from redqueen.config.renamed import rename_rows, rename_settings
from redqueen.config.toml import validate
from redqueen.ledger.tables import table_shapes

_NEW_TABLES = {
    "exams": 3,
    "fitness": 3,
    "people": 4,
    "turns": 4,
    "role_ratings": 4,
    "placements": 5,
}
"""By the schema that has them first."""
_METRICS = {
    "propose/entropy": "propose/nll",
    "solve/entropy": "solve/nll",
    "solve/trivial_frac": "solve/all_pass_frac",
    "solve/unsolved_frac": "solve/zero_pass_frac",
    "update/rows_frac": "update/samples_frac",
}
_METRIC_NAME = " ".join(f"WHEN '{old}' THEN '{new}'" for old, new in _METRICS.items())

_VIEWS = {
    "problems": """
        SELECT world, step, problem, kind,
            (SELECT nullif(teacher, 'fixed') FROM main.proposals p
                WHERE p.world = q.world AND p.step = q.step AND p.problem = q.problem
                ORDER BY proposal LIMIT 1) AS author,
            json_object('program', program, 'inputs', json(inputs), 'message', message,
                'canonical', canonical) AS payload,
            outputs AS gold,
            json_object('ast_depth', ast_depth, 'cyclomatic', cyclomatic, 'loc', loc,
                'variables', variables, 'steps_executed', steps_executed) AS features,
            canonical AS structure, behaviour, cell, kind = 'code_f' AS derived
        FROM main.problems q""",
    "proposals": """
        SELECT world, step, proposal, pairing, teacher, version, kind, prompt, shown, text, tokens,
            logprob, ended AS finish_reason, problem, rejection, detail, solve_rate, reward,
            advantage
        FROM main.proposals""",
    "attempts": """
        SELECT world, step, proposal, attempt, problem, student, version, text, tokens, logprob,
            ended AS finish_reason,
            CASE verdict WHEN 'right' THEN 'correct' ELSE verdict END AS verdict,
            detail, reward, advantage
        FROM main.attempts""",
    "updates": """
        SELECT world, step, member, rows AS samples, tokens, loss, grad_norm, entropy, logprob_gap,
            logprob_gap_max, kl, clipped_frac
        FROM main.updates""",
    "metrics": f"""
        SELECT world, step, CASE name {_METRIC_NAME}
            ELSE replace(name, 'solve/thought_frac/', 'solve/reasoning_frac/') END AS name, value
        FROM main.metrics""",
}


def shadow_older(connection: sqlite3.Connection, schema: int) -> None:
    """Let this connection see tables, values and settings under their current names."""
    connection.execute("PRAGMA temp_store = MEMORY")
    rename = rename_settings if schema == 1 else rename_rows
    for name, query in _VIEWS.items() if schema == 1 else ():
        connection.execute(f"CREATE TEMP VIEW {name} AS {query}")
    for name in (name for name, first in _NEW_TABLES.items() if schema < first):
        connection.execute(f"CREATE TEMP TABLE {name} ({', '.join(table_shapes()[name].columns)})")
    for name in ("run", "worlds"):
        connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM main.{name}")
    for (text,) in connection.execute("SELECT value FROM run WHERE name = 'config'").fetchall():
        # An unreadable config stops only those who need it.
        with contextlib.suppress(tomllib.TOMLDecodeError):
            settings = tomlkit.dumps(rename(tomllib.loads(text)))
            connection.execute("UPDATE run SET value = ? WHERE name = 'config'", (settings,))
    for world, text in connection.execute("SELECT world, config FROM worlds").fetchall():
        settings = validate(rename(json.loads(text)), imports=False).model_dump_json()
        connection.execute("UPDATE worlds SET config = ? WHERE world = ?", (settings, world))
    connection.execute("PRAGMA query_only = ON")
