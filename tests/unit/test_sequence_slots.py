"""How sequence slots are given to adapters in blocks, and how sequences are routed when adapters have
unequal numbers of them."""

from collections import Counter

import torch

from redqueen.engine.torch.population import Population
from redqueen.engine.torch.routing import Routing
from redqueen.engine.torch.slot_blocks import (
    allocate_blocks,
    block_size,
    find_spare_blocks,
    pack_blocks,
    reassign_blocks,
)
from redqueen.models.base import Base


def seq_slots_of(requests: dict[int, int], max_num_seqs: int) -> dict[int, int]:
    size = block_size(len(requests), max_num_seqs)
    blocks = Counter(allocate_blocks(requests, max_num_seqs, size))
    return {adapter: size * count for adapter, count in blocks.items()}


def test_adapters_with_about_as_many_requests_have_as_many_sequence_slots() -> None:
    assert seq_slots_of({0: 144, 1: 136, 2: 120, 3: 150}, 4096) == dict.fromkeys(range(4), 256)
    assert seq_slots_of({0: 144, 1: 136, 2: 120, 3: 150}, 256) == dict.fromkeys(range(4), 64)


def test_an_adapter_with_more_requests_has_more_sequence_slots() -> None:
    slots = seq_slots_of({0: 576, **dict.fromkeys(range(1, 91), 144)}, 4096)
    assert sum(slots.values()) == 4096
    assert {slots[adapter] for adapter in range(1, 91)} <= {40, 48}
    assert 3.5 * 40 < slots[0] < 4.5 * 48
    # every adapter has a block where there are enough, and some wait where there are not
    assert seq_slots_of({0: 1, 1: 1000}, 64) == {0: 8, 1: 56}
    assert len(allocate_blocks(dict.fromkeys(range(20), 8), 64, 8)) == 8


def test_few_requests_have_few_sequence_slots_and_every_request_has_one() -> None:
    assert allocate_blocks({3: 5, 7: 20}, 4096, 16) == [3, 7, 7, 7]
    assert pack_blocks({3: 5, 7: 20}, 16) == [3, 7, 7, 7]
    assert pack_blocks({3: 5, 7: 20, 9: 40}, 16) == [3, 7, 7, 9, 9, 9, 9, 9]


def test_an_idle_adapter_gives_up_the_emptiest_blocks_as_many_as_its_others_have_room_for() -> None:
    # sixteen slots are free, and the three sequences fit beside the five
    assert find_spare_blocks([0, 0, 0, 1], [3, 5, 0, 2], 8, [0]) == [2, 0]
    assert find_spare_blocks([0, 0, 0, 1], [7, 7, 7, 0], 8, [0]) == []
    assert find_spare_blocks([0, 1, 1], [8, 0, 8], 8, [0, 1]) == [1]


def test_spare_blocks_go_where_most_requests_wait_for_each_slot() -> None:
    owners = [0, 0, 1, 2]
    assert reassign_blocks(owners, [0, 1], {0: 0, 1: 40, 2: 9}, 8) == {0: 1, 1: 1}
    # one block is enough for adapter 1
    assert reassign_blocks(owners, [0, 1], {0: 0, 1: 5, 2: 9}, 8) == {0: 2, 1: 1}
    assert reassign_blocks(owners, [0, 1], {0: 0, 1: 0, 2: 3}, 8) == {0: 2}
    # adapters that have no block yet
    assert reassign_blocks([0, 0], [0], {0: 0, 1: 1, 2: 1}, 8) == {0: 1}


def test_neighbours_of_one_slot_are_one_block_where_all_have_as_many() -> None:
    even = Routing.of_runs([2, 2, 3, 3, 4, 4])
    assert (even.slots, even.blocks, even.first) == (None, 3, 2)
    uneven = Routing.of_runs([0, 0, 1, 1, 1, 1, 0, 0])
    assert uneven.slots is not None and uneven.slots.tolist() == [0, 1, 1, 0]
    matrix = torch.arange(4.0)[:, None]
    assert uneven.of_blocks(matrix) is uneven.of_blocks(matrix)  # copied once
    assert uneven.of_blocks(matrix).flatten().tolist() == [0, 1, 1, 0]


def test_blocks_of_an_adapter_with_more_sequences_are_served_like_the_others(pawn: Base) -> None:
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
