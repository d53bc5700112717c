"""Completions as the replies of OpenAI's API, whole or in pieces."""

import math
from typing import Any

from redqueen.engine.protocol import Tokenizer


class Texts:
    """Tokens as the text of replies."""

    def __init__(
        self, tokenizer: Tokenizer, request: dict[str, Any], chat: bool, prompt_tokens: int = 0
    ) -> None:
        self.tokenizer, self.chat, self.prompt_tokens = tokenizer, chat, prompt_tokens
        self.logprobs = request.get("logprobs") not in (None, False, 0)
        stop = request.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        self.stops = [one for one in stops if isinstance(one, str)]
        self.head = {"model": request.get("model"), "created": 0}
        self.tokens: dict[int, list[int]] = {}
        self.sent: dict[int, int] = {}

    def text_of(self, tokens: list[int], finish: str) -> str:
        """Without the stop text, which is not part of the answer."""
        text = self.tokenizer.decode(tokens)
        if finish == "stop":
            ends = [text.find(stop) for stop in self.stops if stop in text]
            text = text[: min(ends)] if ends else text
        return text

    def whole(self, sequences: list[dict[str, Any]]) -> dict[str, Any]:
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
        kind = "chat.completion" if self.chat else "text_completion"
        usage = self._usage(sum(len(one["tokens"]) for one in sequences))
        return {"id": "redqueen", "object": kind, **self.head, "choices": choices, "usage": usage}

    def _usage(self, generated: int) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": self.prompt_tokens + generated,
        }

    def piece(
        self, number: int, tokens: list[int], logprobs: list[float], finish: str
    ) -> dict[str, Any]:
        """What is new of one completion. What may be the beginning of a stop text, or half of a
        character, is held back until it is certain."""
        known = self.tokens.setdefault(number, [])
        known += tokens
        text = self.text_of(known, finish)
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
        return self._chunk([choice])

    def usage_piece(self) -> dict[str, Any]:
        """The last one of a stream, where it is asked for."""
        return self._chunk([]) | {"usage": self._usage(sum(map(len, self.tokens.values())))}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {"id": "redqueen", "object": kind, **self.head, "choices": choices}

    def _uncertain(self, text: str) -> int:
        half = len(text) - len(text.rstrip("�"))  # tokenizers have one or more for half a character
        return min(len(text), half + max((len(stop) - 1 for stop in self.stops), default=0))

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
