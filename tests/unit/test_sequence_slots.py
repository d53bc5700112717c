"""How workers are dealt out to slots on a GPU, and how rows are routed when slots have unlike numbers
of them."""

from collections import Counter

import torch

from redqueen.engine.torch.blocks import block_size, deal, emptiest, handed_over, packed
from redqueen.engine.torch.population import Population, Routing
from redqueen.models.base import Base


def lanes_of(rows: dict[int, int], workers: int) -> dict[int, int]:
    size = block_size(len(rows), workers)
    return {slot: size * count for slot, count in Counter(deal(rows, workers, size)).items()}


def test_slots_with_about_as_many_rows_have_as_many_lanes() -> None:
    assert lanes_of({0: 144, 1: 136, 2: 120, 3: 150}, 4096) == dict.fromkeys(range(4), 256)
    assert lanes_of({0: 144, 1: 136, 2: 120, 3: 150}, 256) == dict.fromkeys(range(4), 64)


def test_a_slot_with_more_rows_has_more_lanes() -> None:
    workers = lanes_of({0: 576, **dict.fromkeys(range(1, 91), 144)}, 4096)
    assert sum(workers.values()) == 4096
    assert {workers[slot] for slot in range(1, 91)} <= {40, 48} and 3.5 * 40 < workers[0] < 4.5 * 48
    assert lanes_of({0: 1, 1: 1000}, 64) == {
        0: 8,
        1: 56,
    }  # everybody has a block, where there are enough
    assert len(deal(dict.fromkeys(range(20), 8), 64, 8)) == 8  # and some wait, where there are not


def test_few_rows_have_few_lanes_and_all_of_them_one() -> None:
    assert deal({3: 5, 7: 20}, 4096, 16) == [3, 7, 7, 7]
    assert packed({3: 5, 7: 20}, 16) == [3, 7, 7, 7]
    assert packed({3: 5, 7: 20, 9: 40}, 16) == [3, 7, 7, 9, 9, 9, 9, 9]


def test_an_idle_slot_gives_the_blocks_with_the_fewest_rows_as_many_as_the_rest_has_room_for() -> (
    None
):
    assert emptiest([0, 0, 0, 1], [3, 5, 0, 2], 8, [0]) == [
        2,
        0,
    ]  # sixteen workers are free, and the three rows go to the five
    assert emptiest([0, 0, 0, 1], [7, 7, 7, 0], 8, [0]) == []
    assert emptiest([0, 1, 1], [8, 0, 8], 8, [0, 1]) == [1]


def test_neighbours_of_one_slot_are_one_block_where_all_have_as_many() -> None:
    even = Routing.of_runs([2, 2, 3, 3, 4, 4])
    assert (even.slots, even.blocks, even.first) == (None, 3, 2)
    uneven = Routing.of_runs([0, 0, 1, 1, 1, 1, 0, 0])
    assert uneven.slots is not None and uneven.slots.tolist() == [0, 1, 1, 0]
    matrix = torch.arange(4.0)[:, None]
    assert uneven.of_blocks(matrix) is uneven.of_blocks(matrix)  # copied once
    assert uneven.of_blocks(matrix).flatten().tolist() == [0, 1, 1, 0]


def test_idle_blocks_go_where_most_rows_wait_for_each_lane() -> None:
    slots = [0, 0, 1, 2]
    assert handed_over(slots, [0, 1], {0: 0, 1: 40, 2: 9}, 8) == {0: 1, 1: 1}
    assert handed_over(slots, [0, 1], {0: 0, 1: 5, 2: 9}, 8) == {
        0: 2,
        1: 1,
    }  # a block is enough for slot 1
    assert handed_over(slots, [0, 1], {0: 0, 1: 0, 2: 3}, 8) == {0: 2}
    assert handed_over([0, 0], [0], {0: 0, 1: 1, 2: 1}, 8) == {0: 1}  # slots that have none yet


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
    long = Routing.of(
        [2] * 3 + [5] * 5, population, tokens=20
    )  # rows of many tokens are blocks by themselves
    assert (long.blocks, long.index) == (8, None)
