"""The prompt style that suits a base best: tried on the first items of a suite, which are held
apart from the score."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from redqueen.evaluate.result import EvalResult
    from redqueen.evaluate.runner import EvalTask
    from redqueen.evaluate.targets import Target

Style = Literal["chat", "base"]
_ITEMS = 64
"""Of a trial; at most half of the suite's."""


@dataclass(frozen=True, slots=True)
class StyleTrial:
    """What a style was chosen by: the base's scores on items that are not scored again."""

    best: Style
    items: int
    scores: Mapping[Style, float]

    def to_json(self) -> dict[str, Any]:
        return {"best": self.best, "items": self.items, "scores": dict(self.scores)}

    def __str__(self) -> str:
        scores = ", ".join(f"{style} {100 * score:.1f} %" for style, score in self.scores.items())
        return f"style {self.best}, by the base's first {self.items} items, not scored: {scores}"


def evaluate_in_best_style(
    target: "Target", task: "EvalTask", measure: "Callable[..., EvalResult]"
) -> "EvalResult":
    """`measure` takes a target, a task and a style. Greedy with one reply: the trial is of prompts.
    Where all are equally good it is the chat template, where there is one."""
    styles: tuple[Style, ...] = ("chat", "base") if target.base.has_chat_template else ("base",)
    count = min(_ITEMS, len(task.items) // 2)
    if any(item.kind for item in task.items) or len(styles) == 1 or not count:
        return measure(target, task, style=None)  # task kinds have prompt formats instead
    tried, rest = replace(task, items=task.items[:count]), replace(task, items=task.items[count:])
    base = replace(target.with_models(lambda m: m if m.is_base else None), run=None, votes=False)
    scores: dict[Style, float] = {
        style: measure(base, tried, style=style, samples=1, temperature=0).score for style in styles
    }
    best = max(styles, key=lambda style: scores[style])
    result = measure(target, rest, style=best)
    return replace(result, trial=StyleTrial(best, count, scores))
