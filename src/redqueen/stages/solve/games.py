"""Games that go on after the attempts. Every round of all games in all worlds is one call of the
engine, and texts are judged while others are still being sampled.

Which game a problem is played as, who plays which role and what is sampled follow from random
streams of the problem's own: a run without games draws none of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from redqueen.config.games import RACE
from redqueen.core.pipeline import Check, Ports
from redqueen.core.state import ProposalResult, StepState
from redqueen.engine.text_sampler import TextCompletion, TextRequest
from redqueen.records import Attempt, Author, GameTurn, Problem
from redqueen.rng import seed_for, stream
from redqueen.stages.solve.grading import grade_answers
from redqueen.tasks import Malformed
from redqueen.tasks.games import GAMES
from redqueen.tasks.games.game import GameChoice, Play, Round, TurnRequest

_MOST_CHARS = 80
"""Of what a turn claims: a word, but a model may write anything."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """One turn to be sampled."""

    state: StepState
    play: Play
    round: Round
    number: int
    """Of the round, from 1."""
    prompt: int
    """Of the question, within the game."""
    ask: TurnRequest


def play_games(states: Sequence[StepState], ports: Ports) -> None:
    plays: list[tuple[StepState, Play]] = []
    for state in states:
        for result, play in _deal(state, ports):
            result.play = play
            plays.append((state, play))
    _trace([play for _, play in plays], ports)
    number = 0
    while asked := list(_ask_round(plays, number := number + 1)):
        turns = _sample(asked, ports)
        for one, own in zip(asked, turns, strict=True):
            one.play.turns += own
        plays = [(state, play) for state, play in plays if play.turns_in(number)]
    for state in states:
        for result in state.results:
            if result.play is not None and not result.play.turns:  # it cannot be played so
                result.play = None


def _deal(state: StepState, ports: Ports) -> Iterator[tuple[ProposalResult, Play]]:
    """Each problem draws its game."""
    world = state.world
    games = {
        name: choice
        for name, choice in world.config.games.items()
        if isinstance(choice, GameChoice) and choice.share
    }
    if not games:
        return
    shares = [choice.share for choice in games.values()]
    rest = max(0.0, 1 - sum(shares))
    for result, problem in state.solvable:
        rng = stream(world.seed, state.step, "game", problem.key)
        (name,) = rng.choices([*games, RACE], [*shares, rest])
        if name in games:
            yield (
                result,
                Play(
                    name,
                    games[name],
                    problem,
                    ports.kinds[problem.kind],
                    ports.prompt_format,
                    result.attempts,
                    world.students,
                    seed_for(world.seed, state.step, "game", problem.key, name),
                ),
            )


def _trace(plays: Sequence[Play], ports: Ports) -> None:
    """The true steps of a solution, for games that are judged by them."""
    traced = [play for play in plays if GAMES[play.choice.type].traced]
    jobs = [play.kind.trace(play.problem) for play in traced]
    outcomes = iter(ports.sandbox.run([job for job in jobs if job is not None]))
    for play, job in zip(traced, jobs, strict=True):
        play.trace = None if job is None else next(outcomes)


def _ask_round(plays: Sequence[tuple[StepState, Play]], number: int) -> Iterator[_Asked]:
    for state, play in plays:
        rounds = GAMES[play.choice.type].rounds
        if number <= len(rounds):
            asks = rounds[number - 1].ask(play, play.choice.options)
            first = len({turn.prompt for turn in play.turns})
            for prompt, ask in enumerate(asks, first):
                yield _Asked(state, play, rounds[number - 1], number, prompt, ask)


def _sample(asked: Sequence[_Asked], ports: Ports) -> list[list[GameTurn]]:
    """The turns that come of each question, in order."""
    requests = [list(_requests(one, ports)) for one in asked]
    turns: dict[int, GameTurn] = {}

    def judge(completions: list[TextCompletion]) -> None:
        for completion, turn in zip(completions, _judge(completions, ports), strict=True):
            turns[id(completion.request)] = replace(turn, rollout=completion.rollout)

    judging = Check(ports.background, judge)
    config = asked[0].state.world.config.solve
    together = [request for own in requests for request in own]
    ports.sample("solve", together, config.temperature, judging.add)
    judging.finish()
    ports.add_time("solve", 0.0, waited=judging.blocked_s)
    return [[turns[id(request)] for request in own] for own in requests]


def _requests(one: _Asked, ports: Ports) -> Iterator[TextRequest]:
    state, play, member = one.state, one.play, one.ask.member
    world, choice = state.world, play.choice
    prompt = ports.prompt_format.render(one.ask.request)
    for sample in range(choice.samples):
        yield TextRequest(
            world.slot(member),
            prompt,
            choice.max_tokens or world.config.solve.max_tokens,
            seed_for(play.seed, one.round.role, member.id, one.number, one.prompt, sample),
            member.temperature,
            one,
        )


def _judge(completions: Sequence[TextCompletion], ports: Ports) -> list[GameTurn]:
    """Answers are graded together; all else is compared with what is known."""
    graded = [one for one in completions if one.request.item.round.judge is None]
    answers: list[tuple[Problem, str]] = [
        (one.request.item.play.problem, one.text) for one in graded
    ]
    config = completions[0].request.item.state.world.config.verify
    attempts = iter(grade_answers(answers, ports.kinds, ports.prompt_format, ports.sandbox, config))
    return [
        _graded_turn(completion.request.item, next(attempts))
        if completion.request.item.round.judge is None
        else _judged_turn(completion.request.item, completion.text)
        for completion in completions
    ]


def _graded_turn(one: _Asked, attempt: Attempt) -> GameTurn:
    return _turn(one, attempt.text, attempt.verdict, attempt.detail)


def _judged_turn(one: _Asked, text: str) -> GameTurn:
    play, ask, judge = one.play, one.ask, one.round.judge
    assert judge is not None
    try:
        blocks = play.prompt_format.parse(text, ask.request.wanted)
        judged = judge(play, ask, blocks, play.choice.options)
    except Malformed as error:
        return _turn(one, text, "malformed", str(error))
    turn = _turn(one, text, "correct" if judged.is_correct else "wrong", judged.detail)
    said, truth = judged.said[:_MOST_CHARS], judged.truth[:_MOST_CHARS]
    return replace(turn, said=said, truth=truth, bonus=float(judged.bonus))


def _turn(one: _Asked, text: str, verdict: str, detail: str) -> GameTurn:
    member = one.ask.member
    author = Author(member.id, member.version)
    return GameTurn(
        one.number,
        one.round.role,
        one.prompt,
        one.ask.shown,
        text,
        verdict,  # type: ignore[arg-type]
        detail,
        author=author,
    )
