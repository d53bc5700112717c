"""Hostile replies against the graders of EvalPlus, LiveCodeBench and CRUXEval: none crashes one,
none is correct, and none costs the evaluator what it costs the sandbox. `make fuzz` runs it for ten
minutes."""

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import pytest

from redqueen.benchmarks.maths.grader import MathsGrader
from redqueen.benchmarks.suite import BASE, CHAT, Graders, PromptStyle
from redqueen.benchmarks.table import BENCHMARKS
from redqueen.benchmarks.wrong_replies import fence
from redqueen.sandbox import Job, Outcome
from redqueen.sandbox.pool import SandboxPool
from tests.contract.benchmark_items import write_items

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("REDQUEEN_FUZZ_S", "0"))
EXAMPLES = 4
OWN_CPU_S = 2.0
"""Of this process, for one reply: the rest is spent where it can be killed."""

SIZES = (0, 1, 2, 70, 5_000, 60_000, *([1_000_000] if SECONDS else []))
TEXTS = (
    "1e1000000000", "-1e-999999999", "sNaN", "nan", "-inf", "Infinity", "9" * 5000, "0x10", "1_0", "", "a\0b", "\ud800", "\u2028", "V1\n.\n", "\\x00",
    "[" * 90_000, "{" * 50, "(" * 3000 + ")" * 3000, "-" * 70_000 + "1", "1+1j", "1e999", "'" * 3, "set()", "None", "#", "{[1]}", "{1: {}}", "1 if 1 else 0",
    "9**9**9", "yes", "'yes'", '["near", 0, []]', "é" * 30_000,
)  # fmt: skip
TAGS = ("\0float", "\0fraction", "\0decimal", "\0complex", "\0digest", "\0tuple", "\0object", "\0deque", "\0", "\0any")  # fmt: skip
SMALL = ("None", "True", "[]", "{}", "()", "b'\\xff'", "1 << 20_000_000", "1j", "2**61 - 1", "-0.0", "float('nan')", "-(1 << 13_999)", "1e308")  # fmt: skip
LARGE = (
    "{i * (2**61 - 1) for i in range(SIZE)}",
    "{('\\0fraction', i * (2**61 - 1), 1) for i in range(SIZE)}",
    "{complex(i, -i * 1000003) for i in range(SIZE)}",
    "{i: i for i in range(SIZE)}",
    "[0.5] * SIZE",
    "'x' * SIZE",
    "'\\0' * SIZE",
    "[[i] for i in range(SIZE)]",
    "[1 << SIZE] * 9",
    "__import__('fractions').Fraction(3 ** SIZE, 5 ** SIZE)",
    "__import__('functools').reduce(lambda a, b: [a], range(SIZE), 1)",
)
OBJECTS = (
    "(lambda loop: loop.append(loop) or loop)([])",
    "__import__('decimal').Decimal('sNaN')",
    "__import__('decimal').Decimal('1e999999999')",
    "type('Yes', (), {'__eq__': lambda a, b: True, '__hash__': None})()",
    "type('Name' * 9000, (), {})()",
    "type('Float', (float,), {'__sub__': lambda a, b: 0})('nan')",
    "(_ for _ in iter(int, 1))",
    "__import__('collections').deque([1])",
)
WORDS = (
    "[", "]", "(", ")", "{", "}", ",", ":", "'", '"', "\\", "-", "+", "**", "9", "10**8", "lambda", "x", "exec", "f", "f(", "=", "==", ".", ".join", ".sort(key=",
    "*", "**{", " ", "\n", "if", "else", "or", "for", "in", "'a' * 10**9", "[0] * 10**8", "9**9**9", "range(10**12)", "set(range(10**7))", "int('9' * 10**6)",
    "lambda x: x(x)", "<answer>", "</answer>", "```", "True", "1e999", "\0", "\ud800", "...", "\u2028", "{i: 0}", "frozenset", "'%099999999d' % 1",
)  # fmt: skip


def value(rng: random.Random, depth: int = 2) -> str:
    """An expression for a hostile value."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return repr(rng.choice(TEXTS))
    if kind == 1:
        parts = [
            rng.choice([repr(rng.choice(TEXTS)), rng.choice(SMALL)])
            for _ in range(rng.randrange(4))
        ]
        return f"({rng.choice(TAGS)!r}, {', '.join(parts)})"
    if kind == 2:
        return rng.choice(LARGE).replace("SIZE", str(rng.choice(SIZES)))
    if kind == 3:
        return rng.choice(OBJECTS)
    if kind == 4:
        return rng.choice(SMALL)
    if kind == 5:
        return f"[{value(rng, depth - 1)}] * {rng.choice(SIZES)}"
    items = ", ".join(value(rng, depth - 1) for _ in range(rng.randrange(1, 4)))
    return f"[{items}]" if kind == 6 else f"({items},)"


def raw_lines(rng: random.Random) -> bytes:
    """What a candidate might write in place of its results."""
    line = rng.choice(["", "V", "V(", "V[1], ", "V'", "E", "."]) + rng.choice(TEXTS)
    lines = line * max(1, rng.choice(SIZES) // (len(line) + 1))
    return f"{lines}\n.\n".encode("utf-8", "surrogatepass")


def returning(name: str, expression: str) -> str:
    return f"def {name}(*a, **k):\n    return {expression}\n"


def writing(name: str, data: bytes) -> str:
    """Writes its results itself."""
    unit, count = data[:4000], 1 + len(data) // 4000
    return (
        f"import os\nfor descriptor in range(3, 25):\n    try:\n        for _ in range({count}):\n"
        f"            os.write(descriptor, {unit!r})\n        os.write(descriptor, b'\\n.\\n')\n"
        f"    except OSError:\n        pass\nos._exit(0)\ndef {name}(*a): pass\n"
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_items(tmp_path_factory.mktemp("benchmarks"))


class Metered:
    """A sandbox that adds up the CPU time of its jobs."""

    def __init__(self, pool: SandboxPool) -> None:
        self.pool, self.cpu_s = pool, 0.0

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        outcomes = self.pool.run(jobs)
        self.cpu_s += sum(outcome.cpu_s for outcome in outcomes)
        return outcomes

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


@pytest.fixture(scope="module")
def graders(pool: SandboxPool) -> Iterator[Graders]:
    with MathsGrader(workers=1) as maths:
        yield Graders(Metered(pool), maths)


log = logging.getLogger(__name__)
worst: dict[str, float] = {}
"""CPU seconds of the slowest reply, by suite."""


def grade(
    name: str, place: int, reply: str, data: Path, graders: Graders, style: PromptStyle = CHAT
) -> None:
    suite = BENCHMARKS[name]
    item = suite.items(data, None)[place]
    sandbox = graders.sandbox
    assert isinstance(sandbox, Metered)
    started, own, sandbox.cpu_s = time.monotonic(), time.process_time(), 0.0
    verdict = suite.grade([item], [reply], style, graders)[0]
    own, wall = time.process_time() - own, time.monotonic() - started
    if own + sandbox.cpu_s > worst.get(name, 0.0):
        worst[name] = own + sandbox.cpu_s
        times = f"{wall:.1f} s, CPU {sandbox.cpu_s:.1f} s in the sandbox and {own:.2f} s here"
        log.info("%s: %s, %s: %r", name, times, verdict.reason, reply[:200])
    assert not verdict.correct, reply
    assert own < OWN_CPU_S, reply
    suite.vote_key(item, reply, style)


def fuzz(check: Callable[[random.Random], None], share: float) -> None:
    """Some examples, the same each time; when fuzzing, others for a share of the time."""
    end, seed = time.monotonic() + SECONDS * share, 0
    while seed < EXAMPLES or time.monotonic() < end:
        seed += 1
        check(random.Random(seed))
    log.info("%d examples", seed)


def test_no_result_crashes_or_stalls_evalplus(data: Path, graders: Graders) -> None:
    def check(rng: random.Random) -> None:
        for name, place, entry in (
            ("humaneval+", 0, "triple"),
            ("humaneval+", 2, "find_zero"),
            ("mbpp+", 0, "common"),
        ):
            grade(name, place, fence(returning(entry, value(rng))), data, graders)
            grade(name, place, fence(writing(entry, raw_lines(rng))), data, graders)

    fuzz(check, share=0.4)


def test_no_output_crashes_or_stalls_livecodebench(data: Path, graders: Graders) -> None:
    def check(rng: random.Random) -> None:
        method = "".join(f"    {line}\n" for line in returning("turn", value(rng)).splitlines())
        lines = raw_lines(rng)[:40_000]
        for place, program in (
            (0, f"print({value(rng)}, end='')"),
            (0, f"import sys\nsys.stdout.buffer.write({lines[:4000]!r} * {rng.choice(SIZES)})"),
            (1, f"class Solution:\n{method}"),
            (1, f"{writing('turn', lines)}\nclass Solution: pass"),
        ):
            grade("livecodebench", place, fence(program), data, graders)

    fuzz(check, share=0.3)


def test_no_answer_crashes_or_stalls_cruxeval(data: Path, graders: Graders) -> None:
    def check(rng: random.Random) -> None:
        words = [rng.choice(rng.choice((WORDS, TEXTS))) for _ in range(rng.randrange(12))]
        text = rng.choice(["".join(words), value(rng)])
        for name in ("cruxeval-o", "cruxeval-i"):
            grade(name, 0, f"<answer>{text}</answer>", data, graders)
            grade(name, 0, text, data, graders, BASE)

    fuzz(check, share=0.3)
