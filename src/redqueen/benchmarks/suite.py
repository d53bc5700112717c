"""What a suite is: items with ids, a prompt for each, a verdict on each reply; and for a benchmark
the reference reply where there is one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from redqueen.sandbox import Sandbox
from redqueen.tasks.prompts import Prompt

if TYPE_CHECKING:
    from redqueen.benchmarks.data import Source
    from redqueen.benchmarks.maths.judge import MathsJudge

Style = Literal["chat", "base"]
"""chat: the prompt goes through the model's chat template · base: the model continues a text."""

SYSTEM = "You are a helpful assistant."
"""The system text of every chat prompt."""


@dataclass(frozen=True, slots=True)
class Item:
    """One problem of a suite, with the fields its file has."""

    id: str
    fields: Mapping[str, Any]
    kind: str = ""
    """Its sort, where a suite has several."""
    tier: int = 0
    """How hard it is, where that is known."""
    max_tokens: int | None = None
    """Room for a reply, where it is another than the suite's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    right: bool
    reason: str = ""
    """Why it is not right: `no answer`, `wrong`, `timeout`, `error: NameError`, ..."""


RIGHT = Verdict(True)


@dataclass(frozen=True, slots=True)
class Judges:
    """What grades: the sandbox for programs, worker processes for maths."""

    sandbox: Sandbox
    maths: "MathsJudge"


@dataclass(frozen=True, slots=True)
class Wrong:
    """A reply that cannot be right, and why that is known without the grader."""

    name: str
    reply: str
    check: tuple[str, str] | None = None
    """A program and its tests for a plain interpreter: wrong if the tests fail there. None: wrong
    by the way it was made."""


class Suite(Protocol):
    """What is asked, and how a reply is graded."""

    @property
    def name(self) -> str: ...

    @property
    def prompt_version(self) -> str:
        """Changes with any word of its prompts."""
        ...

    @property
    def max_tokens(self) -> int:
        """Room for a reply."""
        ...

    @property
    def note(self) -> str:
        """What a reader of its figures must know; empty: nothing."""
        ...

    def prompt(self, item: Item, style: Style) -> Prompt: ...

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        """One verdict for each reply, in order."""
        ...

    def ballot(self, item: Item, reply: str, style: Style) -> str | None:
        """The answer in a form in which equal answers are equal texts, to vote with; empty: the
        reply has none. None: answers to such an item have no such form."""
        ...


class Benchmark(Suite, Protocol):
    """A suite of others', with a file of items and answers that are known to be right or wrong."""

    @property
    def source(self) -> "Source":
        """Where its items come from."""
        ...

    def items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        """The items in the rows of its file."""
        ...

    def gold(self, item: Item) -> str | None:
        """The reference answer as a chat model would write it; None where the benchmark has none."""
        ...

    def wrong(self, items: Sequence[Item], place: int) -> list[Wrong]:
        """Replies to the item at that place that cannot be right."""
        ...
