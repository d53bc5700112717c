"""Checks of what students answer: solve rate, form, reasoning, scores, forgetting."""

from collections.abc import Iterator

from redqueen.report.findings.finding import (
    Figures,
    Finding,
    fact,
    metric,
    percent,
    quarter_means,
    warning,
)
from redqueen.report.run_view import mean


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
    zero_pass = quarter_means(metric(figures, "solve/zero_pass_frac"))
    if zero_pass and zero_pass[1] > 0.5:
        yield warning(
            "complexity", f"{percent(zero_pass[1])} of the problems at the end are zero-pass."
        )
    all_pass = quarter_means(metric(figures, "solve/all_pass_frac"))
    if all_pass and all_pass[1] > 0.6:
        yield warning(
            "complexity", f"{percent(all_pass[1])} of the problems at the end are all-pass."
        )


def malformed(figures: Figures) -> Iterator[Finding]:
    share = quarter_means(metric(figures, "solve/malformed_frac"))
    if share and share[1] > 0.2:
        yield warning("race", f"{percent(share[1])} of the attempts at the end are malformed.")


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
        if not suite["students"] or not suite["students"]["gain"]:
            continue
        gain, low, high = (100 * value for value in suite["students"]["gain"])
        points = f"{gain:+.1f} points [{low:+.1f}, {high:+.1f}]"
        name = suite["suite"]
        if low > 0:
            yield Finding(
                "good", f"On {name}, the mean student beats the base: {points}.", "scores"
            )
        elif high < 0:
            yield warning("scores", f"On {name}, the mean student falls behind the base: {points}.")
        else:
            yield fact(
                "scores",
                f"On {name}, students do not differ significantly from the base: {points}.",
            )


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
        yield fact(
            "members",
            f"Students differ most on {kind}: {100 * spread:.0f} points between the best and the "
            "weakest (on different problems).",
        )
    pairs = [pair for suite in figures["suites"] for pair in suite["agreement"]["pairs"]]
    kappa = mean([pair[3] for pair in pairs])
    if kappa is not None and kappa > 0.95:
        yield warning(
            "members",
            f"Students answer almost identically (kappa {kappa:.2f}): the population is hardly "
            "more than one student.",
        )
