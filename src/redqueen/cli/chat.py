"""`redqueen chat`: talk to a member of a run, or to a base, in the terminal."""

from typing import Annotated

import typer

from redqueen.cli.console import note
from redqueen.cli.options import Device, MovedBase
from redqueen.errors import ConfigError
from redqueen.report.escape import escape_controls


def chat(
    source: Annotated[str, typer.Argument(metavar="RUN", help="Folder of a run, or a base.")],
    member: Annotated[
        str, typer.Option(help="S2, soup, chosen, base, or 0/S2 in a run of several worlds.")
    ] = "chosen",
    prompt: Annotated[str | None, typer.Option(help="Say this, print the reply, and end.")] = None,
    system: Annotated[str, typer.Option(help="Instructions before the first message.")] = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest reply.")] = 512,
    temperature: Annotated[float, typer.Option(min=0, help="0: greedy.")] = 0.7,
    seed: Annotated[int, typer.Option(help="Of the replies' random numbers.")] = 0,
    base: MovedBase = None,
    device: Device = "auto",
) -> None:
    """Chat with a member of a run. An empty line or Ctrl-D ends it."""
    from redqueen.serve.conversation import Conversation, open_conversation

    if prompt is not None and not prompt.strip():
        raise ConfigError("--prompt is empty: say something, or leave it out and talk")

    talk: Conversation = open_conversation(source, member, base, device)
    if not talk.is_chat:
        note(
            f"{talk.base} has no chat format: it continues texts. Pawn knows small Python programs "
            "and no English."
        )
    try:
        if prompt is not None:
            typer.echo(_visible(talk.say(prompt, system, max_tokens, temperature, seed)))
            return
        note(f"talking to {talk.name}; an empty line ends")
        while text := _ask():
            typer.echo(_visible(talk.say(text, system, max_tokens, temperature, seed)))
            seed += 1
    finally:
        talk.close()


def _ask() -> str:
    try:
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        return ""


def _visible(text: str) -> str:
    """What a model writes cannot steer the terminal."""
    return "\n".join(escape_controls(line) for line in text.split("\n"))
