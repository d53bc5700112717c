"""Where the blocks of a run are computed, for the ledger: devices of different types round
differently, so that records follow them."""

import platform
from dataclasses import asdict

from redqueen.core.state import Row
from redqueen.engine.blocks.engine import BlockEngine
from redqueen.engine.blocks.layout import Placement
from redqueen.engine.protocol import Engine


class PlacementLog:
    """Says what has changed since it was last asked; first, all of it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[int, Placement] = {}

    def changes(self) -> list[Row]:
        now = {one.block: one for one in _placements(self._engine)}
        changed = [one for block, one in now.items() if self._known.get(block) != one]
        self._known = now
        return [asdict(one) for one in changed]


def _placements(engine: Engine) -> list[Placement]:
    if isinstance(engine, BlockEngine):
        return engine.placements()
    return [Placement(0, 0, engine.slots, 0, platform.node(), engine.base.hardware)]
