"""Where completions have written a stop text: a text that a model can spell with several tokens.

To decode the end of every sequence at every sync would keep the GPU waiting for the host: with 512
sequences, for a tenth of the time. So the device looks first whether a new token can be the end of
a stop text at all, and few sequences have one.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from redqueen.engine.torch.routing import put
from redqueen.models.base import Base


class StopTexts:
    """The stop texts of one call of the sampler."""

    def __init__(self, base: Base, texts: Sequence[str], steps_per_sync: int) -> None:
        self.base, self.texts, self.device = base, tuple(texts), base.device
        self.new = steps_per_sync + 1
        """Tokens since the last sync, at the most: the first one comes with the prefill."""
        # a token has at least one byte of text
        self.reach = self.new + max((len(text.encode()) for text in self.texts), default=0)
        self.ends: Tensor | None = None
        """[vocabulary]: whether a token can end a stop text; None where any may."""
        if self.texts and all(map(_is_plain, self.texts)):
            last = frozenset(text[-1] for text in self.texts)
            size = base.model.config.get_text_config().vocab_size
            self.ends = _end_tokens(base.tokenizer, size, last, base.device)

    def find(
        self, out_tokens: Tensor, seq_slots: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> dict[int, int]:
        """The sequence slots, of these, whose completion has a stop text, with the number of tokens
        up to its end. `counts` are the tokens that each has, rows of `out_tokens`. A text that ends
        in an old token was found at an earlier sync, so only the tail is decoded first."""
        if not self.texts:
            return {}
        if self.ends is not None:
            ended = self.ends[self._tails(out_tokens, seq_slots, counts, self.new)].any(1)
            chosen = ended.cpu().numpy()
            seq_slots, counts = seq_slots[chosen], counts[chosen]
        if not len(seq_slots):
            return {}
        tails = self._tails(out_tokens, seq_slots, counts, self.reach).tolist()
        cuts = {}
        for slot, count, tail in zip(seq_slots.tolist(), counts.tolist(), tails, strict=True):
            if self._has_text(tail[-min(count, self.reach) :]):
                cut = self._cut(out_tokens[slot, :count].tolist())
                if cut is not None:
                    cuts[slot] = cut
        return cuts

    def _tails(
        self,
        out_tokens: Tensor,
        seq_slots: NDArray[np.int64],
        counts: NDArray[np.int64],
        length: int,
    ) -> Tensor:
        """[sequences, length]: the last tokens of each; the first, again and again, where it has
        fewer."""
        places = np.maximum(counts[:, None] - length + np.arange(length), 0)
        rows = put(torch.from_numpy(seq_slots), self.device)
        return out_tokens[rows[:, None], put(torch.from_numpy(places), self.device)]

    def _has_text(self, tokens: Sequence[int]) -> bool:
        decoded = self.base.decode(tokens)
        return any(text in decoded for text in self.texts)

    def _cut(self, tokens: list[int]) -> int | None:
        """The fewest tokens whose text contains a stop text; None where none is there."""
        if not self._has_text(tokens):
            return None
        low, high = max(1, len(tokens) - self.new + 1), len(tokens)
        while low < high:
            middle = (low + high) // 2
            if self._has_text(tokens[:middle]):
                high = middle
            else:
                low = middle + 1
        return low


def _is_plain(text: str) -> bool:
    """Whether its last character is in the text of the token that ends it: it is a single byte, and
    no white space, which tokenizers write in ways of their own."""
    return text[-1:].isascii() and text[-1:].isprintable() and not text[-1:].isspace()


@lru_cache(maxsize=8)
def _end_tokens(
    tokenizer: PreTrainedTokenizerBase,
    vocabulary: int,
    characters: frozenset[str],
    device: torch.device,
) -> Tensor:
    """[vocabulary]: whether the text of a token has one of these characters. Models can sample
    tokens that the tokenizer does not know, and these have no text."""
    pieces = tokenizer.get_vocab()
    ends = np.zeros(max(vocabulary, 1 + max(pieces.values())), dtype=bool)
    # pieces such as <0x3E> stand for a byte, whichever it is
    ends[
        [
            token
            for piece, token in pieces.items()
            if piece.startswith("<0x") or any(character in piece for character in characters)
        ]
    ] = True
    return torch.from_numpy(ends).to(device)
