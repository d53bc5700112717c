"""Attempts at benchmark items: sampled in batches, graded, and written down one by one, so that a kill loses a batch at most."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from redqueen.errors import DataError
from redqueen.evaluate.intervals import Accuracy, mean_interval, paired, pass_at_k
from redqueen.evaluate.suite import Item, Judges, Style, Suite
from redqueen.tasks.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Setting:
    """What an attempt depends on: attempts of another setting are not taken up again."""

    suite: str
    prompt_version: str
    style: Style
    samples: int
    temperature: float
    max_tokens: int
    members: tuple[str, ...]
    """Who attempts, by name: a base alone, or an adapter and its base."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """One reply and its verdict."""

    item: str
    member: str
    sample: int
    reply: str
    right: bool
    reason: str
    truncated: bool
    """It ended at the token limit."""


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt for one member, with the name of its random stream."""

    prompt: Prompt
    member: int
    max_tokens: int
    stream: tuple[str | int, ...]


class Respondent(Protocol):
    """Who is asked: a base, or members on one."""

    @property
    def batch(self) -> int:
        """Questions that are best asked together."""
        ...

    def replies(self, questions: Sequence[Question], temperature: float) -> list[tuple[str, bool]]:
        """Each reply, and whether it was cut off at the limit."""
        ...


def attempt(
    suite: Suite, items: Sequence[Item], setting: Setting, respondent: Respondent, judges: Judges, journal: "Journal", done: Callable[[int], None]
) -> list[Attempted]:
    """Every member's attempts at every item; those in the journal are taken from it."""
    before = {(one.item, one.member, one.sample): one for one in journal.read(setting)}
    wanted = [(item, member, sample) for item in items for member in range(len(setting.members)) for sample in range(setting.samples)]
    keys = [(item.id, setting.members[member], sample) for item, member, sample in wanted]
    done(sum(key in before for key in keys))
    missing = [one for one, key in zip(wanted, keys, strict=True) if key not in before]
    for start in range(0, len(missing), respondent.batch):
        for one in _batch(suite, missing[start : start + respondent.batch], setting, respondent, judges):
            journal.write(setting, one)
            before[one.item, one.member, one.sample] = one
            done(1)
    return [before[key] for key in keys]


def _batch(suite: Suite, wanted: Sequence[tuple[Item, int, int]], setting: Setting, respondent: Respondent, judges: Judges) -> Iterator[Attempted]:
    questions = [
        Question(suite.prompt(item, setting.style), member, setting.max_tokens, ("benchmark", setting.suite, item.id, sample))
        for item, member, sample in wanted
    ]
    replies = respondent.replies(questions, setting.temperature)
    verdicts = suite.grade([item for item, _, _ in wanted], [text for text, _ in replies], setting.style, judges)
    for (item, member, sample), (text, truncated), verdict in zip(wanted, replies, verdicts, strict=True):
        yield Attempted(item.id, setting.members[member], sample, text, verdict.right, verdict.reason, truncated)


class Journal:
    """Attempts in a file, one JSON object a line, only ever appended to. Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def read(self, setting: Setting) -> list[Attempted]:
        if self.path is None or not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").split("\n"):
            try:
                row = json.loads(line)
            except ValueError:  # a kill in the middle of a line: that attempt is made again
                continue
            if row.get("setting") == _as_json(setting):
                found.append(Attempted(**row["attempt"]))
        return found

    def write(self, setting: Setting, attempted: Attempted) -> None:
        if self.path is None:
            return
        line = json.dumps({"setting": _as_json(setting), "attempt": asdict(attempted)})
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(("" if file.tell() == 0 or self._ends_whole() else "\n") + line + "\n")
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror}") from error

    def _ends_whole(self) -> bool:
        assert self.path is not None
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"


def _as_json(setting: Setting) -> dict[str, Any]:
    return {**asdict(setting), "members": list(setting.members)}


def figures(setting: Setting, attempts: Sequence[Attempted], note: str) -> dict[str, Any]:
    """The figures of one suite: of its first member, and beside it those of the base where it is another."""
    first, *others = setting.members
    found = _of_member(setting, [one for one in attempts if one.member == first])
    found |= {"prompt_version": setting.prompt_version, "style": setting.style, "max_tokens": setting.max_tokens}
    found |= {"samples": setting.samples, "temperature": setting.temperature}
    for other in others:
        found["base"] = _of_member(setting, [one for one in attempts if one.member == other])
        found["against_base"] = paired(_scores(setting, attempts, first), _scores(setting, attempts, other)).as_json()
    return found | ({"note": note} if note else {})


def _of_member(setting: Setting, attempts: Sequence[Attempted]) -> dict[str, Any]:
    right, items = _rights(attempts), len({one.item for one in attempts})
    reasons = Counter(one.reason.partition(":")[0] for one in attempts if not one.right)
    found: dict[str, Any]
    if setting.samples == 1:
        found = Accuracy(sum(right.values()), items).as_json()
    else:
        mean, low, high = mean_interval([count / setting.samples for count in right.values()])
        found = {"accuracy": round(mean, 4), "n": items, "interval": [round(max(low, 0.0), 4), round(min(high, 1.0), 4)]}
        ks = sorted({k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k < setting.samples} | {setting.samples})
        found["pass_at"] = {str(k): round(sum(pass_at_k(setting.samples, count, k) for count in right.values()) / items, 4) for k in ks}
    return found | {"truncated": sum(one.truncated for one in attempts), "not_right": dict(reasons.most_common())}


def _rights(attempts: Sequence[Attempted]) -> dict[str, int]:
    right: dict[str, int] = defaultdict(int)
    for one in attempts:
        right[one.item] += one.right
    return right


def _scores(setting: Setting, attempts: Sequence[Attempted], member: str) -> list[float]:
    right = _rights([one for one in attempts if one.member == member])
    return [count / setting.samples for count in right.values()]
