"""What problems look like, whatever they are about: the figures that drift monitors watch.

A population drifts where its problems change their looks and not their difficulty: answers that are
nearly always 0, answers that stand in the prompt, one program in many dresses. None of it is proof;
each number is worth a look at the problems behind it.
"""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

Surface = Mapping[str, float | str]

TRIVIAL = frozenset(("0", "0.0", "''", '""', "[]", "()", "{}", "None", "True", "False"))
"""Answers that are right too often to be worth knowing."""
WATCHED = frozenset(
    "answer_echo answer_length answer_shown answer_top answer_trivial answer_type_top "
    "constant_texts constants first_argument_top foreign length message_tells names "
    "outputs_equal".split()
)
"""What kinds of this package are measured by, as `drift/NAME/KIND`."""
_MOST_CHARS = 200
_LEAST_CHARS = 3
"""A shorter answer stands in any text."""
_LETTER = re.compile(r"[^\W\d_]")


def describe_surface(given: Sequence[tuple[str, str]], answer: str) -> dict[str, float | str]:
    """Of what a student is shown, and of the gold answer."""
    shown = "\n".join(text for _, text in given)
    return {
        "length": len(shown),
        "answer": answer[:_MOST_CHARS],
        "answer_length": len(answer),
        "answer_trivial": float(answer in TRIVIAL),
        "answer_shown": float(is_shown(answer, shown)),
    }


def is_shown(answer: str, shown: str) -> bool:
    """Whether an answer stands in a text, as a whole and not as a part of a word."""
    start = shown.find(answer) if len(answer) >= _LEAST_CHARS else -1
    while start >= 0:
        before, after = shown[max(0, start - 1) : start], shown[start + len(answer) :][:1]
        if not (_joins(before, answer[0]) or _joins(answer[-1], after)):
            return True
        start = shown.find(answer, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    return left.isalnum() and right.isalnum()


def summarize(surfaces: Iterable[Surface]) -> dict[str, float]:
    """Means of the numbers; of texts the share that the commonest has, as `..._top`, where there
    are two or more."""
    numbers: dict[str, list[float]] = defaultdict(list)
    texts: dict[str, list[str]] = defaultdict(list)
    for surface in surfaces:
        for name, value in surface.items():
            if isinstance(value, str):
                texts[name].append(value)
            else:
                numbers[name].append(value)
    summary = {name: statistics.fmean(values) for name, values in numbers.items()}
    for name, values in texts.items():
        if len(values) > 1:
            summary[f"{name}_top"] = Counter(values).most_common(1)[0][1] / len(values)
    return summary


def measure_drift(
    surfaces: Sequence[tuple[str, Surface]], texts: Mapping[str, Iterable[str]]
) -> dict[str, float]:
    """Metrics of a step: `drift/WHAT/KIND` from the surfaces of its problems by kind, and
    `drift/foreign/ROLE` from what models wrote, by role."""
    metrics: dict[str, float] = {}
    for kind in sorted({kind for kind, _ in surfaces}):
        own = [surface for of, surface in surfaces if of == kind]
        metrics |= {f"drift/{name}/{kind}": value for name, value in summarize(own).items()}
    for role, written in texts.items():
        if (share := foreign_letters(written)) is not None:
            metrics[f"drift/foreign/{role}"] = share
    return metrics


def foreign_letters(texts: Iterable[str]) -> float | None:
    """The share of characters that are letters but not ASCII; None without any text. A chat base
    that changes its language shows it here."""
    characters = foreign = 0
    for text in texts:
        characters += len(text)
        if not text.isascii():
            foreign += sum(not letter.isascii() for letter in _LETTER.findall(text))
    return foreign / characters if characters else None
