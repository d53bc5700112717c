"""Training curves: metrics over steps, ratings, solve rates by pairing, updates and timings."""

from math import prod
from typing import Any

from redqueen.report.compute import SAMPLED
from redqueen.report.run_view import Line, RunView, Windows, mean, round_digits, slot_name

_CUMULATIVE = ("coverage/", "archive/")
"""Metrics that count since the start: a window shows the last value, not the mean."""
_COMPLEXITY = ("ast_depth", "cyclomatic", "loc", "variables")
_UPDATES = ("loss", "grad_norm", "entropy", "logprob_gap", "kl")
MATRIX_WINDOWS = 6


def metrics(view: RunView) -> dict[str, Line]:
    """Every metric of the run, by window."""
    # SQLite takes bare columns (value) from the row that max(step) comes from.
    query = f"""SELECT name, {view.windows.sql} AS w, avg(value) AS mean, max(step), value AS last
        FROM metrics WHERE world = :world AND step > 0 GROUP BY name, w"""
    lines: dict[str, Line] = {}
    for row in view.rows(query):
        counts = row["name"].startswith(_CUMULATIVE) or row["name"].endswith("/restarts")
        value = row["last"] if counts else row["mean"]
        lines.setdefault(row["name"], view.windows.empty_line())[row["w"]] = round_digits(value)
    return lines


def complexity_index(lines: dict[str, Line]) -> Line:
    """Complexity of problems relative to the first tenth of the run: the geometric mean of the
    ratios of four measures of programs, or of all features where there are no programs."""
    features = {name: line for name, line in lines.items() if name.startswith("complexity/")}
    of_programs = [line for name in _COMPLEXITY if (line := features.get(f"complexity/{name}"))]
    is_code = f"complexity/{_COMPLEXITY[0]}" in features
    measures = of_programs if is_code else list(features.values())
    if not measures:
        return []
    starts = [mean(line[: max(1, len(line) // 10)]) for line in measures]
    index: Line = []
    for values in zip(*measures, strict=True):
        pairs = zip(values, starts, strict=True)
        ratios = [value / start for value, start in pairs if value and start]
        index.append(round_digits(prod(ratios) ** (1 / len(ratios))) if ratios else None)
    return index


def ratings(view: RunView) -> list[dict[str, Any]]:
    """Mean and deviation of each member's rating, from birth to death or today."""
    shown = {0, *view.windows.ends}
    members: dict[str, dict[str, Any]] = {}
    for row in view.rows("SELECT * FROM ratings WHERE world = :world ORDER BY step, member"):
        name = row["member"]
        if row["step"] in shown or name not in members:
            empty = {"member": name, "role": row["role"], "steps": [], "mu": [], "sigma": []}
            _append(members.setdefault(name, empty), row["step"], row["mu"], row["sigma"])
    for row in view.rows("SELECT step, member, mu, sigma FROM deaths WHERE world = :world"):
        member = members.get(row["member"])
        if member and member["steps"][-1] < row["step"]:
            _append(member, row["step"], row["mu"], row["sigma"])
    return list(members.values())


def _append(member: dict[str, Any], step: int, mu: float, sigma: float) -> None:
    member["steps"].append(step)
    member["mu"].append(round_digits(mu, 4))
    member["sigma"].append(round_digits(sigma, 3))


def solve_matrix(view: RunView) -> dict[str, Any]:
    """Correct answers and attempts by slot of teacher and student, in a few windows."""
    windows = Windows(view.last, MATRIX_WINDOWS)
    query = f"""SELECT {windows.sql} AS w, teacher, student, sum(correct) AS correct,
            sum(attempts) AS attempts
        FROM pairings WHERE world = :world GROUP BY w, teacher, student"""
    cells: dict[tuple[int, str, str], list[int]] = {}
    for row in view.rows(query):
        key = (row["w"], slot_name(row["teacher"]), slot_name(row["student"]))
        cell = cells.setdefault(key, [0, 0])
        cell[0] += row["correct"]
        cell[1] += row["attempts"]
    teachers = sorted({teacher for _, teacher, _ in cells}, key=_slot_order)
    students = sorted({student for _, _, student in cells}, key=_slot_order)
    starts = [1, *(end + 1 for end in windows.ends[:-1])]
    return {
        "windows": [list(pair) for pair in zip(starts, windows.ends, strict=True)] if cells else [],
        "teachers": teachers,
        "students": students,
        "cells": [
            [window, teachers.index(teacher), students.index(student), *counts]
            for (window, teacher, student), counts in sorted(cells.items())
        ],
    }


def _slot_order(slot: str) -> tuple[str, int, str]:
    number = slot[1:]
    return slot[:1], int(number) if number.isdecimal() else 0, slot


def placements(view: RunView) -> list[dict[str, Any]]:
    """Every block's worker and device, and how often it has changed them; nothing where there is
    one block."""
    rows = view.rows(
        """SELECT block, first_slot, slots, worker, host, device, max(step) AS step,
            count(DISTINCT worker || ' ' || host || ' ' || device) - 1 AS moves
        FROM placements WHERE step <= :last GROUP BY block ORDER BY block""",
        last=view.last,
    )
    return [dict(row) for row in rows] if len(rows) > 1 else []


def timings(view: RunView) -> dict[str, Any]:
    """Mean seconds of a step by stage and window; total seconds, and those spent waiting."""
    query = f"""SELECT {view.windows.sql} AS w, stage, avg(seconds) AS mean FROM timings
        WHERE step BETWEEN 1 AND :last GROUP BY w, stage"""
    lines: dict[str, Line] = {}
    for row in view.rows(query, last=view.last):
        line = lines.setdefault(row["stage"], view.windows.empty_line())
        line[row["w"]] = round_digits(row["mean"], 4)
    totals = view.rows(
        """SELECT stage, sum(seconds) AS seconds, sum(waited_s) AS waited FROM timings
        GROUP BY stage ORDER BY seconds DESC"""
    )
    return {
        "lines": lines,
        "totals": [
            [row["stage"], round_digits(row["seconds"]), round_digits(row["waited"])]
            for row in totals
        ],
    }


_RECENT_STEPS = 8


def pace(view: RunView) -> dict[str, float | int | None] | None:
    """Of the recent steps, as the terminal has it: seconds for one, and tokens sampled a second."""
    since = max(0, view.last - _RECENT_STEPS)
    row = view.row(
        f"""SELECT (SELECT sum(seconds) FROM timings WHERE step > :since AND step <= :last)
                AS seconds,
            (SELECT sum(value) FROM metrics WHERE world = :world AND step > :since
                AND name IN {SAMPLED}) AS tokens""",
        since=since,
        last=view.last,
    )
    if not row["seconds"]:
        return None
    return {
        "step_s": round_digits(row["seconds"] / (view.last - since), 3),
        "tokens_per_s": round_digits((row["tokens"] or 0) / row["seconds"], 3),
    }


def updates(view: RunView) -> dict[str, Line]:
    """Training statistics by window, averaged over the members that were trained."""
    columns = ", ".join(f"avg({name}) AS {name}" for name in _UPDATES)
    query = f"""SELECT {view.windows.sql} AS w, {columns} FROM updates
        WHERE world = :world AND step > 0 GROUP BY w"""
    lines = {name: view.windows.empty_line() for name in _UPDATES}
    for row in view.rows(query):
        for name in _UPDATES:
            lines[name][row["w"]] = round_digits(row[name])
    return lines
