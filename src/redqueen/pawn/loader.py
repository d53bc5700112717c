"""The data loader of pre-training: shards of documents are made by other processes, packed into
rows of tokens, and delivered in order."""

import itertools
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from redqueen.pawn.documents import make_shard
from redqueen.pawn.tokenizer import PAD_ID

Rows = np.ndarray[tuple[int, int], np.dtype[np.uint16]]
"""Tokens, [row, position]."""


class DocumentLoader:
    """The documents of one seed, without excluded programs. Their order does not depend on the
    number of processes."""

    def __init__(
        self,
        seed: int,
        excluded: frozenset[str],
        workers: int,
        reasoning_share: float = 1.0,
        reasoning_tier: int = 10,
        solving_tier: int = 10,
        careful_share: float = 0.0,
        critique_share: float = 0.0,
        logic_share: float = 0.0,
        turn_reasoning_share: float = 0.4,
    ) -> None:
        self.workers = max(1, workers)
        self.documents = 0
        self.waited_s = 0.0
        self._settings = (
            *(seed, excluded, reasoning_share, reasoning_tier, solving_tier),
            *(careful_share, critique_share, logic_share, turn_reasoning_share),
        )

    def __enter__(self) -> "DocumentLoader":
        # spawn, not fork: the trainer has threads and a GPU
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(self.workers, context, _start, self._settings)
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def tokenizer_documents(self, shards: int) -> list[str]:
        """Documents to train the tokenizer on, from shards that the model is not trained on."""
        return [
            document
            for documents in self.pool.map(_make_documents, range(-shards, 0))
            for document in documents
        ]

    def batches(self, tokenizer: Tokenizer, rows: int, length: int) -> Iterator[Rows]:
        """Batches of this many rows of tokens: whole documents, then padding."""
        text = tokenizer.to_str()
        pending: deque[Future[tuple[int, Rows]]] = deque()
        ready: Rows = np.zeros((0, length), dtype=np.uint16)
        for number in itertools.count():
            pending.append(self.pool.submit(_make_rows, number, text, length))
            if len(pending) < 4 * self.workers:
                continue
            started = time.monotonic()
            documents, new_rows = pending.popleft().result()
            self.waited_s += time.monotonic() - started
            self.documents += documents
            ready = np.concatenate([ready, new_rows])
            while len(ready) >= rows:
                yield ready[:rows]
                ready = ready[rows:]


# In the other processes, which do not load torch.

_settings: list[Any] = []
"""What `make_shard` is given besides the shard's number: it begins with the seed."""


def _start(*settings: Any) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.nice(10)  # training comes first: if it runs out of documents it waits, and frees its core
    _settings[:] = settings


def _make_documents(number: int) -> list[str]:
    seed, *others = _settings
    return make_shard(seed, number, *others)


@cache
def _load_tokenizer(text: str) -> Tokenizer:
    return Tokenizer.from_str(text)


def _make_rows(number: int, tokenizer: str, length: int) -> tuple[int, Rows]:
    """How many documents the shard has, and their tokens in rows."""
    encodings = _load_tokenizer(tokenizer).encode_batch(_make_documents(number))
    return len(encodings), pack_rows([encoding.ids for encoding in encodings], length, PAD_ID)


def pack_rows(documents: Sequence[Sequence[int]], length: int, pad: int) -> Rows:
    """Each document into the first row with room for it. Documents longer than a row are left
    out."""
    rows: list[list[int]] = []
    first = 0  # rows before this one are considered full
    for document in documents:
        if len(document) > length:
            continue
        place = next(
            (
                place
                for place in range(first, len(rows))
                if len(rows[place]) + len(document) <= length
            ),
            len(rows),
        )
        if place == len(rows):
            rows.append([])
            first = max(first, place - 16)
        rows[place].extend(document)
    packed = np.full((len(rows), length), pad, dtype=np.uint16)
    for row, tokens in zip(packed, rows, strict=True):
        row[: len(tokens)] = tokens
    return packed
