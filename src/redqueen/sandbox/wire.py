"""The wire between trainer and zygote: length-prefixed frames over a socketpair.

A request is a fixed head with the limits, which is all that the zygote reads, and a body that is
decoded in the child: first the instructions, then the raw texts. A reply is a fixed head from the
zygote (how the child ended) and the child's own bytes, which are hostile: `read_lines` turns any
bytes into results, and never raises.
"""

import itertools
import json
import struct
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from redqueen.sandbox.inspection.complexity import Complexity
from redqueen.sandbox.literals import NotLiteral, canonical, parse_literal
from redqueen.sandbox.protocol import Inspection, Job, Limits, Result


class Head(NamedTuple):
    """What the zygote reads of a request. Nothing here needs to be hidden from a program."""

    serial: int
    """Returned with the reply, so that a reply to another request is recognised."""
    mode: int
    cpu_s: float
    wall_s: float
    memory: int
    output: int
    """Bytes of one value's canonical text, or of a script's output."""
    reply: int
    """Bytes the child may write in total."""
    body: int
    """Bytes that follow."""


REQUEST = struct.Struct("<QBddQQQI")
REPLY = struct.Struct("<QBidI")  # serial, state, wait status, CPU seconds, bytes of body
GREETING = 0  # the serial of the frame that a zygote sends when it is ready
CALL, SCRIPT, TESTS = 0, 1, 2
# States: the child exited · it was killed at the wall limit · it wrote more than it may.
DONE, WALL, TOO_MUCH = 0, 1, 2
MAX_BODY = 64 * 1024 * 1024
MAX_STEPS = 10_000  # counting stops here: tracing costs about 0.3 us a line
_MODES = {"call": CALL, "script": SCRIPT, "tests": TESTS}


_serials = itertools.count(GREETING + 1)


def write_request(
    job: Job,
    inputs: tuple[str, ...],
    limits: Limits,
    count_steps: bool,
    report_touches: bool = False,
) -> tuple[int, bytes]:
    """The serial and the frame of a request for one run; raises UnicodeEncodeError if a text
    contains a lone surrogate."""
    texts = [text.encode() for text in (job.program, job.tests, *inputs)]
    modules = "-" if job.allowed_modules is None else " ".join(sorted(job.allowed_modules))
    sizes = " ".join([str(len(text)) for text in texts])
    lines = (job.entry, job.input_as, f"{count_steps:d}", f"{report_touches:d}", modules, sizes)
    order = "\n".join(lines).encode()
    body = len(order).to_bytes(4, "little") + order + b"".join(texts)
    output = limits.output_kb * 1024
    head = Head(
        serial=next(_serials),
        mode=_MODES[job.mode],
        cpu_s=limits.cpu_s,
        wall_s=limits.wall_s,
        memory=limits.memory_mb << 20,
        output=output,
        reply=min(len(inputs) * 4 * output + (1 << 18), MAX_BODY - 1),
        body=len(body),
    )
    return head.serial, REQUEST.pack(*head) + body


class Order(NamedTuple):
    """The instructions to the child, at the front of a request's body."""

    entry: str
    expression: bool
    count_steps: bool
    report_touches: bool
    allowed_modules: list[str] | None
    sizes: list[int]
    """Bytes of the program, the tests and each input."""
    start: int
    """Where in the body the texts begin."""


def read_order(body: memoryview) -> Order:
    start = 4 + int.from_bytes(body[:4], "little")
    lines = str(body[4:start], "utf-8").split("\n")
    entry, input_as, count_steps, report_touches, modules, sizes = lines
    allowed = None if modules == "-" else modules.split(" ")
    return Order(
        entry,
        input_as == "expression",
        count_steps == "1",
        report_touches == "1",
        allowed,
        [int(size) for size in sizes.split(" ")],
        start,
    )


@dataclass(frozen=True, slots=True)
class Lines:
    """What a child wrote, parsed without trusting it."""

    results: tuple[Result, ...]
    inspection: Inspection | None = None
    rejection: str | None = None
    steps: int | None = None
    touches: str = ""
    finished: bool = False
    """The child reached its end; otherwise the results cannot be trusted."""


_KINDS = {b"V": "value", b"E": "error", b"M": "memory", b"U": "unsupported", b"C": "crashed"}


def read_lines(
    body: bytes, count: int, max_value: int, inspected: bool, checked: bool = True
) -> Lines:
    """A line is one letter and its text. Lines beyond those that `count` results need are ignored.
    The inspection counts only if it was requested and comes first, what the program touches only if
    it comes next: both are written before the program runs. Unchecked values are taken as they are,
    only to be compared with checked ones."""
    results: list[Result] = []
    inspection: Inspection | None = None
    rejection: str | None = None
    steps: int | None = None
    touches = ""
    finished = False
    for index, line in enumerate(body.split(b"\n", count + 4)[:-1]):
        letter, text = line[:1], line[1:].decode("utf-8", "replace")
        if letter == b"V" and not checked:
            results.append(Result("value", text))
        elif letter in _KINDS:
            results.append(_read_result(_KINDS[letter], text, max_value))
        elif letter == b"I" and inspected and index == 0:
            inspection = _read_inspection(text)
        elif letter == b"R" and inspected and index == 0:
            rejection = shorten(text)
        elif letter == b"T" and index == inspected:
            touches = text
        elif letter == b"S":
            is_count = text.isascii() and text.isdigit() and len(text) < 10
            steps = min(int(text), MAX_STEPS) if is_count else None
        elif letter == b".":
            finished = True
    return Lines(tuple(results), inspection, rejection, steps, touches, finished)


def _read_result(kind: Any, text: str, max_value: int) -> Result:
    if kind != "value":
        return Result(kind, shorten(text))
    try:
        if len(text) <= max_value and canonical(parse_literal(text, max_value), max_value) == text:
            return Result("value", text)
        return Result("unsupported", "not in canonical form")
    except (NotLiteral, MemoryError) as error:
        return Result("unsupported", shorten(str(error)))


def shorten(text: str) -> str:
    """A hostile text as a short line of printable ASCII."""
    return ascii(text[:120])[1:-1]


def write_inspection(canonical_form: str, complexity: Complexity) -> str:
    return json.dumps([canonical_form, asdict(complexity)])


def _read_inspection(text: str) -> Inspection:
    canonical_form, complexity = json.loads(text)
    return Inspection(canonical_form, Complexity(**complexity))
