"""Checks of what teachers propose: complexity, validity, novelty, templates."""

from collections.abc import Iterator

from redqueen.report.findings.finding import (
    LEAST_STEPS,
    Figures,
    Finding,
    fact,
    keeps_up,
    metric,
    percent,
    quarter_means,
    tail_mean,
    warning,
)
from redqueen.report.run_view import Line, quarter_mean


def complexity(figures: Figures) -> Iterator[Finding]:
    if figures["steps_done"] < LEAST_STEPS:
        yield fact("race", "The run is too short for trends.")
        return
    index = quarter_means(figures["complexity_index"])
    solved = quarter_means(metric(figures, "solve/pass_rate"))
    if index is None or solved is None:
        return
    growth = index[1] / index[0] - 1
    how = f"{percent(abs(growth))} {'more' if growth > 0 else 'less'} complex than in the first"
    if abs(growth) < 0.05:
        how = "about as complex as in the first"
    move = solved[1] - solved[0]
    trend = "stayed near" if abs(move) < 0.03 else "rose to" if move > 0 else "fell to"
    yield Finding(
        "good" if growth >= 0.05 and keeps_up(*solved) else "fact",
        f"In the last quarter, problems were {how}, and the solve rate {trend} "
        f"{percent(solved[1])} (first quarter: {percent(solved[0])}).",
        "race",
    )


def balance(figures: Figures) -> Iterator[Finding]:
    won, rated = figures["counts"]["student_won"], figures["counts"]["rated"]
    if rated >= 20 and not 0.1 <= won / rated <= 0.9:
        winners = "students" if won / rated > 0.5 else "teachers"
        share = max(won, rated - won) / rated
        yield warning("race", f"The race is one-sided: {winners} win {percent(share)} of it.")


def engagement(figures: Figures) -> Iterator[Finding]:
    if race := figures["race"]:
        if race["solved_sometimes"] >= 0.5 and figures["steps_done"] >= LEAST_STEPS:
            yield Finding("good", f"The race is engaged: {race['sentence']}", "complexity")
        elif race["disengaged"] and figures["steps_done"] >= LEAST_STEPS:
            yield warning("complexity", f"The race disengages: {race['sentence']}")
        else:  # too few problems to tell; those of the first steps are the base's
            so_far = " so far" if figures["active"] else ""
            yield fact("complexity", f"The race is engaged in part{so_far}: {race['sentence']}")


def validity(figures: Figures) -> Iterator[Finding]:
    valid = quarter_means(metric(figures, "verify/valid_frac"))
    if valid and valid[1] < valid[0] - 0.15:
        yield warning(
            "rejections",
            f"Fewer proposals are valid: {percent(valid[0])} in the first quarter, "
            f"{percent(valid[1])} in the last.",
        )
    elif valid and valid[1] < 0.5:
        yield warning(
            "rejections", f"Only {percent(valid[1])} of the proposals at the end are valid."
        )
    prefix = "verify/valid_frac/"
    for name, line in figures["metrics"].items():
        share = quarter_means(line) if name.startswith(prefix) else None
        last = tail_mean(line)
        if share and last is not None and last < share[0] - 0.25:
            yield warning(
                "rejections",
                f"Fewer proposals of {name.removeprefix(prefix)} are valid: {percent(share[0])} in "
                f"the first quarter, {percent(last)} in the last steps.",
            )


def voided(figures: Figures) -> Iterator[Finding]:
    if count := figures["rejections"]["totals"].get("voided", 0):
        yield warning(
            "rejections",
            f"{count:,} problems were voided: beside an answer, they no longer gave the answer "
            "that was verified.",
        )


def repeats_and_limits(figures: Figures) -> Iterator[Finding]:
    totals, proposals = figures["rejections"]["totals"], figures["rejections"]["proposals"]
    duplicate, truncated = totals.get("duplicate", 0), figures["counts"]["truncated"]
    if proposals and duplicate / proposals > 0.15:
        yield warning(
            "rejections", f"{percent(duplicate / proposals)} of all proposals are duplicates."
        )
    if proposals and truncated / proposals > 0.1:
        yield warning(
            "rejections",
            f"{percent(truncated / proposals)} of the proposals reached the token limit.",
        )


def novelty(figures: Figures) -> Iterator[Finding]:
    novelty = figures["novelty"]
    if novelty["problems"] < 40:
        return
    repeated, lines = novelty["repeated"], novelty["lines"]
    yield fact(
        "coverage",
        f"Of {novelty['problems']:,} invented problems, {percent(repeated['structure'])} repeat "
        f"an earlier one with other values, and {percent(repeated['behaviour'])} behave like an "
        "earlier one.",
    )
    behaviour = quarter_mean(lines["behaviour"], "last")
    if behaviour is not None and behaviour > 0.8:
        yield warning(
            "coverage",
            f"Coverage has stalled: {percent(behaviour)} of the problems of the last quarter "
            "behave like an earlier one.",
        )
    structure = quarter_mean(lines["structure"], "last")
    if structure is not None and structure > 0.3:
        yield warning(
            "coverage",
            f"{percent(structure)} of the problems of the last quarter repeat an earlier one "
            "with other values.",
        )
    cells, behaviours = metric(figures, "coverage/cells"), metric(figures, "coverage/behaviours")
    if len(cells) > 8 and _late_growth(cells) > 1.2 and _late_growth(behaviours) < 1.05:
        yield warning(
            "coverage",
            "Problems take new structures but behave as before: the diversity may be elaboration.",
        )


def _late_growth(line: Line) -> float:
    """The last value relative to the one at half-time."""
    values = [value for value in line if value]
    return values[-1] / values[len(values) // 2] if values else 1.0


def templates(figures: Figures) -> Iterator[Finding]:
    shared = quarter_means(figures["templates"]["within"])
    if figures["templates"]["programs"] < 40 or shared is None:
        return
    first, last = shared
    if last > 0.1:
        yield warning(
            "coverage",
            f"Teachers rely on few templates: at the end, two programs of one teacher share one "
            f"with probability {percent(last)} (first quarter: {percent(first)}).",
        )
    elif first and last > 3 * first and last > 0.02:
        yield warning(
            "coverage",
            "Teachers drift to fewer templates: the probability that two programs share one went "
            f"from {percent(first)} to {percent(last)}.",
        )
