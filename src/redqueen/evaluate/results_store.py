"""What `redqueen eval` has measured of a run, as rows of its ledger, under names that tell them
from what the run measures itself.

Such rows are no part of the run's course: `redqueen digest` leaves them out.
"""

from collections.abc import Sequence
from typing import Any

from redqueen.benchmarks.suite import Item
from redqueen.errors import ConfigError, StorageError
from redqueen.evaluate.attempts import Attempted, Setting, drawn
from redqueen.evaluate.chosen import Chosen
from redqueen.evaluate.members import eval_row
from redqueen.ledger.lock import RunLock, is_held
from redqueen.ledger.store import MEASURED_LATER, Ledger


def kept_name(setting: Setting) -> str:
    """With all that the answers depend on: measurements with other settings do not mix."""
    how = f"{setting.style}, {drawn(setting.samples, setting.temperature)}, {setting.max_tokens} tokens, {setting.dtype}"
    return f"{MEASURED_LATER}{setting.suite} ({setting.prompt_version}, {how})"


def kept_rows(
    chosen: Chosen, setting: Setting, items: Sequence[Item], attempts: Sequence[Attempted]
) -> list[dict[str, Any]]:
    """A row for each attempt; those of the base in every world."""
    name, by_id = kept_name(setting), {item.id: item for item in items}
    places = {one.name: [(one.world, one.saved.member)] for one in chosen.candidates}
    places[setting.members[-1]] = [(world, "base") for world in chosen.worlds]
    return [
        eval_row(
            world,
            chosen.step,
            name,
            setting.prompt_version,
            subject,
            by_id[one.item],
            one.sample,
            one.right,
        )
        for one in attempts
        for world, subject in places[one.member]
    ]


def keep(chosen: Chosen, rows: Sequence[dict[str, Any]]) -> str:
    """Write the rows to the run's ledger. Why not, where that cannot be: a run that is being played
    has one writer already."""
    if is_held(chosen.folder):
        return f"another process is at it, and a run has one writer. When that ends, the same command adds step {chosen.step}, if that is still the last"
    try:
        with RunLock(chosen.folder), Ledger.open(chosen.folder) as ledger:
            if ledger.last_step() < chosen.step:
                return f"the run has gone back behind step {chosen.step} in the meantime"
            ledger.add("evals", rows)
    except (ConfigError, StorageError) as error:
        return str(error)
    return ""
