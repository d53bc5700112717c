"""Grades replies to exported problems, for other trainers: 1 for a correct answer, 0 for any other.

What must be executed runs in the sandbox of this process, which starts with the first reply.
"""

import atexit
import json
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from redqueen.config.sandbox import SandboxConfig
from redqueen.config.stages import VerifyConfig
from redqueen.errors import DataError, unknown
from redqueen.sandbox import Sandbox
from redqueen.sandbox.backends import open_sandbox
from redqueen.stages.solve import grade_answers
from redqueen.tasks import load_kinds
from redqueen.tasks.kind import load_problem
from redqueen.tasks.prompts import load_prompt_format

_lock = threading.Lock()


@cache
def _sandbox() -> Sandbox:
    sandbox = open_sandbox(SandboxConfig())
    atexit.register(sandbox.close)
    return sandbox


def grade_replies(
    problems: Sequence[str], replies: Sequence[str], kinds: Sequence[str] = ()
) -> list[float]:
    """Problems as an export has them, and a reply to each. Kinds of your own must be named: a file
    cannot make us import anything."""
    known = {**load_kinds(), **load_kinds(*kinds)}
    answers = []
    for text, reply in zip(problems, replies, strict=True):
        fields: dict[str, Any] = json.loads(text)
        if fields["kind"] not in known:
            raise DataError(unknown("task kind", fields["kind"], known))
        answers.append((load_problem(fields, known[fields["kind"]]), reply))
    with _lock:
        attempts = grade_answers(
            answers, known, load_prompt_format("chat"), _sandbox(), VerifyConfig()
        )
    return [float(attempt.verdict == "correct") for attempt in attempts]
