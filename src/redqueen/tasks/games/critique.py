"""Critique: a critic sees another student's attempt and says whether it is correct, and which line
is the first wrong one.

A problem is played where it has a correct and a wrong attempt, and one of each is criticised: half
of what critics see is correct, problem by problem, so that always saying the same earns nothing.
"""

import re
from collections.abc import Sequence

from redqueen.records import GameTurn, Problem
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
    show_attempt,
)
from redqueen.tasks.games.texts import CRITIC
from redqueen.tasks.kind import Block, Malformed, Request, TaskKind, take

_VERDICT = re.compile(
    r"(correct|wrong)(?:[\s,:;]{0,4}(?:line\s{0,4})?(\d{1,4}))?\.?", re.IGNORECASE
)


class Critique(GameChoice):
    right: float = 1.0
    """What a critic earns whose verdict is what execution says."""
    wrong: float = -1.0
    """One whose verdict is not."""
    malformed: float = -1.0
    """A critique that cannot be read."""
    line: float = 0.5
    """Added where the first wrong line is known, and the critic names it."""
    survived: float = 0.0
    """Added to what a wrong attempt earns, times the share of its readable critiques that call it
    correct; below 0, a solver pays for an error that is not found. 0 by default: while critics are
    no better than chance, it would only add noise to what students learn."""


def attempts_to_judge(play: Play) -> list[int]:
    """A correct attempt and a wrong one; none where there are not both."""
    places = [play.pick_attempt("correct"), play.pick_attempt("wrong")]
    return [place for place in places if place is not None] if None not in places else []


def critic_request(problem: Problem, kind: TaskKind, reasoning: str, answer: str) -> Request:
    """What a critic is asked about an attempt."""
    shown = show_attempt(reasoning, answer)
    return ask_about(problem, kind, "critic", CRITIC, ("verdict",), *shown)


def ask_critics(
    play: Play, role: str, instruction: str, wanted: tuple[str, ...]
) -> list[TurnRequest]:
    """One critic for both attempts, or one for each where both students wrote one."""
    places = attempts_to_judge(play)
    authors = [play.attempts[place].author for place in places]
    critic = play.pick_member(role, *authors)
    asks = []
    for place, author in zip(places, authors, strict=True):
        member = critic or play.pick_member(role, author)
        if member is None:
            return []
        request = play.ask(role, instruction, wanted, *play.show(place))
        asks.append(TurnRequest(member, request, (f"a{place}",)))
    return asks


def read_verdict(blocks: Sequence[Block]) -> tuple[str, int | None]:
    """correct or wrong, and the line that is named."""
    found = _VERDICT.fullmatch(take(blocks, "verdict").strip().strip("`").strip())
    if found is None:
        raise Malformed("the verdict is neither `correct` nor `wrong`")
    return found[1].lower(), int(found[2]) if found[2] else None


def judge_critique(
    play: Play, ask: TurnRequest, blocks: Sequence[Block], settings: GameChoice
) -> Judgement:
    said, line = read_verdict(blocks)
    place = number_of(ask.shown[0])
    truth = play.attempts[place].verdict
    if said != "wrong" or truth != "wrong" or line is None:
        return Judgement(said, truth)
    known = play.kind.first_wrong_line(play.problem, play.reasoning(place), play.trace)
    if known is None:
        return Judgement(said, truth, f"line {line}")
    return Judgement(said, truth, f"line {line}; the first wrong one is {known}", line == known)


def _ask(play: Play, settings: Critique) -> list[TurnRequest]:
    return ask_critics(play, "critic", CRITIC, ("verdict",))


def _pay(play: Play, settings: Critique) -> Pay:
    survived: dict[int, list[bool]] = {}
    for turn in play.turns:
        if turn.truth == "wrong":
            survived.setdefault(number_of(turn.shown[0]), []).append(turn.said == "correct")
    attempts = {
        place: settings.survived * sum(fooled) / len(fooled)
        for place, fooled in survived.items()
        if settings.survived
    }
    return Pay(tuple(_earned(turn, settings) for turn in play.turns), attempts)


def _earned(turn: GameTurn, settings: Critique) -> float:
    if turn.verdict == "malformed":
        return settings.malformed
    return (settings.right if turn.verdict == "correct" else settings.wrong) + (
        settings.line * turn.bonus
    )


CRITIQUE = Game(
    rounds=(Round("critic", _ask, judge_critique),),
    pay=_pay,
    students=2,
    settings=Critique,
    traced=True,
    summary="another student says whether an attempt is correct, and which line is wrong",
)
