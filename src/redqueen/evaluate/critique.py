"""How well models judge attempts, on fixed (problem, attempt) pairs: is the answer correct?

`critique` has an attempt at every held-out deduction problem, half of them correct; the wrong ones
are the gold answer with one character changed, and there is no reasoning to read. A file that
`redqueen export --attempts` wrote has attempts as students made them, with their reasoning. Models
are asked as critics are in the game.
"""

import string
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from redqueen.benchmarks import suite
from redqueen.benchmarks.suite import CORRECT, Graders, PromptStyle, Verdict
from redqueen.config.stages import VerifyConfig
from redqueen.errors import DataError
from redqueen.evaluate.heldout import hash_prompts, spread
from redqueen.evaluate.problem_file import read_problem
from redqueen.jsonl import read_jsonl
from redqueen.pawn.heldout import load_suite
from redqueen.records import Problem
from redqueen.rng import stream
from redqueen.tasks import Malformed, RunRules, TaskKind, load_kind, load_kinds
from redqueen.tasks.games.critique import critic_request, read_verdict
from redqueen.tasks.prompts import Prompt

_TRIES = 20


class AttemptSuite(ABC):
    """Pairs of a problem and an attempt. Items hold their `problem`, `reasoning`, `answer` and
    `verdict`."""

    max_tokens = 1024
    note = "Half of the attempts are correct: always saying the same scores 50 %."

    @abstractmethod
    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]: ...

    def prompt_version(self, style: PromptStyle) -> str:
        prompts = (self.prompt(item, style) for item in self.items(None, None))
        return f"{style.prompt_format.name}-{hash_prompts(prompts)}"

    def prompt(self, item: suite.Item, style: PromptStyle) -> Prompt:
        given = item.fields
        kind = load_kind(item.kind)
        request = critic_request(given["problem"], kind, given["reasoning"], given["answer"])
        return style.prompt_format.render(request)

    def grade(
        self,
        items: Sequence[suite.Item],
        replies: Sequence[str],
        style: PromptStyle,
        graders: Graders,
    ) -> list[Verdict]:
        verdicts = []
        for item, reply in zip(items, replies, strict=True):
            said = self.vote_key(item, reply, style)
            reason = f"called {said}" if said else "malformed"
            verdicts.append(CORRECT if said == self.truth(item) else Verdict(False, reason))
        return verdicts

    def truth(self, item: suite.Item) -> str:
        """What a reply should say, as a `vote_key`."""
        return str(item.fields["verdict"])

    def vote_key(self, item: suite.Item, reply: str, style: PromptStyle) -> str:
        try:
            said, _ = read_verdict(style.prompt_format.parse(reply, ("verdict",)))
        except Malformed:
            return ""
        return said


class HeldOutCritique(AttemptSuite):
    name = "critique"
    summary = "is this attempt correct? The wrong ones have one character changed"

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        pairs = []
        for number, item in enumerate(load_suite("heldout")):
            kind = load_kind(item.problem.kind)
            wrong = _spoil(item.problem, kind, stream(0, "critique", number))
            if wrong is not None:
                pairs.append((number, item, wrong))
        chosen = {id(item) for item in spread([item for _, item, _ in pairs], limit)}
        return [
            suite.Item(
                f"{number:04d}",
                attempt_fields(item.problem, "", *(item.problem.gold[0], "correct"))
                if place % 2
                else attempt_fields(item.problem, "", wrong, "wrong"),
                item.problem.kind,
                item.tier,
            )
            for place, (number, item, wrong) in enumerate(
                pair for pair in pairs if id(pair[1]) in chosen
            )
        ]


@dataclass(frozen=True)
class CritiqueFile(AttemptSuite):
    """Attempts of a run, as `redqueen export --attempts` writes them."""

    path: Path
    kinds: Sequence[str] = ()
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", Path(self.path).stem)

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        items = list(self._read())
        if not items:
            raise DataError(f"{self.path} has no attempt")
        if limit is None or limit >= len(items):
            return items
        even = len(items) - len(items) % 2
        places = [place * even // limit for place in range(limit)]
        # correct and wrong ones take turns
        return [items[place - place % 2 + number % 2] for number, place in enumerate(places)]

    def _read(self) -> Iterator[suite.Item]:
        known = {**load_kinds(), **load_kinds(*self.kinds)}
        required = ("kind", "answer", "verdict")
        for number, row in read_jsonl(Path(self.path), required=required):
            where = f"{self.path}, line {number}"
            problem = read_problem(row, known, where)
            texts = row["answer"], row.get("reasoning", "")
            if row["verdict"] not in ("correct", "wrong") or not all(
                isinstance(text, str) for text in texts
            ):
                raise DataError(f"{where}: expected the verdict correct or wrong, and texts")
            fields = attempt_fields(problem, texts[1], texts[0], row["verdict"])
            yield suite.Item(f"{number:05d}", fields, problem.kind)


def holds_attempts(path: Path) -> bool:
    """Whether a file has attempts, and not only problems."""
    rows = read_jsonl(path, required=("kind",))
    return {"answer", "verdict"} <= next((set(row) for _, row in rows), set())


def attempt_fields(
    problem: Problem, reasoning: str, answer: str, verdict: str
) -> dict[str, object]:
    """The fields of an item."""
    return {"problem": problem, "reasoning": reasoning, "answer": answer, "verdict": verdict}


def _spoil(problem: Problem, kind: TaskKind, rng: Random) -> str | None:
    """A wrong answer that looks like the gold one; None where it takes more than a comparison to
    know that it is wrong."""
    rules, gold = RunRules.of(VerifyConfig()), problem.gold[0]
    if len(problem.gold) != 1 or kind.grading(problem, gold, rules) is not None:
        return None
    for _ in range(_TRIES):
        try:
            answer = kind.read_answer([(kind.answer_blocks[0], _change(gold, rng))])
        except Malformed:
            continue
        if not kind.is_correct(problem, answer, None):
            return answer
    return None


def _change(text: str, rng: Random) -> str:
    """One letter or digit becomes another; True and False change places."""
    for word, other in (("True", "False"), ("False", "True")):
        if text == word:
            return other
    changeable = string.digits + string.ascii_letters
    places = [place for place, character in enumerate(text) if character in changeable]
    if not places:
        return text[: len(text) // 2] + "0" + text[len(text) // 2 :]
    place = rng.choice(places)
    letters = string.digits if text[place] in string.digits else string.ascii_lowercase
    return text[:place] + rng.choice(letters.replace(text[place], "")) + text[place + 1 :]
