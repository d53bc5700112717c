"""Verifies the problems of a run again: a verdict that differs from the recorded one shows a
program that depends on something it should not."""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from redqueen.errors import RedQueenError
from redqueen.ledger.lock import RunLock
from redqueen.ledger.run_reader import open_run
from redqueen.ledger.store import Ledger
from redqueen.records import Rejection
from redqueen.sandbox import Sandbox
from redqueen.stages.verify import verify_payloads
from redqueen.tasks import stored_kind

_log = logging.getLogger(__name__)

FACT = "verified_again"
"""The name of the result among the facts about a run."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    problem: str
    world: int
    verdict: str
    """Why it would be rejected now, or which gold answers it would have."""


@dataclass(frozen=True, slots=True)
class Again:
    problems: int
    disagreements: list[Disagreement]


def verify_again(folder: Path, sandbox: Sandbox) -> Again:
    """Verify every problem of a run under the run's own settings, and record the result there,
    unless the run is of an older version or is being played."""
    count, disagreements = 0, []
    with open_run(folder) as run:
        for world in run.worlds:
            rows = run.problems(world.number)
            kinds = {row["kind"]: stored_kind(row["kind"]) for row in rows}
            payloads = [
                (row["kind"], kinds[row["kind"]].load_payload(row["payload"]), None) for row in rows
            ]
            verdicts = verify_payloads(payloads, kinds, sandbox, world.config.verify)
            count += len(rows)
            for row, verdict in zip(rows, verdicts, strict=True):
                if isinstance(verdict, Rejection):
                    reason = f"{verdict.reason}: {verdict.detail}"
                    disagreements.append(Disagreement(row["problem"], world.number, reason))
                elif list(verdict.gold) != row["gold"]:
                    gold = json.dumps(verdict.gold)
                    disagreements.append(Disagreement(row["problem"], world.number, gold))
    again = Again(count, disagreements)
    try:
        with RunLock(folder), Ledger.open(folder) as ledger:
            ledger.add("run", [{"name": FACT, "value": json.dumps(asdict(again))}])
    except RedQueenError as error:
        _log.warning("the result is not recorded: %s", error)
    return again
