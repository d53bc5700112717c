"""What a game is: rounds of turns that follow the attempts at a problem, and what each turn earns.

A game is a small table, `Game`: in each round some members are asked something, and what they write
is judged by what execution has already said, or graded like any answer. The solve stage plays it;
nothing else knows one game from another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import Field

from redqueen.config.registry import Choice, CustomChoice
from redqueen.records import Attempt, Author, GameTurn, Member, Problem
from redqueen.rng import stream
from redqueen.sandbox import Outcome
from redqueen.tasks.kind import Block, Malformed, Request, TaskKind
from redqueen.tasks.prompts import PromptFormat, reasoning_of


class Share(Choice):
    share: float = Field(default=1.0, ge=0, le=1)
    """The chance that a problem of a step is played as this game."""


class GameChoice(Share):
    """What every game with further turns has."""

    samples: int = Field(default=2, ge=1)
    """Turns sampled from each prompt: they are compared with each other, so that one alone teaches
    nothing."""
    max_tokens: int = Field(default=0, ge=0)
    """Most tokens of a turn; 0: as many as an answer may have."""
    max_reasoning_chars: int = Field(default=6000, ge=1)
    """Longest reasoning of somebody else that a member is shown; the rest is left out."""


class CustomGame(CustomChoice, GameChoice):
    """A game of your own by import path."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What one member is asked in a round."""

    member: Member
    request: Request
    shown: tuple[str, ...]
    """Attempts, such as a3, and earlier turns, such as t0."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a turn says, beside what execution says, each in one word."""

    said: str = ""
    truth: str = ""
    detail: str = ""
    bonus: float = 0.0
    """Further credit, from 0 to 1."""
    stands_for: bool = False
    """Where it claims nothing: whether what it stands for is correct."""

    @property
    def is_correct(self) -> bool:
        return self.said == self.truth if self.said else self.stands_for


@dataclass(frozen=True, slots=True)
class Pay:
    """What a game earns everybody."""

    turns: tuple[float, ...]
    """Of each turn, in order."""
    attempts: Mapping[int, float] = field(default_factory=dict)
    """Added to what an attempt earns, by its number."""


def ask_about(
    problem: Problem,
    kind: TaskKind,
    role: str,
    instruction: str,
    wanted: tuple[str, ...],
    *given: Block,
) -> Request:
    """A request about a problem: what its student was shown, then what is given here."""
    asked = kind.ask_answer(problem)
    return replace(
        asked,
        role=role,
        instruction=f"{instruction}\n\nThe student was asked:\n{asked.instruction}",
        given=(*asked.given, *given),
        wanted=wanted,
        few_shot=kind.example(role),
    )


def answer_in(text: str, kind: TaskKind, prompt_format: PromptFormat) -> str:
    """What an attempt answers, without its reasoning; empty where that cannot be read."""
    try:
        blocks = prompt_format.parse(text, kind.answer_blocks)
    except Malformed:
        return ""
    return "\n".join(block for _, block in blocks)


def show_attempt(reasoning: str, answer: str) -> tuple[Block, ...]:
    """An attempt as others see it: its reasoning with numbered lines, and its answer."""
    lines = enumerate(reasoning.splitlines(), 1)
    numbered = "\n".join(f"{number}: {line}" for number, line in lines)
    shown = ("answer", answer)
    return (("reasoning", numbered), shown) if reasoning.strip() else (shown,)


@dataclass(slots=True, eq=False)
class Play:
    """One game about one problem: the attempts at it, and the turns so far."""

    game: str
    choice: GameChoice
    problem: Problem
    kind: TaskKind
    prompt_format: PromptFormat
    attempts: Sequence[Attempt]
    students: Sequence[Member]
    """Those that may play a role."""
    seed: int
    """Of its own random streams."""
    trace: Outcome | None = None
    """Of the kind's trace, where the game asks for it and the kind has one."""
    turns: list[GameTurn] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)

    def pick_attempt(self, verdict: Literal["correct", "wrong"]) -> int | None:
        """The number of one of the attempts with this verdict."""
        places = [n for n, attempt in enumerate(self.attempts) if attempt.verdict == verdict]
        return stream(self.seed, verdict).choice(places) if places else None

    def pick_member(self, role: str, *but: Author | None) -> Member | None:
        """A student that wrote none of these."""
        taken = {author.member for author in but if author is not None}
        free = [student for student in self.students if student.id not in taken]
        return stream(self.seed, role, *sorted(taken)).choice(free) if free else None

    def member(self, author: Author | None) -> Member | None:
        """Who wrote something, if it may still play."""
        name = author.member if author is not None else ""
        return next((student for student in self.students if student.id == name), None)

    def ask(self, role: str, instruction: str, wanted: tuple[str, ...], *given: Block) -> Request:
        """A request about the problem."""
        return ask_about(self.problem, self.kind, role, instruction, wanted, *given)

    def reasoning(self, place: int) -> str:
        return reasoning_of(self.attempts[place].text)[: self.choice.max_reasoning_chars]

    def answer(self, place: int) -> str:
        """What an attempt answers, without its reasoning."""
        return answer_in(self.attempts[place].text, self.kind, self.prompt_format)

    def show(self, place: int) -> tuple[Block, ...]:
        """An attempt as others see it."""
        return show_attempt(self.reasoning(place), self.answer(place))

    def read(self, text: str, wanted: tuple[str, ...]) -> list[Block]:
        """The blocks of a text; none where it has not the right form."""
        try:
            return self.prompt_format.parse(text, wanted)
        except Malformed:
            return []

    def turns_in(self, round_number: int) -> list[tuple[int, GameTurn]]:
        """With their numbers."""
        return [(n, turn) for n, turn in enumerate(self.turns) if turn.round == round_number]


Judge = Callable[[Play, TurnRequest, Sequence[Block], Any], Judgement]
"""From the game, what was asked, the blocks that were written, and the settings; raises
Malformed."""


@dataclass(frozen=True, slots=True)
class Round:
    role: str
    ask: Callable[[Play, Any], list[TurnRequest]]
    """From the game so far and its settings: who is asked what. Nobody: the game ends here, and
    where that is the first round, it is not played."""
    judge: Judge | None = None
    """None: what is written is an answer to the problem, and graded like any other."""


@dataclass(frozen=True)
class Game:
    """A row of the table."""

    rounds: tuple[Round, ...] = ()
    pay: Callable[[Play, Any], Pay] = lambda play, settings: Pay((0.0,) * len(play.turns))
    """What everybody earns when all turns are judged."""
    students: int = 1
    """How many students it takes."""
    settings: type[Share] | None = None
    """None: free ones, `settings = { ... }`, for a game of your own."""
    traced: bool = False
    """Whether turns are judged by the true steps of a solution, too."""
    summary: str = ""
    """What is played, in one sentence."""


def number_of(shown: str) -> int:
    """The number of what a turn was shown, such as 3 for a3."""
    return int(shown[1:])
