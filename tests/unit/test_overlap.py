"""Work beside the writing: results by number, in chunks of one size, whatever comes when."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from redqueen.overlap import CHUNK, Overlap


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.mark.parametrize("count", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_results_are_in_the_order_of_numbers_whatever_the_order_of_arrival(thread: ThreadPoolExecutor, count: int) -> None:
    sizes: list[int] = []

    def work(items: list[str]) -> list[str]:
        sizes.append(len(items))
        return [item.upper() for item in items]

    round_ = Overlap(thread, work)
    numbers = list(range(count))
    Random(1).shuffle(numbers)
    for number in numbers:
        round_.add(number, f"item {number}")
    found, waited = round_.results()
    assert found == [f"ITEM {number}" for number in range(count)]
    assert waited >= 0
    assert sum(sizes) == count and all(size == CHUNK for size in sizes[:-1])


def test_work_begins_with_the_first_whole_chunk(thread: ThreadPoolExecutor) -> None:
    round_: Overlap[int, int] = Overlap(thread, lambda items: items)
    for number in range(CHUNK - 1):
        round_.add(number, number)
    assert not round_.under_way
    round_.add(CHUNK - 1, CHUNK - 1)
    assert list(round_.under_way[0][1].result(timeout=10)) == list(range(CHUNK))


def test_what_goes_wrong_in_the_work_is_raised_where_results_are_asked_for(thread: ThreadPoolExecutor) -> None:
    def work(items: list[int]) -> list[int]:
        raise OSError("the sandbox is gone")

    round_ = Overlap(thread, work)
    for number in range(2 * CHUNK):
        round_.add(number, number)
    with pytest.raises(OSError, match="the sandbox is gone"):
        round_.results()
