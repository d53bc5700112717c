"""Attempts at a suite: graded as they come, kept when the writing ends early, and drawn by each
member for itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from redqueen.benchmarks.cruxeval import CruxEval
from redqueen.benchmarks.maths.judge import MathsJudge
from redqueen.benchmarks.suite import Item, Judges
from redqueen.errors import DataError
from redqueen.evaluate.attempts import Attempted, Journal, Question, Receive, Setting, attempt
from redqueen.sandbox.pool import SandboxPool
from tests.contract.benchmark_items import CRUXEVAL

ITEMS = [Item(str(row["id"]), row) for row in CRUXEVAL]
SETTING = Setting("cruxeval-o", "own", "base", 1, 0.0, 9, ("S0", "base"))


class Writer:
    """It answers every question rightly, until it is killed."""

    def __init__(self, replies: int = 1000, device: str = "cuda") -> None:
        self.left, self.device = replies, device
        self.asked: list[Question] = []

    def reply(self, questions: Sequence[Question], temperature: float, receive: Receive) -> None:
        self.asked += questions
        for number, question in enumerate(questions):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            output = next(
                str(item.fields["output"]) for item in ITEMS if item.id == question.stream[2]
            )
            receive([(number, (output, False))])


@pytest.fixture
def judges(pool: SandboxPool) -> Judges:
    return Judges(pool, MathsJudge())


def attempts(
    writer: Writer, judges: Judges, journal: Journal, setting: Setting = SETTING
) -> list[Attempted]:
    return attempt(CruxEval("o"), ITEMS, setting, writer, judges, journal, lambda count: None)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_what_was_written_before_a_kill_is_not_asked_again(
    judges: Judges, tmp_path: Path, device: str
) -> None:
    journal, second = Journal(tmp_path / "attempts.jsonl"), Writer()
    with pytest.raises(KeyboardInterrupt):
        attempts(Writer(5, device), judges, journal)
    kept = len(journal.read(SETTING))
    assert (
        (1 if device == "cuda" else 5) <= kept <= 5
    )  # on a CPU each is graded before the next is written
    found = attempts(second, judges, journal)
    assert len(second.asked) == len(found) - kept == 8 - kept
    assert all(one.right and one.ballot for one in found)
    assert [(one.item, one.member) for one in found] == [
        (item.id, member) for item in ITEMS for member in ("S0", "base")
    ]


def test_members_draw_for_themselves_and_the_base_as_it_would_alone(judges: Judges) -> None:
    together, alone = Writer(), Writer()
    attempts(together, judges, Journal(None))
    attempts(
        alone, judges, Journal(None), Setting("cruxeval-o", "own", "base", 1, 0.0, 9, ("pawn",))
    )
    streams = [question.stream for question in together.asked]
    assert len(set(streams)) == 8
    assert [
        stream
        for question, stream in zip(together.asked, streams, strict=True)
        if question.member == 1
    ] == [one.stream for one in alone.asked]


def test_a_place_that_cannot_be_written_to_ends_it(judges: Judges, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write"):
        attempts(Writer(), judges, Journal(tmp_path / "nowhere" / "attempts.jsonl"))
