"""Checks of the run as a whole: progress, evolution, diversity, training."""

from collections.abc import Iterator

from redqueen.report.findings.finding import (
    LEAST_STEPS,
    Figures,
    Finding,
    fact,
    metric,
    percent,
    quarter_means,
    warning,
)
from redqueen.report.run_view import quarter_mean


def progress(figures: Figures) -> Iterator[Finding]:
    counts, done, wanted = figures["counts"], figures["steps_done"], figures["steps_wanted"]
    of_wanted = f" of {wanted}" if wanted else ""
    running = " so far; the run is still going" if figures["active"] else ""
    yield fact(
        "race",
        f"{done}{of_wanted} steps were played{running}. {counts['proposals']:,} proposals gave "
        f"{counts['problems']:,} problems; {counts['correct']:,} of {counts['attempts']:,} "
        "attempts at them were correct.",
    )
    ended = figures["ended"]
    if "(stop.tokens=" in ended:
        yield fact("race", f"The world ended as planned, {ended}")
    elif ended and ended != "all steps played":
        yield warning("race", f"The run ended early: {ended}")
    elif not ended and not figures["active"] and wanted and done < wanted:
        yield warning(
            "race",
            f"The run was stopped after step {done} of {wanted}. Continue it with "
            "`redqueen resume`.",
        )


def verified_again(figures: Figures) -> Iterator[Finding]:
    again = figures.get("verified_again")
    if again is None:
        return
    different = len(again["disagreements"])
    say = warning if different else fact
    yield say(
        "problems",
        f"Verified again, {different:,} of {again['problems']:,} problems have another verdict "
        "than the recorded one.",
    )


def evolution(figures: Figures) -> Iterator[Finding]:
    children = [member for member in figures["members"] if member["born"] > 0]
    every, done = figures["evolve_every"], figures["steps_done"]
    if not children and every and done >= every:
        yield warning(
            "lineage",
            f"No member was replaced, though evolve.every={every}: evolve.share of so few members "
            "is less than one.",
        )
    elif not children and done > 20:
        yield fact("lineage", "No member was replaced: this run had no evolution.")
    if not children:
        return
    alive = sum(child["died"] is None for child in children)
    yield fact(
        "lineage", f"{len(children)} members were replaced by children; {alive} of them are alive."
    )
    early, dead = figures["early_deaths"]
    if dead >= 4 and early / dead > 0.5:
        yield warning(
            "lineage",
            f"{early} of the {dead} children that died did so at the first replacement after "
            "their birth: newborns get no time to prove themselves.",
        )


LEAST_RANKINGS = 3
"""With fewer, a rank correlation of a handful of students is chance."""
_SKILLS = {"exam": "in the exam", "held-out": "on held-out problems"}


def fitness(figures: Figures) -> Iterator[Finding]:
    """What selection goes by. The other rank correlations are in the figure."""
    for one in figures["selection"]["correlations"]:
        measure, _, skill = one["name"].partition(", ")
        if measure != "fitness" or one["rankings"] < LEAST_RANKINGS:
            continue
        follows = one["value"] >= 0.1
        say = fact if follows else warning
        how = "better" if follows else "hardly better"
        yield say(
            "lineage",
            f"Students of higher fitness do {how} {_SKILLS[skill]} (rank correlation "
            f"{one['value']:+.2f}, mean of {one['rankings']} rankings)"
            + ("." if follows else ": selection hardly follows skill."),
        )


def collapse(figures: Figures) -> Iterator[Finding]:
    if figures["steps_done"] < LEAST_STEPS:
        return
    for role in ("teacher", "student"):
        distances = metric(figures, f"population/distance/{role}")
        now = quarter_mean(distances, "last")
        least = quarter_mean(metric(figures, f"population/least_distance/{role}"), "last")
        if now and least is not None and least < 0.05 * now:
            yield warning(
                "similarity",
                f"Two {role}s are nearly identical: their distance is {percent(least / now)} of "
                "the mean distance.",
            )
        most = max((value for value in distances if value is not None), default=0.0)
        if most and now is not None and now < 0.4 * most:
            yield warning(
                "similarity",
                f"The {role}s have converged: their mean distance is {percent(now / most)} of "
                "its maximum.",
            )
    for name, who in (("propose/nll", "teachers"), ("solve/nll", "students")):
        nll = quarter_means(metric(figures, name))
        if nll and nll[0] > 0.05 and nll[1] < 0.3 * nll[0]:
            yield warning(
                "similarity",
                f"The {who}' sampling has little entropy left: the mean NLL per token fell from "
                f"{nll[0]:.2f} to {nll[1]:.2f}.",
            )


def training(figures: Figures) -> Iterator[Finding]:
    gap = quarter_mean(figures["updates"].get("logprob_gap", []), "last")
    if gap is not None and gap > 0.05:
        yield warning(
            "timings",
            "Training and sampling disagree: their log-probabilities of the same tokens differ by "
            f"{gap:.2g} on average.",
        )
    for stage, seconds, waited in figures["timings"]["totals"]:
        if seconds and waited and waited / seconds > 0.5 and seconds > 30:
            yield warning(
                "timings",
                f"The stage '{stage}' spent {percent(waited / seconds)} of its time waiting for "
                "the sandbox.",
            )
