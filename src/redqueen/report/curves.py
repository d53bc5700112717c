"""The arms race in figures: metrics over steps, ratings, who solves whose problems, and where the
seconds went."""

from typing import Any

from redqueen.report.run_view import Side, Windows, mean, rounded

_LASTING = ("coverage/", "archive/")
"""Metrics that stand for all steps so far: a window shows its last, not its mean."""
_INDEX = ("ast_depth", "cyclomatic", "loc", "variables")
MATRIX_WINDOWS = 6


def metrics(side: Side) -> dict[str, list[float | None]]:
    """Every metric of the run, window by window."""
    window = side.windows.sql
    found: dict[str, list[float | None]] = {}
    query = f"SELECT name, {window} AS w, avg(value) AS mean, max(step), value AS last FROM metrics WHERE world = :world AND step > 0 GROUP BY name, w"
    for row in side.rows(query):
        value = row["last"] if row["name"].startswith(_LASTING) else row["mean"]
        found.setdefault(row["name"], list(side.windows.line()))[row["w"]] = rounded(value)
    return found


def complexity_index(lines: dict[str, list[float | None]]) -> list[float | None]:
    """How complex problems are beside those of the run's first tenth: the geometric mean of four
    ratios."""
    parts = [line for name in _INDEX if (line := lines.get(f"complexity/{name}"))]
    if not parts:
        return []
    starts = [mean(line[: max(1, len(line) // 10)]) for line in parts]
    found: list[float | None] = []
    for values in zip(*parts, strict=True):
        ratios = [
            value / start for value, start in zip(values, starts, strict=True) if value and start
        ]
        product = 1.0
        for ratio in ratios:
            product *= ratio
        found.append(rounded(product ** (1 / len(ratios))) if ratios else None)
    return found


def ratings(side: Side) -> list[dict[str, Any]]:
    """Each member's skill and its uncertainty, from birth to death or today."""
    shown = {0, *side.windows.ends}
    found: dict[str, dict[str, Any]] = {}
    query = "SELECT step, member, role, mu, sigma FROM ratings WHERE world = :world ORDER BY step, member"
    for row in side.rows(query):
        if row["step"] in shown or row["member"] not in found:
            one = found.setdefault(
                row["member"],
                {"member": row["member"], "role": row["role"], "steps": [], "mu": [], "sigma": []},
            )
            _append(one, row["step"], row["mu"], row["sigma"])
    for row in side.rows("SELECT step, member, mu, sigma FROM deaths WHERE world = :world"):
        if row["member"] in found and found[row["member"]]["steps"][-1] < row["step"]:
            _append(found[row["member"]], row["step"], row["mu"], row["sigma"])
    return list(found.values())


def _append(one: dict[str, Any], step: int, mu: float, sigma: float) -> None:
    one["steps"].append(step)
    one["mu"].append(rounded(mu, 4))
    one["sigma"].append(rounded(sigma, 3))


def matrix(side: Side) -> dict[str, Any]:
    """Right answers and attempts for each teacher's and student's place, in a few windows of the
    run."""
    windows = Windows(side.last, MATRIX_WINDOWS)
    query = f"""SELECT {windows.sql} AS w, teacher, student, sum(correct) AS correct, sum(attempts) AS attempts
        FROM pairings WHERE world = :world GROUP BY w, teacher, student"""
    cells: dict[tuple[int, str, str], list[int]] = {}
    for row in side.rows(query):
        place = (
            row["w"],
            side.places.get(row["teacher"], row["teacher"]),
            side.places.get(row["student"], row["student"]),
        )
        before = cells.setdefault(place, [0, 0])
        before[0] += row["correct"]
        before[1] += row["attempts"]
    teachers = sorted({teacher for _, teacher, _ in cells}, key=_by_number)
    students = sorted({student for _, _, student in cells}, key=_by_number)
    starts = [1, *(end + 1 for end in windows.ends[:-1])]
    return {
        "windows": [[start, end] for start, end in zip(starts, windows.ends, strict=True)]
        if cells
        else [],
        "teachers": teachers,
        "students": students,
        "cells": [
            [window, teachers.index(t), students.index(s), *counts]
            for (window, t, s), counts in sorted(cells.items())
        ],
    }


def _by_number(place: str) -> tuple[str, int, str]:
    digits = place[1:]
    return place[:1], int(digits) if digits.isdecimal() else 0, place


def timings(side: Side) -> dict[str, Any]:
    """Mean seconds of a step for each stage, window by window; the seconds in all, and those spent
    waiting."""
    query = f"SELECT {side.windows.sql} AS w, stage, avg(seconds) AS each FROM timings WHERE step > 0 AND step <= :last GROUP BY w, stage"
    lines: dict[str, list[float | None]] = {}
    for row in side.rows(query, last=side.last):
        lines.setdefault(row["stage"], list(side.windows.line()))[row["w"]] = rounded(
            row["each"], 4
        )
    totals = side.rows(
        "SELECT stage, sum(seconds) AS seconds, sum(waited_s) AS waited FROM timings GROUP BY stage ORDER BY seconds DESC"
    )
    return {
        "lines": lines,
        "totals": [
            [row["stage"], rounded(row["seconds"]), rounded(row["waited"])] for row in totals
        ],
    }


def updates(side: Side) -> dict[str, list[float | None]]:
    """What training did, on average over the members that learned."""
    names = ("loss", "grad_norm", "entropy", "logprob_gap", "kl")
    columns = ", ".join(f"avg({name}) AS {name}" for name in names)
    found: dict[str, list[float | None]] = {name: list(side.windows.line()) for name in names}
    for row in side.rows(
        f"SELECT {side.windows.sql} AS w, {columns} FROM updates WHERE world = :world AND step > 0 GROUP BY w"
    ):
        for name in names:
            found[name][row["w"]] = rounded(row[name])
    return found
