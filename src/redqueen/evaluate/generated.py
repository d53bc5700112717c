"""Problems of a source as a suite: `source=NAME` measures on what a generator makes, from a seed
that no run draws from."""

from functools import lru_cache
from pathlib import Path

from redqueen.benchmarks import suite
from redqueen.benchmarks.suite import PromptStyle
from redqueen.config.stages import VerifyConfig
from redqueen.errors import DataError
from redqueen.evaluate.heldout import ProblemSuite
from redqueen.records import Problem
from redqueen.rng import stream
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import load_kinds
from redqueen.tasks.sources import GENERATORS

PREFIX = "source="
DEFAULT_ITEMS = 200
TIERS = range(1, 11)


class Generated(ProblemSuite):
    """Made and verified when it is loaded: the same ones every time."""

    max_tokens = 2048
    note = ""

    def __init__(self, name: str) -> None:
        self.name = name
        GENERATORS[name.removeprefix(PREFIX)]  # an unknown one is named at once

    def prompt_version(self, style: PromptStyle) -> str:
        return f"{style.prompt_format.name}-1"

    def items(self, data: Path | None, limit: int | None) -> list[suite.Item]:
        problems = _make(self.name.removeprefix(PREFIX), limit or DEFAULT_ITEMS)
        if not problems:
            raise DataError(f"{self.name} has no valid problem")
        return [suite.Item(problem.key, {"problem": problem}, problem.kind) for problem in problems]


@lru_cache(8)
def _make(source: str, count: int) -> tuple[Problem, ...]:
    payloads = GENERATORS[source](stream(0, "suite", source), count, TIERS, ())
    kinds = load_kinds(*dict.fromkeys(kind for kind, _ in payloads))
    with SandboxPool() as sandbox:
        posed = [(kind, payload, None) for kind, payload in payloads]
        verdicts = verify_payloads(posed, kinds, sandbox, VerifyConfig())
    found = (verdict for verdict in verdicts if isinstance(verdict, Problem))
    return tuple({problem.key: problem for problem in found}.values())
