"""Messages of a chat as the tokens of a prompt."""

from typing import Any

from redqueen.engine.protocol import Engine
from redqueen.serve.commands import Refused
from redqueen.tasks.prompts import Prompt

_TOKEN_CHARS = 256
"""No token is longer."""


def encode_chat(engine: Engine, messages: Any) -> list[int]:
    """Messages through the base's chat template; one that only continues texts gets them joined."""
    if not isinstance(messages, list) or not messages:
        raise Refused("messages is a list of {role, content}")
    turns = [(str(one.get("role")), _content(one)) for one in messages]
    check_length(engine, *(text for _, text in turns))
    base = engine.base
    if not (base.has_chat_template and base.prompt_format == "chat"):
        return list(engine.tokenizer.encode(Prompt("\n".join(text for _, text in turns))))
    system = "\n\n".join(text for role, text in turns if role in ("system", "developer"))
    said = [(role, text) for role, text in turns if role not in ("system", "developer")]
    roles = [role for role, _ in said]
    if roles != [("user", "assistant")[n % 2] for n in range(len(said))] or len(said) % 2 == 0:
        raise Refused("messages alternate between user and assistant, and the last is the user's")
    pairs = tuple((said[n][1], said[n + 1][1]) for n in range(0, len(said) - 1, 2))
    last = said[-1][1]
    prompt = Prompt(last, system, before=pairs, quotes=((0, len(last)),) if last else ())
    return list(engine.tokenizer.encode(prompt))


def check_length(engine: Engine, *texts: str) -> None:
    """Refuse what cannot fit before it is encoded, which takes long for a long text."""
    most = engine.base.context * _TOKEN_CHARS
    if (length := sum(map(len, texts))) > most:
        raise Refused(
            f"the prompt has {length:,} characters: more than {engine.base.context} tokens", 413
        )


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        content = "".join(str(part["text"]) for part in content)
    if not isinstance(content, str):
        raise Refused("the content of a message is a text: images are not supported")
    return content
