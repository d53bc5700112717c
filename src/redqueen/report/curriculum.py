"""What teachers proposed: how hard it was, what was rejected, how much of it was new, and whether
it comes from a few templates."""

import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redqueen.report.run_view import Line, RunView, Windows, round_digits, slot_name

DIFFICULTIES = ("zero-pass", "hard", "medium", "easy", "all-pass")
"""By solve rate: none, up to a third, up to two thirds, more, all attempts correct."""
TEMPLATE_WINDOWS = 24
MAX_PROGRAMS = 20_000
"""Programs that are compared for templates; of more, an even sample."""
_MAX_PROGRAM_CHARS = 4000
_TOKEN = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|\d[\w.]*|[A-Za-z_]\w*|\s+""")
_OUTCOME = """CASE
    WHEN p.rejection IS NOT NULL THEN p.rejection
    WHEN p.solve_rate IS NULL THEN 'unattempted'
    WHEN p.solve_rate <= 0 THEN 'zero-pass'
    WHEN p.solve_rate >= 1 THEN 'all-pass'
    WHEN p.solve_rate <= 1.0 / 3 THEN 'hard'
    WHEN p.solve_rate <= 2.0 / 3 THEN 'medium'
    ELSE 'easy' END"""


@dataclass(frozen=True, slots=True)
class ProposalCount:
    """Proposals of one window that agree in teacher, student, kind and outcome."""

    window: int
    teacher: str
    student: str
    kind: str
    outcome: str
    """A difficulty, `unattempted`, or the reason of the rejection."""
    valid: bool
    count: int
    solved: float
    """Sum of their solve rates."""
    truncated: int
    """Those that reached the token limit."""


def count_proposals(view: RunView) -> list[ProposalCount]:
    """All proposals, counted in one pass over the table: it may be large."""
    query = f"""SELECT ((p.step - 1) / {view.windows.size}) AS w, p.teacher, m.student, p.kind,
            {_OUTCOME} AS outcome, p.problem IS NOT NULL AS valid, count(*) AS n,
            coalesce(sum(p.solve_rate), 0.0) AS solved, sum(p.finish_reason = 'length')
        FROM proposals p
        JOIN pairings m ON m.world = p.world AND m.step = p.step AND m.pairing = p.pairing
        WHERE p.world = :world GROUP BY w, p.teacher, m.student, p.kind, outcome, valid"""
    return [
        ProposalCount(window, teacher, student, kind, outcome, bool(valid), count, solved, cut)
        for window, teacher, student, kind, outcome, valid, count, solved, cut in view.rows(query)
    ]


def difficulty(view: RunView, counts: list[ProposalCount]) -> dict[str, Line]:
    """Share of valid problems of each difficulty, by window."""
    outcomes = ((one.window, one.outcome, one.count) for one in counts)
    by_window = _count_by_window(view, (each for each in outcomes if each[1] in DIFFICULTIES))
    return _shares(by_window, DIFFICULTIES)


def rejections(view: RunView, counts: list[ProposalCount]) -> dict[str, Any]:
    """Share of proposals rejected for each reason: by window, in total, and by teacher's slot."""

    def outcome(one: ProposalCount) -> str:
        return "accepted" if one.valid else one.outcome

    by_window = _count_by_window(view, ((one.window, outcome(one), one.count) for one in counts))
    totals: Counter[str] = Counter()
    for window in by_window:
        totals.update(window)
    reasons = [reason for reason, _ in totals.most_common() if reason != "accepted"]
    slots: dict[str, Counter[str]] = defaultdict(Counter)
    for one in counts:
        slots[slot_name(one.teacher)][outcome(one)] += one.count
    return {
        "proposals": totals.total(),
        "totals": {reason: totals[reason] for reason in [*reasons, "accepted"]},
        "lines": _shares(by_window, reasons),
        "slots": {slot: dict(slots[slot]) for slot in sorted(slots)},
    }


def _count_by_window(view: RunView, outcomes: Iterable[tuple[int, str, int]]) -> list[Counter[str]]:
    windows: list[Counter[str]] = [Counter() for _ in range(view.windows.count)]
    for window, outcome, count in outcomes:
        windows[window][outcome] += count
    return windows


def _shares(windows: list[Counter[str]], names: Iterable[str]) -> dict[str, Line]:
    return {
        name: [
            round_digits(window[name] / window.total(), 4) if window.total() else None
            for window in windows
        ]
        for name in names
    }


def novelty(view: RunView) -> dict[str, Any]:
    """Share of invented problems whose structure, behaviour or cell this world had seen before.

    Problems that are derived from archived ones are left out.
    """
    seen: dict[str, set[str]] = {"structure": set(), "behaviour": set(), "cell": set()}
    repeated: dict[str, Counter[int]] = {name: Counter() for name in seen}
    problems: Counter[int] = Counter()
    query = f"""SELECT {view.windows.sql} AS w, structure, behaviour, cell FROM problems
        WHERE world = :world AND NOT derived AND step > 0 ORDER BY step, problem"""
    for row in view.rows(query):
        problems[row["w"]] += 1
        for name, known in seen.items():
            repeated[name][row["w"]] += row[name] in known
            known.add(row[name])
    total = problems.total()
    return {
        "problems": total,
        "repeated": {
            name: round_digits(counts.total() / total, 4) if total else None
            for name, counts in repeated.items()
        },
        "lines": {
            name: [
                round_digits(counts[window] / problems[window], 4) if problems[window] else None
                for window in range(view.windows.count)
            ]
            for name, counts in repeated.items()
        },
    }


def template(program: str) -> str:
    """A program without its names, numbers, strings and spaces. Nothing is parsed: it may be
    hostile."""
    return _TOKEN.sub(_blank, program[:_MAX_PROGRAM_CHARS])


def _blank(match: re.Match[str]) -> str:
    token = match[0]
    if token[0].isspace():
        return "\n" if "\n" in token else ""
    if token[0] in "'\"":
        return "'"
    if token[0].isdecimal():
        return "0"
    return f"{token} " if keyword.iskeyword(token) else "a"


def templates(view: RunView) -> dict[str, Any]:
    """How likely two programs share a template: of the same teacher, and of two teachers.

    It is the probability for two programs sampled from one window, so it does not depend on their
    number; its inverse can be read as the number of templates in use.
    """
    programs = """FROM problems WHERE world = :world AND NOT derived AND step > 0
        AND json_extract(payload, '$.program') IS NOT NULL"""
    (total,) = view.row(f"SELECT count(*) {programs}")
    windows = Windows(view.last, TEMPLATE_WINDOWS)
    counts: list[dict[str, Counter[str]]] = [defaultdict(Counter) for _ in range(windows.count)]
    examples: dict[str, str] = {}
    query = f"""SELECT w, author, program FROM (SELECT {windows.sql} AS w, author,
            json_extract(payload, '$.program') AS program,
            row_number() OVER (ORDER BY step, problem) AS n {programs}) WHERE n % :every = 0"""
    for row in view.rows(query, every=max(1, -(-total // MAX_PROGRAMS))):
        shape = template(row["program"])
        counts[row["w"]][slot_name(row["author"] or "?")][shape] += 1
        examples.setdefault(shape, row["program"][:_MAX_PROGRAM_CHARS])
    common: Counter[str] = Counter()
    for window in counts:
        for shapes in window.values():
            common.update(shapes)
    return {
        "programs": common.total(),
        "different": len(common),
        "ends": windows.ends,
        "within": [round_digits(_match_within(window), 4) for window in counts],
        "between": [round_digits(_match_between(window), 4) for window in counts],
        "most_common": [
            {"share": round_digits(count / common.total(), 4), "program": examples[shape]}
            for shape, count in common.most_common(5)
        ],
    }


def _match_within(teachers: dict[str, Counter[str]]) -> float | None:
    """Probability that two programs of one teacher share a template, averaged over teachers."""
    probabilities = []
    for shapes in teachers.values():
        n = shapes.total()
        if n > 1:
            pairs = sum(count * (count - 1) for count in shapes.values())
            probabilities.append(pairs / (n * (n - 1)))
    return sum(probabilities) / len(probabilities) if probabilities else None


def _match_between(teachers: dict[str, Counter[str]]) -> float | None:
    """Probability that programs of two different teachers share a template."""
    all_shapes = list(teachers.values())
    probabilities = [
        sum(count * second[shape] for shape, count in first.items())
        / (first.total() * second.total())
        for number, first in enumerate(all_shapes)
        for second in all_shapes[number + 1 :]
    ]
    return sum(probabilities) / len(probabilities) if probabilities else None
