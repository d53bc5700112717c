"""Repair: an adviser criticises an attempt, and its author answers once more; execution grades
it.

A correct attempt and a wrong one are repaired, so that it pays neither to change every answer nor
to keep every one.
"""

import statistics
from collections.abc import Sequence

from redqueen.records import GameTurn, Problem
from redqueen.tasks.games.critique import ask_critics, judge_critique
from redqueen.tasks.games.game import (
    Game,
    GameChoice,
    Judgement,
    Pay,
    Play,
    Round,
    TurnRequest,
    ask_about,
    number_of,
)
from redqueen.tasks.games.texts import ADVISER, REPAIRER
from redqueen.tasks.kind import Block, Request, TaskKind, take

_WRITTEN = ("critique", "verdict")


class Repair(GameChoice):
    adviser: float = 0.5
    """The adviser's part of the gain: 1 where a wrong answer becomes a correct one, -1 where a
    correct one is spoilt, else 0; on average over the answers that follow its critique."""
    repairer: float = 0.5
    """The repairer's part of the gain, for each of its answers."""
    malformed: float = -1.0
    """A critique or an answer that cannot be read."""


def adviser_request(problem: Problem, kind: TaskKind, attempt: tuple[Block, ...]) -> Request:
    """What an adviser is asked about an attempt, as it is shown."""
    return ask_about(problem, kind, "adviser", ADVISER, _WRITTEN, *attempt)


def repairer_request(
    problem: Problem, kind: TaskKind, attempt: tuple[Block, ...], advice: tuple[Block, ...]
) -> Request:
    """What the author of an attempt is asked after a critique and a verdict."""
    given = *attempt, *advice
    return ask_about(problem, kind, "repairer", REPAIRER, kind.answer_blocks, *given)


def _ask_advisers(play: Play, settings: Repair) -> list[TurnRequest]:
    return ask_critics(play, "adviser", ADVISER, _WRITTEN)


def _judge_advice(
    play: Play, ask: TurnRequest, blocks: Sequence[Block], settings: GameChoice
) -> Judgement:
    """By its verdict, as a critique is; but the author is to read what is wrong."""
    take(blocks, "critique")
    return judge_critique(play, ask, blocks, settings)


def _ask_repairers(play: Play, settings: Repair) -> list[TurnRequest]:
    """The author of the attempt, after each critique that can be read."""
    asks = []
    for number, turn in play.turns_in(1):
        place = number_of(turn.shown[0])
        author = play.member(play.attempts[place].author)
        if author is None or turn.verdict == "malformed":
            continue
        blocks = dict(play.read(turn.text, _WRITTEN))
        advice = tuple((label, blocks[label]) for label in _WRITTEN)
        request = repairer_request(play.problem, play.kind, play.show(place), advice)
        asks.append(TurnRequest(author, request, (f"a{place}", f"t{number}")))
    return asks


def _pay(play: Play, settings: Repair) -> Pay:
    gains: dict[int, list[float]] = {}
    for _, turn in play.turns_in(2):
        gains.setdefault(number_of(turn.shown[1]), []).append(gain(play, turn))
    return Pay(
        tuple(
            settings.malformed
            if turn.verdict == "malformed"
            else settings.adviser * statistics.fmean(gains.get(number, [0.0]))
            if turn.round == 1
            else settings.repairer * gain(play, turn)
            for number, turn in enumerate(play.turns)
        )
    )


def gain(play: Play, turn: GameTurn) -> float:
    """Of a repaired answer over the attempt."""
    before = play.attempts[number_of(turn.shown[0])].verdict == "correct"
    return float((turn.verdict == "correct") - before)


REPAIR = Game(
    rounds=(Round("adviser", _ask_advisers, _judge_advice), Round("repairer", _ask_repairers)),
    pay=_pay,
    students=2,
    settings=Repair,
    summary="another student criticises an attempt, its author answers again",
)
