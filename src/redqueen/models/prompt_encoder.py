"""Encodes prompts so that what models wrote stays text.

A tokenizer takes the text `<|im_end|>` for the end of a turn, whoever wrote it. So prompts are
encoded by a copy of it that knows its control tokens by other names, which nobody can guess: the
chat template and the words of a prompt format are written with these names, quotes are left as
they are. The text is encoded in one piece, so that a prompt without hostile quotes has the tokens
that the tokenizer itself gives it.
"""

import json
import re
import secrets
from collections.abc import Iterable
from typing import Any, Protocol

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from redqueen.errors import ConfigError

_HARMLESS = re.compile(r"[ \t\r\n▁]+|<0x[0-9A-F]{2}>")
"""Added tokens that control nothing: white space, as Gemma has it, and single bytes."""


class Prompt(Protocol):
    """What is to be encoded: `redqueen.tasks.prompts.Prompt`."""

    @property
    def text(self) -> str: ...

    @property
    def system(self) -> str | None: ...

    @property
    def before(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def prefix(self) -> str: ...

    @property
    def quotes(self) -> tuple[tuple[int, int], ...]: ...


class PromptEncoder:
    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._secret = secrets.token_hex(8)
        self._aliases, self._renamed = _rename_control_tokens(_backend(tokenizer), self._secret)
        longest_first = sorted(self._aliases, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._stand_in = re.compile(f"{self._secret}q([0-9]+)q")

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Through the chat template if it has a system text, else as it stands; then the beginning
        of the reply, where it is given."""
        text = self._hide_quotes(prompt)
        if prompt.system is not None:
            text = self._render_chat(prompt.system, prompt.before, text)
        ids = self._encode(text, [prompt.text[start:end] for start, end in prompt.quotes])
        return (*ids, *(self._encode(prompt.prefix) if prompt.prefix else ()))

    def _hide_quotes(self, prompt: Prompt) -> str:
        """The text with a stand-in for each quote: a template may look at what it is given."""
        parts, done = [], 0
        for number, (start, end) in enumerate(prompt.quotes):
            parts += [prompt.text[done:start], f"{self._secret}q{number}q"]
            done = end
        return "".join([*parts, prompt.text[done:]])

    def _render_chat(self, system: str, before: tuple[tuple[str, str], ...], request: str) -> str:
        text = self._apply_template(system, before, request)
        if all(reply.strip() in text for _, reply in before):
            return text
        # Some templates strip the reasoning from earlier turns: show them as one request.
        earlier = [f"{asked}\n\nA whole reply to this:\n\n{reply}" for asked, reply in before]
        request = "\n\n".join([*earlier, "Now another request.", request])
        return self._apply_template(system, (), request)

    def _apply_template(self, system: str, before: Iterable[tuple[str, str]], request: str) -> str:
        messages = [{"role": "system", "content": system}]
        for asked, reply in before:
            messages += [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": reply},
            ]
        messages.append({"role": "user", "content": request})
        return str(
            self.tokenizer.apply_chat_template(
                _fold_system(messages, self.tokenizer),
                add_generation_prompt=True,
                tokenize=False,
            )
        )

    def _encode(self, text: str, quotes: Iterable[str] = ()) -> list[int]:
        """Control tokens of the text are tokens, those of the quotes it stands in for are not."""
        quotes = list(quotes)
        ours_and_numbers = self._stand_in.split(text)
        ours_and_numbers[::2] = [
            self._control.sub(lambda match: self._aliases[match[0]], part)
            for part in ours_and_numbers[::2]
        ]
        ours_and_numbers[1::2] = [quotes[int(number)] for number in ours_and_numbers[1::2]]
        ids: list[int] = self._renamed.encode(
            "".join(ours_and_numbers), add_special_tokens=False
        ).ids
        return ids


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ConfigError(
            f"the tokenizer of '{tokenizer.name_or_path}' is a {type(tokenizer).__name__} without "
            "tokenizer.json, and prompts need one: save the fast tokenizer of the model beside it"
        )
    return backend


def _rename_control_tokens(backend: Tokenizer, secret: str) -> tuple[dict[str, str], Tokenizer]:
    """A copy of a tokenizer, and the new names of its added tokens. They may be in the vocabulary
    as well; there they get the new names too, and no merge makes one."""
    fields: dict[str, Any] = json.loads(backend.to_str())
    fields.update(truncation=None, padding=None, post_processor=None)
    added = [token for token in fields["added_tokens"] if not _HARMLESS.fullmatch(token["content"])]
    aliases = {token["content"]: f"<|{secret}t{token['id']}|>" for token in added}
    for token in added:
        token["content"] = aliases[token["content"]]
    model = fields["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {
            aliases.get(piece, piece): number for piece, number in model["vocab"].items()
        }
    else:
        model["vocab"] = [[aliases.get(piece, piece), score] for piece, score in model["vocab"]]
    if "merges" in model:
        model["merges"] = [
            [one, other]
            for one, other in model["merges"]
            if not {one, other, one + other} & aliases.keys()
        ]
    if model.get("unk_token") in aliases:
        model["unk_token"] = aliases[model["unk_token"]]
    renamed: Tokenizer = Tokenizer.from_str(json.dumps(fields))
    for name, alias in aliases.items():
        if renamed.token_to_id(alias) != backend.token_to_id(name):
            raise ConfigError(f"the tokenizer has no place of its own for its token '{name}'")
    return aliases, renamed


def _fold_system(
    messages: list[dict[str, str]], tokenizer: PreTrainedTokenizerBase
) -> list[dict[str, str]]:
    """Some templates (Gemma's) have no system role: the text goes before the first request."""
    template = str(tokenizer.chat_template)
    if "system" in template and "System role not supported" not in template:
        return messages
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]
