"""What a reader asks first, with short answers: did the students get better, was there something to
learn, did the problems get harder, did the population win anything? And what to do next.

An answer says no more than its interval does, and a run by itself cannot say that a population is
better than a single agent: nothing else was played at the same cost.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from redqueen.evaluate.replies import FORCED, SOUP
from redqueen.report.findings.finding import (
    LEAST_STEPS,
    Figures,
    keeps_up,
    metric,
    percent,
    quarter_means,
)

Measured = Mapping[str, Any]
Level = Literal["good", "bad", "open"]


@dataclass(frozen=True, slots=True)
class Answer:
    question: str
    answer: str
    note: str
    """What it rests on."""
    level: Level
    section: str
    """Where in the report to look."""


def list_answers(figures: Figures) -> list[Answer]:
    """The last one is about the population: a page of several worlds leaves it to a comparison."""
    answers = [learned(figures)]
    if figures["has_teachers"]:
        answers += [engaged(figures), harder(figures)]
    return [*answers, population(figures)]


def learned(figures: Figures) -> Answer:
    """By what the run hands over: the soup, else the mean student."""
    question, where = "Did the students get better?", "scores"
    found = handed_over(figures)
    if found is None:
        why = (
            "A run measures at its end." if figures["active"] else "Measure it: redqueen eval RUN."
        )
        return Answer(question, "Not measured", why, "open", where)
    suite, who, gain = found
    value, low, high = (100 * one for one in gain)
    note = (
        f"{who} on {suite['suite']}: {value:+.1f} points over the base [{low:+.1f}, {high:+.1f}] "
        "(95 % over items; one seed)"
    )
    if high < 0:
        return Answer(question, "No, worse", f"{note}.", "bad", where)
    if low <= 0:
        return Answer(question, "Not shown", f"{note}, which includes zero.", "open", where)
    forced = next((one for one in suite.get("products", ()) if one["subject"] == FORCED), None)
    if forced and forced["gain"] and 100 * forced["gain"][0] >= value:
        more = f"; but the base gains {100 * forced['gain'][0]:+.1f} if it is made to reason first"
        return Answer(question, f"By {value:.1f} points", f"{note}{more}.", "open", where)
    return Answer(question, f"By {value:.1f} points", f"{note}.", "good", where)


def engaged(figures: Figures) -> Answer:
    """Only problems that are solved sometimes tell correct answers from wrong ones."""
    question, where = "Was there something to learn?", "complexity"
    race = figures["race"]
    if race is None:
        early = figures["active"] or not figures["steps_done"]
        level: Level = "open" if early else "bad"
        return Answer(
            question,
            "Too early to tell" if early else "No",
            "No problem was attempted.",
            level,
            where,
        )
    sometimes, never, always = (
        percent(race[name]) for name in ("solved_sometimes", "zero_pass", "all_pass")
    )
    note = (
        f"{sometimes} of the last quarter's problems were solved sometimes (only these teach), "
        f"{never} never, {always} always."
    )
    if figures["steps_done"] < LEAST_STEPS:
        return Answer(question, "Too early to tell", note, "open", where)
    if race["solved_sometimes"] >= 0.5:
        return Answer(question, "Yes", note, "good", where)
    if race["disengaged"]:
        return Answer(question, "Little", note, "bad", where)
    return Answer(question, "Some", note, "open", where)


def harder(figures: Figures) -> Answer:
    question, where = "Did the problems get harder?", "race"
    index = quarter_means(figures["complexity_index"])
    solved = quarter_means(metric(figures, "solve/pass_rate"))
    if figures["steps_done"] < LEAST_STEPS or index is None or solved is None or not index[0]:
        return Answer(question, "Too early to tell", "It takes eight steps.", "open", where)
    growth = index[1] / index[0] - 1
    note = (
        f"Complexity {100 * growth:+.0f} %, solve rate from {percent(solved[0])} to "
        f"{percent(solved[1])}, first quarter to last."
    )
    if growth < 0.05:
        return Answer(question, "No" if growth > -0.05 else "No, easier", note, "open", where)
    kept_up = keeps_up(*solved)
    words = "Yes, and students kept up" if kept_up else "Yes; students fell behind"
    return Answer(question, words, note, "good" if kept_up else "open", where)


def population(figures: Figures) -> Answer:
    question, where = "Did the population win anything?", "scores"
    students = [
        one for one in figures["members"] if one["role"] != "teacher" and one["died"] is None
    ]
    if len(students) < 2:
        note = "This run is of one student: compare it with a population at equal cost."
        return Answer(question, "There is none", note, "open", where)
    merging = "".join(_merging(figures))
    note = f"{merging}No single agent played at equal cost: redqueen compare RUN OTHER tests it."
    return Answer(question, "Not tested here", note, "open", where)


def _merging(figures: Figures) -> Iterator[str]:
    """What the soup has over the mean student, where that is clear of zero."""
    found = handed_over(figures)
    gain = found and found[0].get("soup_over_mean")
    if gain and (gain[1] > 0 or gain[2] < 0):
        value, low, high = (100 * one for one in gain)
        yield f"The soup is {value:+.1f} points [{low:+.1f}, {high:+.1f}] from its mean student. "


def handed_over(figures: Figures) -> tuple[Measured, str, list[float]] | None:
    """A suite, what the run hands over, and its gain over the base. The suite is the one that the
    run names, else the first that was measured."""
    named = json.loads(figures.get("settings", {}).get("evaluate.suite", ['""'])[0])
    suites = sorted(figures["suites"], key=lambda suite: suite["suite"] != named)
    for suite in suites:
        soup = next((one for one in suite.get("products", ()) if one["subject"] == SOUP), None)
        for who, measured in (("The soup", soup), ("The mean student", suite["students"])):
            if measured and measured["gain"]:
                return suite, who, measured["gain"]
    return None


def next_steps(figures: Figures) -> list[tuple[str, str]]:
    """Commands, and what for. RUN stands for the folder of the run."""
    if figures["active"]:
        return [("redqueen watch RUN", "this page, as the run goes on")]
    steps, done, wanted = [], figures["steps_done"], figures["steps_wanted"]
    kinds = figures["students_by_kind"]["kinds"]
    is_code = bool(kinds) and all(kind.startswith("code_") for kind in kinds)
    if wanted and done < wanted and not figures["ended"]:
        steps.append(("redqueen resume RUN", f"play the {wanted - done} steps that are left"))
    found = handed_over(figures)
    if found is None:
        why = "measure the students on problems that nobody was trained on"
        steps.append((f"redqueen eval RUN --suite {'heldout-quick' if is_code else 'NAME'}", why))
    elif found[2][1] <= 0 <= found[2][2]:
        why = "more problems, for a narrower interval"
        steps.append((f"redqueen eval RUN --suite {'heldout' if is_code else 'NAME'}", why))
    steps.append(
        ("redqueen compare RUN OTHER", "against other rules; several seeds of each make it a test")
    )
    if done >= LEAST_STEPS:
        command = f"redqueen fork RUN --set steps={2 * done} --set NAME=VALUE"
        steps.append((command, "go on from here with other settings"))
    return steps
