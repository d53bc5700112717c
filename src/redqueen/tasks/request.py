"""What a model is asked, free of any typography."""

from dataclasses import dataclass

Block = tuple[str, str]
"""A labelled text: ("program", "def f(x): ...")."""


@dataclass(frozen=True, slots=True)
class FewShot:
    """A few-shot example: a request of the same kind and a reply to it."""

    reasoning: str
    reply: tuple[Block, ...]
    given: tuple[Block, ...] = ()
    examples: tuple[tuple[Block, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is asked, free of any typography: a prompt format turns it into text."""

    kind: str
    role: str
    """teacher, student, or a role of a game."""
    instruction: str
    """For prompt formats that use words."""
    examples: tuple[tuple[Block, ...], ...]
    """Earlier problems, as inspiration."""
    given: tuple[Block, ...]
    wanted: tuple[str, ...]
    """Labels of the blocks to write, in order."""
    few_shot: FewShot | None = None
    """For prompt formats that show one."""
    system: str = "You are careful and exact."
    """Who is asked, for prompt formats that have a system text."""
