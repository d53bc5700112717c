"""The hostile programs, the canaries they aim at, and the meaning of their verdicts."""

import json
import os
import platform
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from redqueen.sandbox import Outcome

SECRET = "S3CR3T-FILE-TOKEN-7781"
ENV_NAME, ENV_SECRET = "REDQUEEN_TEST_TOKEN", "S3CR3T-ENV-TOKEN-4402"
ABSTRACT = f"redqueen-test-{os.getpid()}"


@dataclass(frozen=True)
class Case:
    name: str
    category: str
    program: str
    input: str
    verdict: str


def load_cases() -> list[Case]:
    lines = (Path(__file__).parents[1] / "data" / "hostile.jsonl").read_text().splitlines()
    cases = [
        Case(item["name"], item["category"], item["program"], item["input"], item["verdict"])
        for item in map(json.loads, lines)
    ]
    cases += [
        Case(
            "compile_unary_depth",
            "resource",
            "def f(x): return " + "-" * 60_000 + "1",
            "0",
            "ERROR",
        ),
        Case(
            "compile_paren_depth",
            "resource",
            "def f(x): return " + "(" * 30_000 + "1" + ")" * 30_000,
            "0",
            "ERROR",
        ),
        Case(
            "compile_attribute_chain",
            "resource",
            "def f(x): return x" + ".real" * 10_000,
            "0",
            "CONTAINED",
        ),
        Case(
            "compile_comparison_chain",
            "resource",
            "def f(x): return x" + " < 1" * 15_000,
            "0",
            "CONTAINED",
        ),
        Case(
            "source_huge",
            "resource",
            "x = [" + "1," * 200_000 + "]\ndef f(x): return 1",
            "0",
            "CONTAINED",
        ),
        Case(
            "source_of_elifs",
            "resource",
            "def f(x):\n    if x: pass\n" + "    elif x: pass\n" * 3_000 + "    return 1",
            "0",
            "CONTAINED",
        ),
        Case("input_huge", "data", "def f(x): return len(x)", "[" + "1," * 200_000 + "]", "ERROR"),
        Case("source_surrogate", "data", "def f(x): return '\ud800'", "0", "ERROR"),
        Case("input_surrogate", "data", "def f(x): return x", "'\ud800'", "ERROR"),
    ]
    # system calls are named by number, and the numbers are x86-64's
    return [case for case in cases if case.category != "syscall" or platform.machine() == "x86_64"]


@dataclass
class Canaries:
    """What a program must not reach."""

    folder: Path
    secret: Path
    listeners: list[socket.socket]

    def fill(self, text: str) -> str:
        port = str(self.listeners[0].getsockname()[1])
        for mark, value in (
            ("CANARY_DIR", str(self.folder)),
            ("SECRET_FILE", str(self.secret)),
            ("PORT", port),
            ("ABSTRACT", ABSTRACT),
            ("ENV_TOKEN_NAME", ENV_NAME),
        ):
            text = text.replace("{" + mark + "}", value)
        return text

    def find_traces(self) -> list[str]:
        """What programs have done to them."""
        traces = [f"file {path.name}" for path in self.folder.iterdir()]
        if (
            self.secret.read_text() != SECRET
            or self.secret.stat().st_mtime_ns != 10**18
            or self.secret.stat().st_mode & 0o777 != 0o666
        ):
            traces.append("the secret file was changed")
        with selectors.DefaultSelector() as selector:
            for listener in self.listeners:
                selector.register(listener, selectors.EVENT_READ)
            traces += ["a connection" for _ in selector.select(0.05)]
        return traces


@contextmanager
def canaries(tmp_path: Path) -> Iterator[Canaries]:
    folder, secret = tmp_path / "canary", tmp_path / "secret"
    folder.mkdir()
    folder.chmod(0o777)
    secret.write_text(SECRET)
    secret.chmod(0o666)
    os.utime(secret, ns=(10**18, 10**18))
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        udp.bind(tcp.getsockname())
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind("\0" + ABSTRACT)
        unix.listen()
        yield Canaries(folder, secret, [tcp, udp, unix])


def is_correct(verdict: str, outcome: Outcome) -> bool:
    """VALUE:x exactly that value · NOTVALUE:x anything but it · ERROR no value · TIMEOUT killed at
    a limit, or denied · UNSTABLE results differ · CONTAINED anything, as long as nothing is
    harmed."""
    word, _, expected = verdict.partition(":")
    value = outcome.values[0] if outcome.kind == "value" else None
    if value is not None and (SECRET in value or ENV_SECRET in value):
        return False
    return {
        "VALUE": value == expected,
        "NOTVALUE": value != expected,
        "ERROR": value is None,
        "TIMEOUT": outcome.kind in ("timeout", "error", "memory"),
        "UNSTABLE": outcome.kind in ("unstable", "rejected"),
        "CONTAINED": True,
    }[word]
