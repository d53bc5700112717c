"""Checks of what students answer: solve rate, form, reasoning, scores, forgetting."""

from collections.abc import Iterator, Mapping
from typing import Any

from redqueen.evaluate.replies import SOUP
from redqueen.report.findings.finding import (
    LEAST_STEPS,
    Figures,
    Finding,
    fact,
    metric,
    percent,
    quarter_means,
    tail_mean,
    warning,
)
from redqueen.report.run_view import mean


def unsolved(figures: Figures) -> Iterator[Finding]:
    for name, what, most in (("zero", "zero-pass", 0.45), ("all", "all-pass", 0.6)):
        line = metric(figures, f"solve/{name}_pass_frac")
        quarters, tail = quarter_means(line), tail_mean(line)
        last = max(quarters[1] if quarters else 0.0, tail or 0.0)
        if last > most:
            yield warning("complexity", f"{percent(last)} of the problems at the end are {what}.")


def solve_rate(figures: Figures) -> Iterator[Finding]:
    solved = quarter_means(metric(figures, "solve/pass_rate"))
    if solved is None:
        return
    if solved[1] > 0.95:
        yield warning(
            "race",
            f"The solve rate ends at {percent(solved[1])}: the problems are too easy to learn "
            "from, or they leak their answers.",
        )
    if solved[1] < 0.05:
        yield warning(
            "race",
            f"The solve rate ends at {percent(solved[1])}: there is almost no reward signal.",
        )
    for kind, share in _by_kind(figures, "solve/pass_rate/").items():
        if share[1] < 0.05 < solved[1] and share[1] < share[0]:
            yield warning(
                "complexity",
                f"The solve rate of {kind} ends at {percent(share[1])} (first quarter: "
                f"{percent(share[0])}).",
            )


def reward(figures: Figures) -> Iterator[Finding]:
    """Of students: below zero, malformed answers cost more than correct ones earn."""
    line = metric(figures, "reward/student")
    last = tail_mean(line)
    if last is not None and last < 0:
        first = quarter_means(line)
        was = f" (first quarter: {first[0]:+.2f})" if first else ""
        yield warning("race", f"Students end with a negative mean reward, {last:+.2f}{was}.")


def _by_kind(figures: Figures, prefix: str) -> dict[str, tuple[float, float]]:
    """The means over the first and the last quarter of metrics that each kind has."""
    means = {
        name.removeprefix(prefix): quarter_means(line)
        for name, line in figures["metrics"].items()
        if name.startswith(prefix)
    }
    return {kind: pair for kind, pair in means.items() if pair is not None}


def malformed(figures: Figures) -> Iterator[Finding]:
    share = quarter_means(metric(figures, "solve/malformed_frac"))
    if share and share[1] > 0.2:
        yield warning("race", f"{percent(share[1])} of the attempts at the end are malformed.")


def cut_off(figures: Figures) -> Iterator[Finding]:
    """What is cut off cannot be read, and is paid as a mistake."""
    line = metric(figures, "solve/cut_off_frac")
    share = tail_mean(line)
    if share is not None and share > 0.1:
        quarters = quarter_means(line)
        was = f" (first quarter: {percent(quarters[0])})" if quarters else ""
        yield warning(
            "timings",
            f"{percent(share)} of the attempts at the end reach their token limit{was}: they "
            "cannot be read, and count as mistakes. Raise solve.max_tokens.",
        )


def reasoning(figures: Figures) -> Iterator[Finding]:
    for name, line in figures["metrics"].items():
        prefix, _, kind = name.rpartition("/")
        share = quarter_means(line) if prefix == "solve/reasoning_frac" else None
        if share and abs(share[1] - share[0]) > 0.1:
            more = "more" if share[1] > share[0] else "less"
            yield fact(
                "complexity",
                f"Students reason {more} often before answering {kind}: in {percent(share[0])} "
                f"of the attempts at first, in {percent(share[1])} at the end.",
            )


def held_out(figures: Figures) -> Iterator[Finding]:
    for suite in figures["suites"]:
        for who, measured in _handed_over(suite):
            gain, low, high = (100 * value for value in measured["gain"])
            points = f"{gain:+.1f} points [{low:+.1f}, {high:+.1f}]"
            name = suite["suite"]
            if low > 0:
                yield Finding("good", f"On {name}, {who} beats the base: {points}.", "scores")
            elif high < 0:
                yield warning("scores", f"On {name}, {who} falls behind the base: {points}.")
            else:
                yield fact(
                    "scores",
                    f"On {name}, {who} does not differ significantly from the base: {points}.",
                )


def _handed_over(suite: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The mean student and the soup, where they were measured beside the base; a single student is
    its own soup."""
    students = suite["students"] or {"gain": None}
    if students["gain"]:
        yield "the mean student", students
    for product in suite.get("products", ()):
        if product["subject"] == SOUP and product["gain"] not in (None, students["gain"]):
            yield "the soup of the students", product


def forgetting(figures: Figures) -> Iterator[Finding]:
    """The last students beside the students of the time, on problems of earlier teachers."""
    crossplay = figures["crossplay"]
    rates = {
        (students, problems): correct / n
        for students, problems, n, correct in crossplay["cells"]
        if n
    }
    last = max(crossplay["students"], default=0)
    change = mean(
        [
            rates[last, time] - rates[time, time]
            for time in crossplay["problems"]
            if time < last and (time, time) in rates and (last, time) in rates
        ]
    )
    if change is not None:
        yield Finding(
            "good" if change > 0.03 else "warning" if change < -0.03 else "fact",
            f"On problems of earlier teachers, the last students score {100 * change:+.0f} points "
            "against the students of that time" + (": they forget." if change < -0.03 else "."),
            "matrix",
        )


def specialists(figures: Figures) -> Iterator[Finding]:
    by_kind = figures["students_by_kind"]
    spreads = []
    for number, kind in enumerate(by_kind["kinds"]):
        rates = [solved / n for _, at, n, solved in by_kind["cells"] if at == number and n >= 20]
        if len(rates) > 1:
            spreads.append((max(rates) - min(rates), kind))
    if spreads and max(spreads)[0] > 0.25:
        spread, kind = max(spreads)
        where = f"most on {kind}" if len(by_kind["kinds"]) > 1 else "by skill"
        yield fact(
            "members",
            f"Students differ {where}: {100 * spread:.0f} points between the best and the "
            "weakest (on different problems).",
        )
    pairs = [pair for suite in figures["suites"] for pair in suite["agreement"]["pairs"]]
    kappa, same = mean([pair[3] for pair in pairs]), mean([pair[2] for pair in pairs])
    alike = (kappa is not None and kappa > 0.95) or (same is not None and same >= 0.97)
    if alike and same is not None and figures["steps_done"] >= LEAST_STEPS:
        agreed = f"on {percent(same)} of the items" + (
            "" if kappa is None else f", kappa {kappa:.2f}"
        )
        yield warning(
            "members",
            f"Students answer almost identically ({agreed}): the population is hardly more than "
            "one student.",
        )
