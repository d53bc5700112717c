"""How lanes are dealt out to slots on a GPU, and how rows are routed when slots have unlike numbers of them."""

import torch

from redqueen.engine.generate import _shares
from redqueen.model.base import Base
from redqueen.model.population import Population, Routing


def test_slots_with_about_as_many_rows_have_as_many_lanes() -> None:
    assert _shares({0: 144, 1: 136, 2: 120, 3: 150}, 4096) == dict.fromkeys(range(4), 256)
    assert _shares({0: 144, 1: 136, 2: 120, 3: 150}, 256) == dict.fromkeys(range(4), 64)


def test_a_slot_with_more_rows_has_more_lanes() -> None:
    shares = _shares({0: 576, **dict.fromkeys(range(1, 91), 144)}, 4096)
    assert (shares[0], shares[1]) == (128, 32)
    assert sum(shares.values()) <= 4096
    assert _shares({0: 1, 1: 1000}, 64) == {0: 1, 1: 32}  # everybody has one


def test_blocks_of_a_slot_with_more_rows_are_served_like_the_others(pawn: Base) -> None:
    class Stub:
        device = torch.device("cpu")
        rank = 8

    population: Population = Stub()  # type: ignore[assignment]
    routing = Routing.of([2] * 8 + [5] * 24, population)
    assert (routing.blocks, routing.index) == (4, None)
    assert routing.slots is not None and routing.slots.tolist() == [2, 5, 5, 5]
    rows = torch.arange(32.0).view(32, 1, 1)
    assert torch.equal(routing.scatter(routing.gather(rows), 1), rows)
    assert Routing.of([2] * 3 + [5] * 5, population).index is not None  # too small to be blocks
    long = Routing.of([2] * 3 + [5] * 5, population, tokens=20)  # rows of many tokens are blocks by themselves
    assert (long.blocks, long.index) == (8, None)
