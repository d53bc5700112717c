"""Completions as the replies of OpenAI's API, whole or in pieces."""

import math
from typing import Any

from redqueen.engine.protocol import Tokenizer

_UNSURE = 64
"""Tokens that may stay half a character: more of them are shown as they are."""


class _Growing:
    """The text of tokens as they come. Only the newest are decoded, and those before them, as the
    first of a text may look different: all of them every time would take the square of a text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.decode = tokenizer.decode
        self.tokens: list[int] = []
        self.text, self.first, self.read = "", 0, 0
        """What is settled, and of its tokens the beginning of the newest, and their end."""

    def add(self, tokens: list[int]) -> str:
        self.tokens += tokens
        known, all_ = self.tokens[self.first : self.read], self.tokens[self.first :]
        new = self.decode(all_)[len(self.decode(known)) :]
        if new.endswith("�") and len(self.tokens) - self.read < _UNSURE:
            return self.text + new
        self.text += new
        self.first, self.read = self.read, len(self.tokens)
        return self.text


class Texts:
    """Tokens as the text of replies."""

    def __init__(self, tokenizer: Tokenizer, request: dict[str, Any], chat: bool) -> None:
        self.tokenizer, self.chat = tokenizer, chat
        self.logprobs = request.get("logprobs") not in (None, False, 0)
        stop = request.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        self.stops = [one for one in stops if isinstance(one, str)]
        self.head = {"model": request.get("model"), "created": 0}
        self.growing: dict[int, _Growing] = {}
        self.sent: dict[int, int] = {}

    def text_of(self, tokens: list[int], finish: str) -> str:
        return self._without_stop(self.tokenizer.decode(tokens), finish)

    def _without_stop(self, text: str, finish: str) -> str:
        """It is not part of the answer."""
        if finish == "stop":
            ends = [text.find(stop) for stop in self.stops if stop in text]
            text = text[: min(ends)] if ends else text
        return text

    def whole(self, sequences: list[dict[str, Any]], prompt_tokens: int) -> dict[str, Any]:
        choices = []
        for number, one in enumerate(sequences):
            text = self.text_of(one["tokens"], one["stop_reason"])
            said = (
                {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
            )
            logprobs = self._logprobs(one["tokens"], one["logprobs"])
            choices.append(
                {"index": number, **said, "logprobs": logprobs, "finish_reason": one["stop_reason"]}
            )
        generated = sum(len(one["tokens"]) for one in sequences)
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": prompt_tokens + generated,
        }
        kind = "chat.completion" if self.chat else "text_completion"
        return {"id": "redqueen", "object": kind, **self.head, "choices": choices, "usage": usage}

    def piece(
        self, number: int, tokens: list[int], logprobs: list[float], finish: str
    ) -> dict[str, Any]:
        """What is new of one completion. What may be the beginning of a stop text, or half of a
        character, is held back until it is certain."""
        grown = self.growing.setdefault(number, _Growing(self.tokenizer)).add(tokens)
        text = self._without_stop(grown, finish)
        if not finish:
            text = text[: len(text) - self._uncertain(text)]
        done = self.sent.get(number, 0)
        new, self.sent[number] = text[done:], max(done, len(text))
        said = {"delta": {"content": new}} if self.chat else {"text": new}
        choice = {
            "index": number,
            **said,
            "logprobs": self._logprobs(tokens, logprobs),
            "finish_reason": finish or None,
        }
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {"id": "redqueen", "object": kind, **self.head, "choices": [choice]}

    def _uncertain(self, text: str) -> int:
        most = max([1 if text.endswith("�") else 0, *(len(stop) - 1 for stop in self.stops)])
        return min(most, len(text))

    def _logprobs(self, tokens: list[int], logprobs: list[float]) -> dict[str, Any] | None:
        if not self.logprobs:
            return None
        texts = [self.tokenizer.decode([token]) for token in tokens]
        values = [value if math.isfinite(value) else None for value in logprobs]
        if self.chat:
            pairs = zip(texts, values, strict=True)
            return {
                "content": [
                    {"token": text, "logprob": value, "top_logprobs": []} for text, value in pairs
                ]
            }
        return {"tokens": texts, "token_logprobs": values, "top_logprobs": None, "text_offset": []}
