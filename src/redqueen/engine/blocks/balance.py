"""Which worker trains on which blocks. Samples are known before they are trained on, and a call
ends with its slowest worker; so blocks are exchanged where that saves more time than it takes."""

from collections.abc import Mapping
from dataclasses import dataclass

WORTH = 2.0
"""An exchange has to save this many times what it takes: both are estimates."""


def even_out(loads: Mapping[int, float], places: Mapping[int, int]) -> dict[int, int]:
    """A worker for each block, so that the busiest has less to do. Blocks are exchanged one for
    one: workers keep their number of blocks, which is what they sample for."""
    own: dict[int, list[int]] = {}
    for block, worker in places.items():
        own.setdefault(worker, []).append(block)
    while True:
        totals = {worker: sum(loads.get(b, 0.0) for b in blocks) for worker, blocks in own.items()}
        busiest, *others = sorted(own, key=lambda worker: -totals[worker])
        for other in reversed(others):
            spare = totals[busiest] - totals[other]
            pairs = [
                (abs(spare / 2 - less), mine, theirs)
                for mine in own[busiest]
                for theirs in own[other]
                if 0 < (less := loads.get(mine, 0.0) - loads.get(theirs, 0.0)) < spare
            ]
            if pairs:
                _, mine, theirs = min(pairs)
                own[busiest][own[busiest].index(mine)] = theirs
                own[other][own[other].index(theirs)] = mine
                break
        else:
            return {block: worker for worker, blocks in own.items() for block in blocks}


def longest(loads: Mapping[int, float], places: Mapping[int, int]) -> float:
    """What the busiest worker has to do."""
    totals = dict.fromkeys(places.values(), 0.0)
    for block, load in loads.items():
        totals[places[block]] += load
    return max(totals.values())


@dataclass(slots=True)
class Balancer:
    """Learns from every call how long tokens take, and from every move how long bytes take."""

    bytes_each: float
    """Of a block's state."""
    bytes_per_s: float = 5e8
    """Through the driver. Before the first move: a cautious guess."""
    token_s: float = 0.0
    """Seconds of a token; before the first call nothing is moved."""

    @property
    def move_s(self) -> float:
        """Seconds of one block's move."""
        return self.bytes_each / self.bytes_per_s

    def place(self, tokens: Mapping[int, float], places: Mapping[int, int]) -> Mapping[int, int]:
        """Where the blocks should be for a call with so many tokens of each."""
        better = even_out(tokens, places)
        moved = sum(better[block] != worker for block, worker in places.items())
        saved = (longest(tokens, places) - longest(tokens, better)) * self.token_s
        takes = moved * self.move_s
        return better if saved > WORTH * takes else places

    def trained(self, tokens: Mapping[int, int], seconds: Mapping[int, float]) -> None:
        total = sum(tokens[block] for block in seconds)
        if total:
            self.token_s = sum(seconds.values()) / total

    def moved(self, size: int, blocks: int, seconds: float) -> None:
        """So many blocks, of this size together. Blocks that the redo log restores have none."""
        if size and seconds:
            self.bytes_each, self.bytes_per_s = size / blocks, size / seconds
