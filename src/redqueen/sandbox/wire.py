"""The wire between trainer and zygote: length-prefixed frames over a socketpair.

A request is a small JSON header (limits, sizes: nothing a program may not see) and a body of raw texts. The zygote reads the header
only; the body is decoded in the child. A reply is a fixed header by the zygote (how the child ended) and the child's own bytes, which
are hostile: `read_lines` turns anything at all into results, and never raises.
"""

import json
import struct
from dataclasses import asdict, dataclass
from typing import Any

from redqueen.program.complexity import Complexity
from redqueen.sandbox.jobs import Inspection, Job, Limits, Result
from redqueen.sandbox.literals import NotLiteral, canonical, parse_literal

REQUEST_HEAD = struct.Struct("<II")  # bytes of header, bytes of body
REPLY_HEAD = struct.Struct("<BidI")  # how it ended, wait status, CPU seconds, bytes of body
DONE, WALL, TOO_MUCH = 0, 1, 2  # the child ended · the wall limit ended it · it wrote more than it may
MAX_BODY = 64 * 1024 * 1024


def request(job: Job, inputs: tuple[str, ...], limits: Limits, count_steps: bool) -> bytes:
    """The frame that asks for one run; raises UnicodeEncodeError where a text holds a lone surrogate."""
    texts = [job.program, job.tests, *inputs]
    body = [text.encode() for text in texts]
    header = {
        "mode": job.mode,
        "entry": job.entry,
        "input_as": job.input_as,
        "cpu_s": limits.cpu_s,
        "wall_s": limits.wall_s,
        "memory": limits.memory_mb * 1024 * 1024,
        "output": limits.output_kb * 1024,
        "reply": min(len(inputs) * limits.output_kb * 4096 + (1 << 18), MAX_BODY - 1),
        "allowed_modules": None if job.allowed_modules is None else sorted(job.allowed_modules),
        "count_steps": count_steps,
        "sizes": [len(part) for part in body],
    }
    packed = json.dumps(header).encode()
    return REQUEST_HEAD.pack(len(packed), sum(map(len, body))) + packed + b"".join(body)


@dataclass(frozen=True, slots=True)
class Lines:
    """A child's own bytes, read with suspicion."""

    results: tuple[Result, ...]
    inspection: Inspection | None = None
    rejection: str | None = None
    steps: int | None = None
    finished: bool = False
    """The child came to the end of its work; without this the results are not to be believed."""


_KINDS = {b"V": "value", b"E": "error", b"M": "memory", b"U": "unsupported"}


def read_lines(body: bytes, max_value: int, inspected: bool) -> Lines:
    """One line is one letter and its text. The inspection counts only where it was asked for, and as the very first line: that one
    is written before the program runs."""
    results: list[Result] = []
    inspection: Inspection | None = None
    rejection: str | None = None
    steps: int | None = None
    finished = False
    for index, line in enumerate(body.split(b"\n")[:-1]):
        letter, text = line[:1], line[1:].decode("utf-8", "replace")
        if letter in _KINDS:
            results.append(_result(_KINDS[letter], text, max_value))
        elif letter == b"I" and inspected and index == 0:
            inspection = _inspection(text)
        elif letter == b"R" and inspected and index == 0:
            rejection = _short(text)
        elif letter == b"S":
            steps = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
        elif letter == b".":
            finished = True
    return Lines(tuple(results), inspection, rejection, steps, finished)


def _result(kind: Any, text: str, max_value: int) -> Result:
    if kind != "value":
        return Result(kind, _short(text))
    try:
        if len(text) <= max_value and canonical(parse_literal(text, max_value), max_value) == text:
            return Result("value", text)
        return Result("unsupported", "not in canonical form")
    except (NotLiteral, MemoryError) as error:
        return Result("unsupported", _short(str(error)))


def _short(text: str) -> str:
    """A hostile text as a short line of printable ASCII."""
    return ascii(text[:120])[1:-1]


def write_inspection(canonical_form: str, complexity: Complexity) -> str:
    return json.dumps([canonical_form, asdict(complexity)])


def _inspection(text: str) -> Inspection:
    canonical_form, complexity = json.loads(text)
    return Inspection(canonical_form, Complexity(**complexity))
