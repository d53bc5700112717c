"""The wire between trainer and zygote: length-prefixed frames over a socketpair.

A request is a fixed head with the limits, which is all that the zygote reads, and a body that is
decoded in the child: first what to do, then the raw texts. A reply is a fixed head by the zygote
(how the child ended) and the child's own bytes, which are hostile: `read_lines` turns anything at
all into results, and never raises.
"""

import itertools
import json
import struct
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.sandbox.jobs import Inspection, Job, Limits, Result
from redqueen.sandbox.literals import NotLiteral, canonical, parse_literal


class Head(NamedTuple):
    """What the zygote knows of a request. Nothing here is worth hiding from a program."""

    serial: int
    """Comes back with the reply: a reply to anything else is not ours."""
    mode: int
    cpu_s: float
    wall_s: float
    memory: int
    output: int
    """Bytes of one value's canonical text, or of a script's output."""
    reply: int
    """Bytes the child may write in all."""
    body: int
    """Bytes that follow."""


REQUEST = struct.Struct("<QBddQQQI")
REPLY = struct.Struct("<QBidI")  # serial, how it ended, wait status, CPU seconds, bytes of body
GREETING = 0  # the serial of the frame that a zygote sends when it is ready
CALL, SCRIPT, TESTS = 0, 1, 2
DONE, WALL, TOO_MUCH = (
    0,
    1,
    2,
)  # the child ended · the wall limit ended it · it wrote more than it may
MAX_BODY = 64 * 1024 * 1024
MAX_STEPS = 10_000  # counting stops here: a trace costs about 0.3 us a line
_MODES = {"call": CALL, "script": SCRIPT, "tests": TESTS}


_serials = itertools.count(GREETING + 1)


def request(
    job: Job, inputs: tuple[str, ...], limits: Limits, count_steps: bool
) -> tuple[int, bytes]:
    """The frame that asks for one run, and its serial; raises UnicodeEncodeError where a text holds
    a lone surrogate."""
    texts = [text.encode() for text in (job.program, job.tests, *inputs)]
    modules = "-" if job.allowed_modules is None else " ".join(sorted(job.allowed_modules))
    sizes = " ".join([str(len(text)) for text in texts])
    order = f"{job.entry}\n{job.input_as}\n{count_steps:d}\n{modules}\n{sizes}".encode()
    body = len(order).to_bytes(4, "little") + order + b"".join(texts)
    output = limits.output_kb * 1024
    reply = min(len(inputs) * 4 * output + (1 << 18), MAX_BODY - 1)
    serial = next(_serials)
    return serial, REQUEST.pack(
        serial,
        _MODES[job.mode],
        limits.cpu_s,
        limits.wall_s,
        limits.memory_mb << 20,
        output,
        reply,
        len(body),
    ) + body


class Order(NamedTuple):
    """What the child is to do, as it stands at the front of a request's body."""

    entry: str
    expression: bool
    count_steps: bool
    allowed_modules: list[str] | None
    sizes: list[int]
    """Bytes of the program, the tests and each input."""
    start: int
    """Where in the body the texts begin."""


def read_order(body: memoryview) -> Order:
    start = 4 + int.from_bytes(body[:4], "little")
    entry, input_as, count_steps, modules, sizes = str(body[4:start], "utf-8").split("\n")
    allowed = None if modules == "-" else modules.split(" ")
    return Order(
        entry,
        input_as == "expression",
        count_steps == "1",
        allowed,
        [int(size) for size in sizes.split(" ")],
        start,
    )


@dataclass(frozen=True, slots=True)
class Lines:
    """A child's own bytes, read with suspicion."""

    results: tuple[Result, ...]
    inspection: Inspection | None = None
    rejection: str | None = None
    steps: int | None = None
    finished: bool = False
    """The child came to the end of its work; without this the results are not to be believed."""


_KINDS = {b"V": "value", b"E": "error", b"M": "memory", b"U": "unsupported", b"C": "crashed"}


def read_lines(
    body: bytes, count: int, max_value: int, inspected: bool, checked: bool = True
) -> Lines:
    """One line is one letter and its text; more lines than `count` results can need are not looked
    at. The inspection counts only where it was asked for, and as the very first line: that one is
    written before the program runs. Unchecked, values are taken as they stand, to be compared with
    checked ones and no more."""
    results: list[Result] = []
    inspection: Inspection | None = None
    rejection: str | None = None
    steps: int | None = None
    finished = False
    for index, line in enumerate(body.split(b"\n", count + 4)[:-1]):
        letter, text = line[:1], line[1:].decode("utf-8", "replace")
        if letter in _KINDS:
            results.append(
                _result(_KINDS[letter], text, max_value)
                if checked or letter != b"V"
                else Result("value", text)
            )
        elif letter == b"I" and inspected and index == 0:
            inspection = _inspection(text)
        elif letter == b"R" and inspected and index == 0:
            rejection = short(text)
        elif letter == b"S":
            steps = (
                min(int(text), MAX_STEPS)
                if text.isascii() and text.isdigit() and len(text) < 10
                else None
            )
        elif letter == b".":
            finished = True
    return Lines(tuple(results), inspection, rejection, steps, finished)


def _result(kind: Any, text: str, max_value: int) -> Result:
    if kind != "value":
        return Result(kind, short(text))
    try:
        if len(text) <= max_value and canonical(parse_literal(text, max_value), max_value) == text:
            return Result("value", text)
        return Result("unsupported", "not in canonical form")
    except (NotLiteral, MemoryError) as error:
        return Result("unsupported", short(str(error)))


def short(text: str) -> str:
    """A hostile text as a short line of printable ASCII."""
    return ascii(text[:120])[1:-1]


def write_inspection(canonical_form: str, complexity: Complexity) -> str:
    return json.dumps([canonical_form, asdict(complexity)])


def _inspection(text: str) -> Inspection:
    canonical_form, complexity = json.loads(text)
    return Inspection(canonical_form, Complexity(**complexity))
