"""heldout-large: 10,000 problems of tiers 4 to 7, sampled on demand and kept in a cache folder.

An eighth of all programs, by a hash of their key, is reserved: no pre-training document, archive
seed or fixed problem has one, and this suite has no other. So it is disjoint from training by
construction, however much is sampled on either side, and from the other suites by their keys.
"""

import gzip
import hashlib
import json
import logging
import os
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from redqueen.errors import DataError
from redqueen.pawn.documents import make_problem
from redqueen.pawn.heldout import Item, excluded_keys, make_item
from redqueen.pawn.programs import is_reserved, sample_program
from redqueen.rng import stream
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.programs import DEDUCTION

log = logging.getLogger(__name__)

NAME = "heldout-large"
COUNT = 10_000
TIERS = range(4, 8)
"""Where there is something to learn: lower tiers have few programs, higher ones few answers."""
_SEED = 605_16728
_CHECKSUM = "604ac46c97b1e407b90638136bca81f6a0ecf5c26c3e564f8c180c2e39e96215"
"""Of the lines: the suite is the same wherever it is sampled."""


@cache
def load_large() -> tuple[Item, ...]:
    """The items, from the cache folder or sampled now, which takes minutes."""
    path = cache_folder() / f"{NAME}-{_CHECKSUM[:12]}.jsonl.gz"
    data = _read(path)
    if data is None:
        log.info("sampling %d problems of %s: once, into %s", COUNT, NAME, path)
        data = "".join(json.dumps(line) + "\n" for line in sample_lines(COUNT)).encode()
        if hashlib.sha256(data).hexdigest() != _CHECKSUM:
            raise DataError(
                f"{NAME} came out other than it should: the package's grammar is not the one that "
                "the suite was frozen with"
            )
        _keep(path, data)
    return tuple(make_item(json.loads(line)) for line in data.decode().splitlines())


def cache_folder() -> Path:
    return Path(os.environ.get("REDQUEEN_CACHE") or Path.home() / ".cache" / "redqueen")


def sample_lines(count: int) -> Iterator[dict[str, Any]]:
    """So many problems, as evenly over tiers and kinds as possible."""
    seen = set(excluded_keys())
    kinds = list(KINDS)
    streams = {tier: stream(_SEED, "pawn", NAME, tier) for tier in TIERS}
    for number in range(count):
        if number and number % 500 == 0:
            log.info("%s: %d of %d problems", NAME, number, count)
        tier = TIERS[number % len(TIERS)]
        program = sample_program(streams[tier], tier)
        while program.key in seen or not is_reserved(program.key):
            program = sample_program(streams[tier], tier)
        seen.add(program.key)
        problem = make_problem(kinds[number // len(TIERS) % len(kinds)], program)
        yield {
            "kind": problem.kind,
            "tier": tier,
            "program": program.text,
            "inputs": problem.payload.inputs,
            "outputs": problem.gold,
            "message": problem.payload.message,
            "steps": len(program.traces[0]),
        }


def deduction_lines(count: int) -> Iterator[dict[str, Any]]:
    """The first problems of deduction: `heldout-deduction`, which ships with the package."""
    lines = (line for line in sample_lines(COUNT) if line["kind"] == DEDUCTION)
    yield from islice(lines, count)


def _read(path: Path) -> bytes | None:
    """None where the file is missing or not what it should be."""
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error):
        return None
    return data if hashlib.sha256(data).hexdigest() == _CHECKSUM else None


def _keep(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(gzip.compress(data, 6, mtime=0))
        part.replace(path)
    except OSError as error:
        log.warning("%s is not kept (%s): set REDQUEEN_CACHE to a folder", path, error.strerror)
