"""Red Queen: teachers and students as LoRA adapters on one frozen model, in an arms race of
verifiable problems.

    import redqueen as rq

    config = rq.load_config("pawn-cpu", steps=8)
    with rq.Run.create(config, "runs/mine") as run:
        for step in run:
            print(step.number, step.metrics["solve/pass_rate"])
        print(rq.evaluate(run, "heldout-quick"))

Names are imported when they are first used: `import redqueen` loads neither torch nor pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from redqueen.config.schema import Config
    from redqueen.config.study import load_study
    from redqueen.config.toml import load_config
    from redqueen.core.run import Run, StepResult
    from redqueen.errors import RedQueenError
    from redqueen.evaluate.result import EvalResult
    from redqueen.evaluate.runner import evaluate
    from redqueen.ledger.run_reader import RunReader, open_run
    from redqueen.records import Attempt, Member, Problem
    from redqueen.report.export.members import export_member, export_soup
    from redqueen.report.export.problems import export_problems
    from redqueen.report.page import report
    from redqueen.report.trackers import track
    from redqueen.sandbox import Job, Outcome
    from redqueen.sandbox.pool import SandboxPool as Sandbox

_NAMES = {
    "Attempt": "redqueen.records",
    "Config": "redqueen.config.schema",
    "EvalResult": "redqueen.evaluate.result",
    "Job": "redqueen.sandbox",
    "Member": "redqueen.records",
    "Outcome": "redqueen.sandbox",
    "Problem": "redqueen.records",
    "RedQueenError": "redqueen.errors",
    "Run": "redqueen.core.run",
    "RunReader": "redqueen.ledger.run_reader",
    "Sandbox": "redqueen.sandbox.pool:SandboxPool",
    "StepResult": "redqueen.core.run",
    "evaluate": "redqueen.evaluate.runner",
    "export_member": "redqueen.report.export.members",
    "export_problems": "redqueen.report.export.problems",
    "export_soup": "redqueen.report.export.members",
    "load_config": "redqueen.config.toml",
    "load_study": "redqueen.config.study",
    "open_run": "redqueen.ledger.run_reader",
    "report": "redqueen.report.page",
    "track": "redqueen.report.trackers",
}
__all__ = [
    "Attempt",
    "Config",
    "EvalResult",
    "Job",
    "Member",
    "Outcome",
    "Problem",
    "RedQueenError",
    "Run",
    "RunReader",
    "Sandbox",
    "StepResult",
    "__version__",
    "evaluate",
    "export_member",
    "export_problems",
    "export_soup",
    "load_config",
    "load_study",
    "open_run",
    "report",
    "track",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'redqueen' has no attribute '{name}'")
    module, _, attribute = _NAMES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
