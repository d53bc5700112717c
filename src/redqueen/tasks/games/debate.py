"""Debate: two students speak for different answers to a problem, a third judges which is correct.

One answer is correct and one is wrong; each is defended by its author, or by another student where
one wrote both. Which of them the judge reads first is a coin's toss.
"""

import statistics
from collections.abc import Sequence

from redqueen.records import Member
from redqueen.rng import stream
from redqueen.tasks.games.critique import attempts_to_judge
from redqueen.tasks.games.game import (
    Game,
    GameChoice,
    Judgement,
    Pay,
    Play,
    Round,
    TurnRequest,
    number_of,
)
from redqueen.tasks.games.texts import DEBATER, JUDGE
from redqueen.tasks.kind import Block, Malformed, take

_SIDES = ("first", "second")


class Debate(GameChoice):
    right: float = 1.0
    """What a judge earns who finds the correct answer."""
    wrong: float = -1.0
    """One who does not."""
    won: float = 1.0
    """What the defender of the correct answer earns where the judge finds it; on average over the
    verdicts on its argument."""
    lost: float = -1.0
    """And where the judge does not."""
    misled: float = 0.5
    """What the defender of the wrong answer earns where the judge falls for it. Less than for the
    correct one, so that truth pays; above `exposed`, so that judges meet somebody who tries."""
    exposed: float = -0.5
    """And where the judge does not."""
    malformed: float = -1.0
    """An argument or a verdict that cannot be read."""


def _ask_debaters(play: Play, settings: Debate) -> list[TurnRequest]:
    places = attempts_to_judge(play)
    if stream(play.seed, "order").random() < 0.5:
        places.reverse()
    defenders = _defenders(play, places)
    if len(defenders) < 2:
        return []
    asks = []
    for own, member in enumerate(defenders):
        mine, other = places[own], places[1 - own]
        request = play.ask(
            "debater",
            DEBATER,
            ("argument",),
            ("defended", play.answer(mine)),
            ("other", play.answer(other)),
        )
        asks.append(TurnRequest(member, request, (f"a{mine}", f"a{other}")))
    return asks


def _defenders(play: Play, places: Sequence[int]) -> list[Member]:
    """Two different students, the authors as far as possible."""
    defenders: list[Member] = []
    for place in places:
        author = play.member(play.attempts[place].author)
        if author is None or author in defenders:
            others = [play.attempts[other].author for other in places]
            author = play.pick_member(f"debater {place}", *others)
        if author is not None and author not in defenders:
            defenders.append(author)
    return defenders


def _judge_argument(
    play: Play, ask: TurnRequest, blocks: Sequence[Block], settings: Debate
) -> Judgement:
    """An argument is as right as the answer it is for."""
    if not take(blocks, "argument").strip():
        raise Malformed("an empty argument")
    defended = play.attempts[number_of(ask.shown[0])]
    return Judgement(stands_for=defended.verdict == "correct")


def _ask_judges(play: Play, settings: Debate) -> list[TurnRequest]:
    """A judge for every pair of arguments, the first of one side with the first of the other."""
    spoken = play.turns_in(1)
    first = [number for number, turn in spoken if turn.prompt == spoken[0][1].prompt]
    second = [number for number, turn in spoken if turn.prompt != spoken[0][1].prompt]
    judge = play.pick_member("judge", *(turn.author for _, turn in spoken))
    if judge is None:
        return []
    asks = []
    for pair in zip(first, second, strict=True):
        given: list[Block] = []
        for side, number in zip(_SIDES, pair, strict=True):
            turn = play.turns[number]
            blocks = dict(play.read(turn.text, ("argument",)))
            given.append((f"{side}_answer", play.answer(number_of(turn.shown[0]))))
            given.append((f"{side}_argument", blocks.get("argument", "(none)")))
        request = play.ask("judge", JUDGE, ("verdict",), *given)
        asks.append(TurnRequest(judge, request, tuple(f"t{number}" for number in pair)))
    return asks


def _judge_verdict(
    play: Play, ask: TurnRequest, blocks: Sequence[Block], settings: Debate
) -> Judgement:
    said = take(blocks, "verdict").strip().strip("`.").lower()
    if said not in _SIDES:
        raise Malformed("the verdict is neither `first` nor `second`")
    defended = [number_of(play.turns[number_of(name)].shown[0]) for name in ask.shown]
    right = [play.attempts[place].verdict == "correct" for place in defended]
    return Judgement(said, _SIDES[right.index(True)])


def _pay(play: Play, settings: Debate) -> Pay:
    believed: dict[int, list[bool]] = {}
    for _, turn in play.turns_in(2):
        for side, name in zip(_SIDES, turn.shown, strict=True):
            if turn.verdict != "malformed":
                believed.setdefault(number_of(name), []).append(turn.said == side)
    earned = []
    for number, turn in enumerate(play.turns):
        if turn.verdict == "malformed":
            earned.append(settings.malformed)
        elif turn.round == 2:
            earned.append(settings.right if turn.verdict == "correct" else settings.wrong)
        else:
            true = turn.verdict == "correct"
            won, lost = (
                (settings.won, settings.lost) if true else (settings.misled, settings.exposed)
            )
            verdicts = believed.get(number, [])
            earned.append(statistics.fmean(won if one else lost for one in verdicts or [False]))
    return Pay(tuple(earned))


DEBATE = Game(
    rounds=(
        Round("debater", _ask_debaters, _judge_argument),
        Round("judge", _ask_judges, _judge_verdict),
    ),
    pay=_pay,
    students=3,
    settings=Debate,
    summary="two students defend different answers, a third one judges",
)
