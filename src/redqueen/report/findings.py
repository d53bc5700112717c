"""What happened in a run and what looks suspicious, in plain sentences.

Each check is a function of the figures that gives sentences or none. They are rules of thumb: a
sentence says what was seen, by how much, and where to look. None of them is proof.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from redqueen.report.run_view import mean, quarter

Level = Literal["fact", "good", "warning"]
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sentence:
    level: Level
    text: str
    section: str
    """Where in the report to look."""


def tell(figures: Figures) -> list[Sentence]:
    """Facts first, then what went well, then what looks suspicious. Where problems are fixed ones,
    nothing is said of teachers."""
    checks = (
        CHECKS if figures["invented"] else [check for check in CHECKS if check not in OF_TEACHERS]
    )
    found = [sentence for check in checks for sentence in check(figures)]
    return sorted(found, key=lambda sentence: ("fact", "good", "warning").index(sentence.level))


def _line(figures: Figures, name: str) -> list[float | None]:
    found: list[float | None] = figures["metrics"].get(name, [])
    return found


def _ends(figures: Figures, name: str) -> tuple[float, float] | None:
    """The mean over the first and over the last quarter of a metric."""
    first, last = quarter(_line(figures, name), "first"), quarter(_line(figures, name), "last")
    return None if first is None or last is None else (first, last)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"


def how_far(figures: Figures) -> Iterator[Sentence]:
    counts, done, wanted = figures["counts"], figures["steps_done"], figures["steps_wanted"]
    of = f" of {wanted}" if wanted else ""
    played = f"{done}{of} steps were played" + (
        " so far: the run is going on" if figures["active"] else ""
    )
    yield Sentence(
        "fact",
        f"{played}. {counts['proposals']:,} proposals became {counts['problems']:,} problems; "
        f"{counts['attempts']:,} attempts at them gave {counts['correct']:,} right answers.",
        "race",
    )
    ended = figures["ended"]
    if ended and ended != "all steps played":
        yield Sentence("warning", f"The run ended early: {ended}", "race")
    elif not ended and not figures["active"] and wanted and done < wanted:
        yield Sentence(
            "warning",
            f"The run was stopped before its end, after step {done} of {wanted}. `redqueen resume` goes on with it.",
            "race",
        )


def harder(figures: Figures) -> Iterator[Sentence]:
    index = figures["complexity_index"]
    solved = _ends(figures, "solve/pass_rate")
    if figures["steps_done"] < 4 or not index or solved is None:
        if figures["steps_done"] < 4:
            yield Sentence("fact", "The run is too short for trends.", "race")
        return
    first, last = quarter(index, "first"), quarter(index, "last")
    if first is None or last is None:
        return
    change = last / first - 1
    how = (
        "about as complex as at the beginning"
        if abs(change) < 0.05
        else f"{_percent(abs(change))} {'more' if change > 0 else 'less'} complex"
    )
    move = solved[1] - solved[0]
    and_so = "stayed near" if abs(move) < 0.03 else "rose to" if move > 0 else "fell to"
    yield Sentence(
        "good" if change >= 0.05 and move > -0.1 else "fact",
        f"In the last quarter problems were {how}, and the solve rate {and_so} {_percent(solved[1])} (first quarter: {_percent(solved[0])}).",
        "race",
    )


def extreme_solve_rate(figures: Figures) -> Iterator[Sentence]:
    ends = _ends(figures, "solve/pass_rate")
    if ends is None:
        return
    if ends[1] > 0.95:
        yield Sentence(
            "warning",
            f"Students solve {_percent(ends[1])} of the attempts at the end: the problems teach them little, or an answer is given away.",
            "race",
        )
    if ends[1] < 0.05:
        yield Sentence(
            "warning",
            f"Students solve only {_percent(ends[1])} of the attempts at the end: there is hardly a reward to learn from.",
            "race",
        )
    unsolved = _ends(figures, "solve/zero_pass_frac")
    if unsolved and unsolved[1] > 0.5:
        yield Sentence(
            "warning",
            f"{_percent(unsolved[1])} of the problems are solved by no attempt at the end.",
            "complexity",
        )
    trivial = _ends(figures, "solve/all_pass_frac")
    if trivial and trivial[1] > 0.6:
        yield Sentence(
            "warning",
            f"{_percent(trivial[1])} of the problems are solved by every attempt at the end.",
            "complexity",
        )


def validity(figures: Figures) -> Iterator[Sentence]:
    ends = _ends(figures, "verify/valid_frac")
    if ends and ends[1] < ends[0] - 0.15:
        yield Sentence(
            "warning",
            f"Fewer proposals are valid: {_percent(ends[0])} in the first quarter, {_percent(ends[1])} in the last.",
            "rejections",
        )
    elif ends and ends[1] < 0.5:
        yield Sentence(
            "warning",
            f"Only {_percent(ends[1])} of the proposals are valid at the end.",
            "rejections",
        )


def form(figures: Figures) -> Iterator[Sentence]:
    totals, proposals = figures["rejections"]["totals"], figures["rejections"]["proposals"]
    if proposals and totals.get("duplicate", 0) / proposals > 0.15:
        yield Sentence(
            "warning",
            f"{_percent(totals['duplicate'] / proposals)} of all proposals repeat a problem that was posed before.",
            "rejections",
        )
    if proposals and figures["counts"]["cut"] / proposals > 0.1:
        yield Sentence(
            "warning",
            f"{_percent(figures['counts']['cut'] / proposals)} of the proposals ended because they were too long.",
            "rejections",
        )
    malformed = _ends(figures, "solve/malformed_frac")
    if malformed and malformed[1] > 0.2:
        yield Sentence(
            "warning",
            f"{_percent(malformed[1])} of the attempts cannot be read at the end.",
            "race",
        )


def novelty(figures: Figures) -> Iterator[Sentence]:
    found = figures["novelty"]
    if found["problems"] < 40:
        return
    again = found["again"]
    yield Sentence(
        "fact",
        f"Of {found['problems']:,} invented problems {_percent(again['structure'])} repeat an earlier program with another input, "
        f"and {_percent(again['behaviour'])} behave like an earlier one.",
        "coverage",
    )
    behaviours, programs = found["lines"]["behaviour"], found["lines"]["structure"]
    first, last = quarter(behaviours, "first"), quarter(behaviours, "last")
    if first is not None and last is not None and last > 0.8:
        yield Sentence(
            "warning",
            f"Coverage has stalled: {_percent(last)} of the last quarter's programs behave like one that was there before.",
            "coverage",
        )
    repeated = quarter(programs, "last")
    if repeated is not None and repeated > 0.3:
        yield Sentence(
            "warning",
            f"{_percent(repeated)} of the last quarter's programs were posed before, with another input.",
            "coverage",
        )
    cells, shapes = _line(figures, "coverage/cells"), _line(figures, "coverage/behaviours")
    if len(cells) > 8 and _growth(cells) > 1.2 and _growth(shapes) < 1.05:
        yield Sentence(
            "warning",
            "Programs take new structures but behave as before: what looks like diversity may be elaboration.",
            "coverage",
        )


def _growth(line: list[float | None]) -> float:
    """How much more there is at the end than at half-time."""
    found = [value for value in line if value]
    return found[-1] / found[len(found) // 2] if found else 1.0


def templates(figures: Figures) -> Iterator[Sentence]:
    found = figures["templates"]
    if found["looked_at"] < 40:
        return
    first, last = quarter(found["within"], "first"), quarter(found["within"], "last")
    if last is not None and last > 0.1:
        yield Sentence(
            "warning",
            f"Teachers use few templates: two programs of one teacher have the same one in {_percent(last)} of the cases at the end"
            + (f" ({_percent(first)} in the first quarter)." if first is not None else "."),
            "coverage",
        )
    elif first and last and last > 3 * first and last > 0.02:
        yield Sentence(
            "warning",
            f"Teachers drift to fewer templates: repeats went from {_percent(first)} to {_percent(last)}.",
            "coverage",
        )


def collapse(figures: Figures) -> Iterator[Sentence]:
    for role in ("teacher", "student"):
        apart, least = (
            _line(figures, f"population/distance/{role}"),
            _line(figures, f"population/least_distance/{role}"),
        )
        now, nearest = quarter(apart, "last"), quarter(least, "last")
        if now and nearest is not None and nearest < 0.05 * now:
            yield Sentence(
                "warning",
                f"Two {role}s are nearly one: their distance is {_percent(nearest / now)} of the mean distance.",
                "similarity",
            )
        most = max((value for value in apart if value is not None), default=0.0)
        if most and now is not None and now < 0.4 * most:
            yield Sentence(
                "warning",
                f"The {role}s have come close to each other: {_percent(now / most)} of their largest mean distance.",
                "similarity",
            )
    for name, who in (("propose/nll", "Teachers"), ("solve/nll", "Students")):
        ends = _ends(figures, name)
        if ends and len(_line(figures, name)) >= 8 and ends[0] > 0.05 and ends[1] < 0.3 * ends[0]:
            yield Sentence(
                "warning",
                f"{who} write with little chance left: surprise per token fell from {ends[0]:.2f} to {ends[1]:.2f}.",
                "similarity",
            )


def thinking(figures: Figures) -> Iterator[Sentence]:
    for name in figures["metrics"]:
        if not name.startswith("solve/reasoning_frac/"):
            continue
        ends, kind = _ends(figures, name), name.rpartition("/")[2]
        if ends and abs(ends[1] - ends[0]) > 0.1:
            how = "more" if ends[1] > ends[0] else "less"
            said = f"Students think {how} before they answer {kind}"
            yield Sentence(
                "fact",
                f"{said}: {_percent(ends[0])} of the answers at first, {_percent(ends[1])} at the end.",
                "complexity",
            )


def evolution(figures: Figures) -> Iterator[Sentence]:
    children = [one for one in figures["members"] if one["born"] > 0]
    every = figures["evolve_every"]
    if not children and every and figures["steps_done"] >= every:
        yield Sentence(
            "warning",
            f"Members were to be replaced every {every} steps, but none was: evolve.share of so few members is less than one.",
            "family",
        )
    elif not children and figures["steps_done"] > 20:
        yield Sentence("fact", "No member was replaced: this run had no evolution.", "family")
    if not children:
        return
    alive = sum(one["died"] is None for one in children)
    yield Sentence(
        "fact",
        f"{len(children)} members were replaced by children; {alive} of these are alive.",
        "family",
    )
    young, dead = figures["culled_young"]
    if dead >= 4 and young / dead > 0.5:
        yield Sentence(
            "warning",
            f"{young} of the {dead} children that died went at the first replacement after their birth: newborns are not given time.",
            "family",
        )


def balance(figures: Figures) -> Iterator[Sentence]:
    won = figures["counts"]["student_won"]
    rated = figures["counts"]["rated"]
    if rated >= 20 and not 0.1 <= won / rated <= 0.9:
        strong, weak = ("students", "teachers") if won / rated > 0.5 else ("teachers", "students")
        share = max(won, rated - won) / rated
        yield Sentence(
            "warning",
            f"The race is one-sided: {strong} win {_percent(share)} of the matches against {weak}.",
            "race",
        )


def held_out(figures: Figures) -> Iterator[Sentence]:
    for suite in figures["suites"]:
        together = suite["students"]
        if not together or not together["gain"]:
            continue
        gain, low, high = (100 * value for value in together["gain"])
        said = f"{gain:+.1f} points [{low:+.1f}, {high:+.1f}]"
        if low > 0:
            yield Sentence(
                "good",
                f"On {suite['suite']} the students have on average more right than the base: {said}.",
                "scores",
            )
        elif high < 0:
            yield Sentence(
                "warning",
                f"On {suite['suite']} the students have on average fewer right than the base: {said}.",
                "scores",
            )
        else:
            yield Sentence(
                "fact",
                f"On {suite['suite']} no difference between the students and the base can be told: {said}.",
                "scores",
            )


def over_time(figures: Figures) -> Iterator[Sentence]:
    """Problems of earlier teachers: the last students beside the students of that time."""
    found = {
        (students, problems): right / n
        for students, problems, n, right in figures["crossplay"]["cells"]
        if n
    }
    last = max(figures["crossplay"]["students"], default=0)
    moves = [
        found[last, time] - found[time, time]
        for time in figures["crossplay"]["problems"]
        if time < last and (time, time) in found and (last, time) in found
    ]
    moved = mean(moves)
    if moved is None:
        return
    told = f"Of what earlier teachers posed, the last students solve {100 * moved:+.0f} points beside the students of that time"
    yield Sentence(
        "good" if moved > 0.03 else "warning" if moved < -0.03 else "fact",
        told + (": they forget." if moved < -0.03 else "."),
        "matrix",
    )


def training(figures: Figures) -> Iterator[Sentence]:
    gap = quarter(figures["updates"].get("logprob_gap", []), "last")
    if gap is not None and gap > 0.05:
        yield Sentence(
            "warning",
            f"Training and sampling disagree: log-probabilities of the same tokens differ by {gap:.2g} on average.",
            "timings",
        )
    for stage, seconds, waited in figures["timings"]["totals"]:
        if seconds and waited and waited / seconds > 0.5 and seconds > 30:
            yield Sentence(
                "warning",
                f"{_percent(waited / seconds)} of the stage '{stage}' were spent waiting for the sandbox.",
                "timings",
            )


def specialists(figures: Figures) -> Iterator[Sentence]:
    cells = figures["students_by_kind"]
    spreads = []
    for number, kind in enumerate(cells["kinds"]):
        rates = [solved / n for _, at, n, solved in cells["cells"] if at == number and n >= 20]
        if len(rates) > 1:
            spreads.append((max(rates) - min(rates), kind))
    if spreads and max(spreads)[0] > 0.25:
        spread, kind = max(spreads)
        yield Sentence(
            "fact",
            f"Students differ most on {kind}: {100 * spread:.0f} points between the best and the weakest (not at the same problems).",
            "members",
        )
    kappas = [
        pair[3]
        for suite in figures["suites"]
        for pair in suite["agreement"]["pairs"]
        if pair[3] is not None
    ]
    agreed = mean(kappas)
    if agreed is not None and agreed > 0.95:
        yield Sentence(
            "warning",
            f"Students answer almost alike (kappa {agreed:.2f}): the population is hardly more than one student.",
            "members",
        )


CHECKS: tuple[Callable[[Figures], Iterator[Sentence]], ...] = (
    how_far, harder, thinking, evolution, held_out, over_time, specialists, extreme_solve_rate, balance, validity, form, novelty, templates,
    collapse, training,
)  # fmt: skip
OF_TEACHERS = (validity, form, novelty, templates, balance, harder)
