"""The walls around the process that reads formulas."""

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from redqueen.benchmarks.maths.grader import Comparison, MathsGrader
from redqueen.config.sandbox import SandboxConfig
from redqueen.errors import SandboxError

pytestmark = pytest.mark.slow

ATTACKS = {
    "open a file": "open('/etc/passwd')",
    "open a socket": "__import__('socket').socket()",
    "start a process": "os.fork()",
    "signal its parent": "os.kill(os.getppid(), 0)",
    "import a module": "__import__('wave')",
}
BREAKS = {
    "while True: pass": "timeout",
    "bytearray(1 << 40)": "memory",
    "os._exit(0)": "timeout",
    "raise KeyError": "",
    'print(\'{"correct": true, "reason": ""}\', flush=True)\nwhile True: pass': "timeout",
}


def ask(programs: Iterable[str], *options: str) -> list[dict[str, Any]]:
    """What the worker says at its start, and then where one of these stands for a comparison, which
    says yes if it comes to its end."""
    worker = f"""
import os
from redqueen.benchmarks.maths import worker
programs = {list(programs)}
def is_same_formula(gold, formula, answer, *rest):
    exec(programs[int(answer[2:])])
    return True
worker.is_same_formula = is_same_formula
worker.main()
"""
    requests = [
        json.dumps({"gold": "x", "answer": f"x+{number}", "decimals": False, "tolerance": 0.0})
        for number, _ in enumerate(programs)
    ]
    run = subprocess.run(
        [sys.executable, "-c", worker, "1", *options],
        input="".join(f"{request}\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("options", [(), ("namespaces", "landlock")], ids=["all", "seccomp alone"])
def test_what_reads_a_formula_reaches_nothing_and_breaks_nothing_but_itself(
    options: tuple[str, ...],
) -> None:
    started, *said, honest = ask([*ATTACKS.values(), *BREAKS, "assert 1 + 1 == 2"], *options)
    assert started["ready"]["seccomp"] == "up"
    assert all(started["ready"][wall].startswith("down") for wall in options)
    attacks, breaks = said[: len(ATTACKS)], said[len(ATTACKS) :]
    assert [name for name, one in zip(ATTACKS, attacks, strict=True) if one["correct"]] == []
    assert not any(one["correct"] for one in breaks)
    assert [one["reason"] for one in breaks] == list(BREAKS.values())
    assert honest == {"correct": True, "reason": ""}


def test_without_the_filter_it_refuses_to_read_unless_it_is_unsafe() -> None:
    pair = [Comparison("x+1", "1+x")]
    without = SandboxConfig().model_copy(update={"without": ("seccomp",)})
    with (
        MathsGrader(workers=1, sandbox=without) as maths,
        pytest.raises(SandboxError, match="unsafe"),
    ):
        maths.grade(pair)
    unsafe = without.model_copy(update={"unsafe": True})
    with MathsGrader(workers=1, sandbox=unsafe) as maths:
        assert maths.grade(pair)[0].correct
        assert maths.walls["seccomp"].startswith("down")
