"""What Pawn reads, as rows of tokens: shards of documents are made by other processes and handed
out in order."""

import itertools
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np
from tokenizers import Tokenizer

from redqueen.pawn.documents import shard
from redqueen.pawn.tokenizer import PAD_ID

Rows = np.ndarray[tuple[int, int], np.dtype[np.uint16]]


class Reading:
    """The documents of one seed, without excluded programs. Their order does not depend on the
    number of processes."""

    def __init__(
        self, seed: int, excluded: frozenset[str], workers: int, thought_share: float = 1.0
    ) -> None:
        self.seed, self.excluded, self.workers, self.thought_share = (
            seed,
            excluded,
            max(1, workers),
            thought_share,
        )
        self.documents = 0
        self.waited_s = 0.0

    def __enter__(self) -> "Reading":
        # spawn, not fork: the trainer has threads and a GPU
        self.pool = ProcessPoolExecutor(
            self.workers,
            multiprocessing.get_context("spawn"),
            _start,
            (self.seed, self.excluded, self.thought_share),
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def of_tokenizer(self, shards: int) -> list[str]:
        """Documents to find the vocabulary from: of shards that are not trained on."""
        return [
            document for found in self.pool.map(_texts, range(-shards, 0)) for document in found
        ]

    def batches(self, tokenizer: Tokenizer, rows: int, length: int) -> Iterator[Rows]:
        """So many rows of tokens at a time: whole documents, filled up with padding."""
        text = tokenizer.to_str()
        waiting: deque[Future[tuple[int, Rows]]] = deque()
        ready: Rows = np.zeros((0, length), dtype=np.uint16)
        for number in itertools.count():
            waiting.append(self.pool.submit(_rows, number, text, length))
            if len(waiting) < 4 * self.workers:
                continue
            started = time.monotonic()
            documents, found = waiting.popleft().result()
            self.waited_s += time.monotonic() - started
            self.documents += documents
            ready = np.concatenate([ready, found])
            while len(ready) >= rows:
                yield ready[:rows]
                ready = ready[rows:]


# in the other processes: no torch there

_seed, _excluded, _thought_share, _tokenizer = 0, frozenset[str](), 1.0, None


def _start(seed: int, excluded: frozenset[str], thought_share: float) -> None:
    global _seed, _excluded, _thought_share
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.nice(
        10
    )  # what trains comes first: where it lacks documents it waits, and there is time to make them
    _seed, _excluded, _thought_share = seed, excluded, thought_share


def _texts(number: int) -> list[str]:
    return shard(_seed, number, _excluded, _thought_share)


def _rows(number: int, tokenizer: str, length: int) -> tuple[int, Rows]:
    """How many documents the shard has, and their tokens in rows."""
    global _tokenizer
    _tokenizer = _tokenizer or Tokenizer.from_str(tokenizer)
    documents = [item.ids for item in _tokenizer.encode_batch(_texts(number))]
    return len(documents), prompt_format(documents, length, PAD_ID)


def prompt_format(documents: Sequence[Sequence[int]], length: int, pad: int) -> Rows:
    """Each document into the first row that has room for it. Documents longer than a row are left
    out."""
    rows: list[list[int]] = []
    first = 0  # rows before this one are as good as full
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
