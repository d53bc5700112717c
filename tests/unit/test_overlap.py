"""Work beside the writing: results by number, whatever comes when."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event

import pytest

from redqueen.core.pipeline import AtOnce, Overlap, beside


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_results_are_in_the_order_of_numbers_whatever_the_order_of_arrival(
    thread: ThreadPoolExecutor, count: int
) -> None:
    sizes: list[int] = []

    def work(items: list[str]) -> list[str]:
        sizes.append(len(items))
        return [item.upper() for item in items]

    waited: list[float] = []
    round_ = Overlap(thread, work, waited)
    numbers = list(range(count))
    Random(1).shuffle(numbers)
    for number in numbers:
        round_.add([(number, f"item {number}")])
    assert round_.results() == [f"ITEM {number}" for number in range(count)]
    assert waited and min(waited) >= 0
    assert sum(sizes) == count


def test_work_begins_with_the_first_item_and_then_takes_all_that_came_meanwhile(
    thread: ThreadPoolExecutor,
) -> None:
    begun, go_on = Event(), Event()
    chunks: list[list[int]] = []

    def work(items: list[int]) -> list[int]:
        chunks.append(items)
        begun.set()
        assert go_on.wait(10)
        return items

    round_ = Overlap(thread, work, [])
    round_.add([(0, 0)])
    assert begun.wait(10)
    for number in range(1, 100):
        round_.add([(number, number)])
    go_on.set()
    assert round_.results() == list(range(100))
    assert chunks == [[0], list(range(1, 100))]


def test_on_a_cpu_the_writing_pauses_for_the_work() -> None:
    done: list[list[int]] = []

    def work(items: list[int]) -> list[int]:
        done.append(items)
        return items

    with beside("cpu") as thread:
        assert isinstance(thread, AtOnce)
        round_ = Overlap(thread, work, [])
        round_.add([(1, 10), (0, 20)])
        assert done == [[10, 20]]
        round_.add([(2, 30)])
        assert round_.results() == [20, 10, 30]
    assert isinstance(beside("cuda"), ThreadPoolExecutor)


def test_what_goes_wrong_on_a_cpu_is_raised_where_results_are_asked_for() -> None:
    def work(items: list[int]) -> list[int]:
        return [1 // item for item in items]

    round_ = Overlap(AtOnce(), work, [])
    for number in range(3):
        round_.add([(number, number)])
    with pytest.raises(ZeroDivisionError):
        round_.results()


def test_what_goes_wrong_in_the_work_is_raised_where_results_are_asked_for(
    thread: ThreadPoolExecutor,
) -> None:
    def work(items: list[int]) -> list[int]:
        raise OSError("the sandbox is gone")

    round_ = Overlap(thread, work, [])
    for number in range(100):
        round_.add([(number, number)])
    with pytest.raises(OSError, match="the sandbox is gone"):
        round_.results()
