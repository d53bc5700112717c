"""Checks of what problems look like: the usual hacks, and drift away from what they were."""

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

LEAST_PROBLEMS = 40
"""Of the last quarter and one kind: fewer say nothing about shares."""
_HACKS = {
    "answer_trivial": (0.5, "have a trivial answer, such as 0, [] or True"),
    "answer_shown": (0.5, "show their answer"),
    "answer_echo": (0.1, "have an output equal to the input"),
    "message_tells": (0.1, "have a message that contains a line of the program"),
    "outputs_equal": (0.2, "have the same output for every input"),
}
"""Shares above which problems of one kind look suspicious."""
_COMMON_ANSWER = 0.3
_REUSE = 5
_FOREIGN = 0.05


def hacks(figures: Figures) -> Iterator[Finding]:
    drift = figures["drift"]
    for row in drift["rows"]:
        name, kind = row["name"], row["kind"]
        if name not in _HACKS or row["problems"] < LEAST_PROBLEMS:
            continue
        most, what = _HACKS[name]
        before = row["first"] or 0.0
        if row["last"] > most:
            examples = drift["flagged"].get(kind, {}).get(name, [])
            yield warning(
                "drift",
                f"{percent(row['last'])} of the {kind} problems of the last quarter {what} (first "
                f"quarter: {percent(before)}){_such_as(examples)}.",
            )


def answers(figures: Figures) -> Iterator[Finding]:
    for one in figures["drift"]["answers"]:
        if one["problems"] >= LEAST_PROBLEMS and one["share"] > _COMMON_ANSWER:
            yield warning(
                "drift",
                f"{percent(one['share'])} of the {one['kind']} problems of the last quarter have "
                f"the same answer, {one['answer'][:30]}{_such_as(one['examples'])}: it can be "
                "guessed.",
            )


def reuse(figures: Figures) -> Iterator[Finding]:
    for row in figures["drift"]["reuse"]:
        if row["problems"] >= LEAST_PROBLEMS and row["problems"] > _REUSE * row["structures"]:
            yield warning(
                "drift",
                f"{row['problems']:,} {row['kind']} problems rest on {row['structures']:,} "
                "structures: the same ones come again with other values.",
            )


def held_out_copies(figures: Figures) -> Iterator[Finding]:
    near = figures["drift"]["heldout"]
    if near and near["near"]:
        share = near["near"] / near["problems"]
        say = warning if share > 0.02 else fact
        yield say(
            "drift",
            f"{near['near']:,} of {near['problems']:,} problems of the last quarter nearly repeat "
            f"an item of {near['suite']}{_such_as(near['examples'])}.",
        )


def language_and_length(figures: Figures) -> Iterator[Finding]:
    for role, stage in (("teacher", "propose"), ("student", "solve")):
        foreign = quarter_means(metric(figures, f"drift/foreign/{role}"))
        if foreign and foreign[1] > foreign[0] + _FOREIGN:
            yield warning(
                "drift",
                f"{percent(foreign[1])} of what {role}s write at the end are letters that are not "
                f"ASCII (first quarter: {percent(foreign[0])}): the language drifts.",
            )
        length = quarter_means(metric(figures, f"{stage}/length"))
        if length and length[0] and length[1] > 2.5 * length[0]:
            yield warning(
                "drift",
                f"What {role}s write has grown from {length[0]:.0f} to {length[1]:.0f} tokens.",
            )


def shortcuts(figures: Figures) -> Iterator[Finding]:
    """Only where the probe was measured."""
    for suite in figures["suites"]:
        gain = suite["students"] and suite["students"]["gain"]
        if suite["suite"].endswith("shortcut") and gain and gain[1] > 0:
            yield warning(
                "scores",
                f"With spoilt evidence students are correct {100 * gain[0]:+.1f} points more often "
                "than the base: they have learned to guess.",
            )


def _such_as(keys: list[str]) -> str:
    return f", such as {', '.join(keys)}" if keys else ""
