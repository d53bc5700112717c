"""Resumes from checkpoints that do not hold everything (`ledger.checkpoint_optimizer`,
`ledger.checkpoint_dtype`): the run goes on, but not as if it had never stopped, and says so."""

import logging
from collections.abc import Sequence

from redqueen.core.world import World
from redqueen.engine.protocol import Engine
from redqueen.engine.saving import EXACT, CheckpointContent, SavesLess
from redqueen.ledger.checkpoint import Checkpoint
from redqueen.ledger.store import Ledger

log = logging.getLogger(__name__)


def saving_of(engine: Engine) -> CheckpointContent:
    return engine.saving if isinstance(engine, SavesLess) else EXACT


def note_losses(checkpoint: Checkpoint, worlds: Sequence[World], ledger: Ledger) -> None:
    """Write down what the checkpoint did not have. Optimizers begin anew, as at birth, and rates
    rise once more: the first steps of AdamW are as large as the rate whatever the gradient is."""
    saving = CheckpointContent(**checkpoint.state.get("saving", {}))
    if saving.is_exact or not checkpoint.step:
        return
    if not saving.optimizer:
        for world in worlds:
            world.rates_rise_from = {member.id: member.version for member in world.members}
    log.warning(
        "resumed after step %d %s: later steps are not those of a run that was never stopped. "
        "Its ledger says so.",
        checkpoint.step,
        saving,
    )
    ledger.add("run", [{"name": f"resumed/{checkpoint.step}", "value": str(saving)}])
