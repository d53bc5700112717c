"""Attempts at the items of a suite: all of them in one call, graded beside the writing, and written
down as they come.

A kill loses what was not yet graded, and no more: a second call takes up the rest.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from redqueen.benchmarks.suite import Item, Judges, Style, Suite
from redqueen.core.pipeline import background_executor
from redqueen.errors import DataError
from redqueen.tasks.prompts import Prompt

_CHUNK = 64
"""Most replies that are graded together: those before them are written down first."""


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
    """Who attempts, by name: a base alone, an adapter and its base, or members of a run and their
    base. The base is the last."""
    dtype: str = "float32"
    of: str = ""
    """What tells these members from others of the same names: the run and the step at which they
    were as they are, and the weights of the base."""


def drawn(samples: int, temperature: float) -> str:
    """How replies are drawn, in words."""
    return f"{samples} at temperature {temperature:g}" if temperature else "greedy"


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
    ballot: str | None
    """The answer as a vote; empty: there is none. None: answers to this item cannot be compared."""


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt for one member, with the name of its random stream."""

    prompt: Prompt
    member: int
    max_tokens: int
    stream: tuple[str | int, ...]


Reply = tuple[str, bool]
"""What was written, and whether it was cut off at the limit."""

Receive = Callable[[Sequence[tuple[int, Reply]]], None]


class Respondent(Protocol):
    """Who is asked: a base, or members on one."""

    @property
    def device(self) -> str:
        """The sort of device on which it writes."""
        ...

    def reply(self, questions: Sequence[Question], temperature: float, receive: Receive) -> None:
        """All questions in one call; `receive` gets replies with the numbers of their questions, as
        soon as they are there."""
        ...


Wanted = tuple[Item, int, int]
"""An item, a member by its number, and a sample."""


def attempt(
    suite: Suite,
    items: Sequence[Item],
    setting: Setting,
    respondent: Respondent,
    judges: Judges,
    journal: "Journal",
    done: Callable[[int], None],
) -> list[Attempted]:
    """Every member's attempts at every item; those in the journal are taken from it."""
    before = {(one.item, one.member, one.sample): one for one in journal.read(setting)}
    wanted: list[Wanted] = [
        (item, member, sample)
        for item in items
        for member in range(len(setting.members))
        for sample in range(setting.samples)
    ]
    keys = [(item.id, setting.members[member], sample) for item, member, sample in wanted]
    done(sum(key in before for key in keys))
    missing = [one for one, key in zip(wanted, keys, strict=True) if key not in before]

    def grade(some: Sequence[tuple[int, Reply]]) -> list[Attempted]:
        graded = _graded(
            suite, [(missing[number], reply) for number, reply in some], setting, judges
        )
        journal.write(setting, graded)
        done(len(graded))
        return graded

    with background_executor(on_gpu=respondent.device != "cpu") as thread:
        grading = _Grading(thread, grade)
        respondent.reply(
            [_question(suite, one, setting) for one in missing], setting.temperature, grading.add
        )
        new = grading.results()
    before |= {(one.item, one.member, one.sample): one for one in new}
    return [before[key] for key in keys]


class _Grading:
    """Replies graded beside the writing: what has come while it was busy, it takes next. So a kill
    loses little."""

    def __init__(
        self, thread: Executor, work: Callable[[Sequence[tuple[int, Reply]]], list[Attempted]]
    ) -> None:
        self.thread, self.work = thread, work
        self.waiting: list[tuple[int, Reply]] = []
        self.sent: list[Future[list[Attempted]]] = []

    def add(self, some: Sequence[tuple[int, Reply]]) -> None:
        self.waiting += some
        while self.waiting and (not self.sent or self.sent[-1].done()):
            if self.sent:
                self.sent[
                    -1
                    # a full disk, a package that is not there: raised now, before more is written in
                    # vain
                ].result()
            self._send()

    def results(self) -> list[Attempted]:
        while self.waiting:
            self._send()
        return [one for future in self.sent for one in future.result()]

    def _send(self) -> None:
        self.sent.append(self.thread.submit(self.work, self.waiting[:_CHUNK]))
        self.waiting = self.waiting[_CHUNK:]


def _question(suite: Suite, wanted: Wanted, setting: Setting) -> Question:
    """Members draw by streams of their own: with a common one their answers would agree by more
    than what they have learned."""
    item, member, sample = wanted
    own = () if member == len(setting.members) - 1 else (setting.members[member],)
    stream = ("benchmark", setting.suite, item.id, sample, *own)
    return Question(
        suite.prompt(item, setting.style), member, item.max_tokens or setting.max_tokens, stream
    )


def _graded(
    suite: Suite, some: Sequence[tuple[Wanted, Reply]], setting: Setting, judges: Judges
) -> list[Attempted]:
    verdicts = suite.grade(
        [item for (item, _, _), _ in some], [text for _, (text, _) in some], setting.style, judges
    )
    return [
        Attempted(
            item.id,
            setting.members[member],
            sample,
            text,
            verdict.right,
            verdict.reason,
            truncated,
            suite.ballot(item, text, setting.style),
        )
        for ((item, member, sample), (text, truncated)), verdict in zip(some, verdicts, strict=True)
    ]


class Journal:
    """Attempts in a file, one JSON object a line, only ever appended to. Without a path nothing is
    kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def read(self, setting: Setting) -> list[Attempted]:
        if self.path is None or not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").split("\n"):
            try:
                row = json.loads(line)
                if row["setting"] == _as_json(setting):
                    found.append(Attempted(**row["attempt"]))
            except (
                ValueError,
                KeyError,
                TypeError,
            ):  # a kill in the middle of a line, or another's line: that attempt is made again
                continue
        return found

    def write(self, setting: Setting, attempts: Sequence[Attempted]) -> None:
        if self.path is None or not attempts:
            return
        lines = "".join(
            json.dumps({"setting": _as_json(setting), "attempt": asdict(one)}) + "\n"
            for one in attempts
        )
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(("" if file.tell() == 0 or self._ends_whole() else "\n") + lines)
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror}") from error

    def _ends_whole(self) -> bool:
        assert self.path is not None
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"


def _as_json(setting: Setting) -> dict[str, Any]:
    """Without the members: what one of them answered does not depend on who else was asked."""
    return {name: value for name, value in asdict(setting).items() if name != "members"}
