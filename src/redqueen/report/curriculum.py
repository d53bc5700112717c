"""What teachers asked: how hard it was, what was rejected, how much of it was new, and whether it
comes from a few templates."""

import keyword
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from redqueen.report.run_view import Side, Windows, rounded

DIFFICULTIES = ("unsolved", "hard", "middling", "easy", "trivial")
"""No attempt right, up to a third, up to two thirds, more, all."""
TEMPLATE_WINDOWS = 24
MOST_PROGRAMS = 20_000
"""Programs that are looked at for templates; of more, every so many-th."""
_LONGEST = 4000
_WORD = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|\d[\w.]*|[A-Za-z_]\w*|\s+""")


@dataclass(frozen=True, slots=True)
class Tally:
    """Proposals that are alike in all that is counted."""

    window: int
    teacher: str
    student: str
    kind: str
    outcome: str
    """A difficulty, `unattempted`, or why it was rejected."""
    valid: bool
    count: int
    solved: float
    """The sum of solve rates."""
    reward: float
    cut: int
    """Those that ended because they were too long."""


def tallies(side: Side) -> list[Tally]:
    """All proposals, counted in one pass over the table: it may be large."""
    outcome = """CASE WHEN p.rejection IS NOT NULL THEN p.rejection WHEN p.solve_rate IS NULL THEN 'unattempted'
        WHEN p.solve_rate <= 0 THEN 'unsolved' WHEN p.solve_rate >= 1 THEN 'trivial'
        WHEN p.solve_rate <= 1.0 / 3 THEN 'hard' WHEN p.solve_rate <= 2.0 / 3 THEN 'middling' ELSE 'easy' END"""
    query = f"""SELECT ((p.step - 1) / {side.windows.size}) AS w, p.teacher, m.student, p.kind, {outcome} AS outcome, p.problem IS NOT NULL AS valid,
            count(*) AS n, coalesce(sum(p.solve_rate), 0.0) AS solved, sum(p.reward) AS reward, sum(p.finish_reason = 'length') AS cut
        FROM proposals p JOIN pairings m ON m.world = p.world AND m.step = p.step AND m.pairing = p.pairing
        WHERE p.world = :world GROUP BY w, p.teacher, m.student, p.kind, outcome, valid"""
    return [
        Tally(w, teacher, student, kind, outcome, bool(valid), count, solved, reward, cut)
        for w, teacher, student, kind, outcome, valid, count, solved, reward, cut in side.rows(
            query
        )
    ]


def difficulty(side: Side, found: list[Tally]) -> dict[str, list[float | None]]:
    """The share of valid problems of each difficulty, window by window."""
    counts = _by_window(side, [one for one in found if one.outcome in DIFFICULTIES])
    return _shares(counts, DIFFICULTIES)


def rejections(side: Side, found: list[Tally]) -> dict[str, Any]:
    """The share of proposals rejected for each reason, window by window; in all; and for each
    teacher's place."""
    counts = _by_window(side, [one if not one.valid else _accepted(one) for one in found])
    totals: Counter[str] = Counter()
    for each in counts:
        totals.update(each)
    reasons = [reason for reason, _ in totals.most_common() if reason != "accepted"]
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        places[side.places.get(one.teacher, one.teacher)][
            "accepted" if one.valid else one.outcome
        ] += one.count
    return {
        "proposals": sum(totals.values()),
        "totals": {reason: totals[reason] for reason in [*reasons, "accepted"]},
        "lines": _shares(counts, reasons),
        "places": {place: dict(places[place]) for place in sorted(places)},
    }


def _accepted(one: Tally) -> Tally:
    return Tally(
        one.window,
        one.teacher,
        one.student,
        one.kind,
        "accepted",
        True,
        one.count,
        one.solved,
        one.reward,
        one.cut,
    )


def _by_window(side: Side, found: list[Tally]) -> list[Counter[str]]:
    counts: list[Counter[str]] = [Counter() for _ in range(side.windows.count)]
    for one in found:
        counts[one.window][one.outcome] += one.count
    return counts


def _shares(counts: list[Counter[str]], names: Any) -> dict[str, list[float | None]]:
    return {
        name: [rounded(each[name] / each.total(), 4) if each.total() else None for each in counts]
        for name in names
    }


def novelty(side: Side) -> dict[str, Any]:
    """For each window, the share of invented problems whose program, or whose behaviour, had been
    there before in this world.

    Induction (code_f) takes its programs from the archive, so it is left out.
    """
    seen: dict[str, set[str]] = {"structure": set(), "behaviour": set(), "cell": set()}
    again: dict[str, Counter[int]] = {name: Counter() for name in seen}
    count: Counter[int] = Counter()
    query = f"""SELECT {side.windows.sql} AS w, structure, behaviour, cell FROM problems
        WHERE world = :world AND NOT derived AND step > 0 ORDER BY step, problem"""
    for row in side.rows(query):
        count[row["w"]] += 1
        for name, known in seen.items():
            if row[name] in known:
                again[name][row["w"]] += 1
            known.add(row[name])
    shares = {
        name: [
            rounded(found[w] / count[w], 4) if count[w] else None for w in range(side.windows.count)
        ]
        for name, found in again.items()
    }
    total = count.total()
    return {
        "problems": total,
        "different": {name: len(known) for name, known in seen.items()},
        "again": {
            name: rounded(found.total() / total, 4) if total else None
            for name, found in again.items()
        },
        "lines": shares,
    }


def template(program: str) -> str:
    """What is left of a program without its names, numbers, texts and spaces. Nothing is parsed: it
    may be hostile."""
    return _WORD.sub(_blank, program[:_LONGEST])


def _blank(match: re.Match[str]) -> str:
    word = match[0]
    if word[0].isspace():
        return "\n" if "\n" in word else ""
    if word[0] in "'\"":
        return "'"
    if word[0].isdecimal():
        return "0"
    return f"{word} " if keyword.iskeyword(word) else "a"


def templates(side: Side) -> dict[str, Any]:
    """How often two programs have one template: of one teacher, and of two teachers.

    It is the chance for two programs drawn from the same window, which does not depend on how many
    there are; its inverse can be read as the number of templates in use.
    """
    programs = """FROM problems WHERE world = :world AND NOT derived AND step > 0
        AND json_extract(payload, '$.program') IS NOT NULL"""
    (total,) = side.row(f"SELECT count(*) {programs}")
    every = max(1, -(-total // MOST_PROGRAMS))
    windows = Windows(side.last, TEMPLATE_WINDOWS)
    counts: list[dict[str, Counter[str]]] = [defaultdict(Counter) for _ in range(windows.count)]
    common: Counter[str] = Counter()
    example: dict[str, str] = {}
    query = f"""SELECT w, author, program FROM (SELECT {windows.sql} AS w, author,
            json_extract(payload, '$.program') AS program,
            row_number() OVER (ORDER BY step, problem) AS n {programs}) WHERE n % :every = 0"""
    for row in side.rows(query, every=every):
        teacher = row["author"] or "?"
        shape = template(row["program"])
        counts[row["w"]][side.places.get(teacher, teacher)][shape] += 1
        common[shape] += 1
        example.setdefault(shape, row["program"][:_LONGEST])
    looked = common.total()
    return {
        "looked_at": looked,
        "different": len(common),
        "ends": windows.ends,
        "within": [rounded(_within(each), 4) for each in counts],
        "between": [rounded(_between(each), 4) for each in counts],
        "commonest": [
            {"share": rounded(count / looked, 4), "program": example[shape]}
            for shape, count in common.most_common(5)
        ],
    }


def _within(places: dict[str, Counter[str]]) -> float | None:
    """The chance that two programs of one teacher have one template, over teachers with two
    programs or more."""
    chances = []
    for shapes in places.values():
        n = shapes.total()
        if n > 1:
            chances.append(sum(count * (count - 1) for count in shapes.values()) / (n * (n - 1)))
    return sum(chances) / len(chances) if chances else None


def _between(places: dict[str, Counter[str]]) -> float | None:
    """The chance that programs of two different teachers have one template."""
    found = list(places.values())
    chances = [
        sum(count * other[shape] for shape, count in one.items()) / (one.total() * other.total())
        for number, one in enumerate(found)
        for other in found[number + 1 :]
        if one and other
    ]
    return sum(chances) / len(chances) if chances else None
