"""Checks while sampling: every item is checked once, whatever comes when, and equal ones share a
result."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event, get_ident

import pytest

from redqueen.core.pipeline import Check, Inline, background_executor, check_once
from redqueen.engine.text_sampler import TextCompletion, TextRequest
from redqueen.tasks.prompts import Prompt
from tests.problems import scripted_ports
from tests.scripted import ScriptedSampler


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


# Check


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_every_item_is_checked_once_in_the_order_of_arrival(
    thread: ThreadPoolExecutor, count: int
) -> None:
    checked: list[int] = []
    check = Check(thread, checked.extend)
    numbers = list(range(count))
    Random(1).shuffle(numbers)
    for number in numbers:
        check.add([number])
    check.finish()
    assert checked == numbers
    assert check.blocked_s >= 0


def test_a_check_begins_with_the_first_item_and_then_takes_all_that_came_meanwhile(
    thread: ThreadPoolExecutor,
) -> None:
    begun, go_on = Event(), Event()
    batches: list[list[int]] = []

    def work(items: list[int]) -> None:
        batches.append(items)
        begun.set()
        assert go_on.wait(10)

    check = Check(thread, work)
    check.add([0])
    assert begun.wait(10)
    for number in range(1, 100):
        check.add([number])
    go_on.set()
    check.finish()
    assert batches == [[0], list(range(1, 100))]


def test_an_item_that_comes_when_all_before_it_are_checked_is_checked_too(
    thread: ThreadPoolExecutor,
) -> None:
    done, checked = Event(), list[int]()

    def work(items: list[int]) -> None:
        checked.extend(items)
        done.set()

    check = Check(thread, work)
    for number in range(50):
        done.clear()
        check.add([number])
        assert done.wait(10)  # the check may be about to end, or have ended
    check.finish()
    assert checked == list(range(50))


def test_an_exception_in_a_check_reaches_finish_and_no_more_is_checked(
    thread: ThreadPoolExecutor,
) -> None:
    batches: list[list[int]] = []

    def work(items: list[int]) -> None:
        batches.append(items)
        raise OSError("the sandbox is gone")

    check = Check(thread, work)
    for number in range(100):
        check.add([number])
    with pytest.raises(OSError, match="the sandbox is gone"):
        check.finish()
    assert len(batches) == 1


def test_inline_sampling_pauses_for_the_check_and_an_exception_waits_for_finish() -> None:
    inverses: list[float] = []
    check: Check[int] = Check(Inline(), lambda items: inverses.extend(1 / item for item in items))
    check.add([1, 2])
    assert inverses == [1, 0.5]
    check.add([0])
    check.add([4])
    with pytest.raises(ZeroDivisionError):
        check.finish()
    assert inverses == [1, 0.5]


def test_checks_run_inline_on_a_cpu_and_in_one_thread_beside_a_gpu() -> None:
    before = sys.getswitchinterval()
    with background_executor(on_gpu=False) as executor:
        assert executor.submit(get_ident).result() == get_ident()
        assert sys.getswitchinterval() == before
    with background_executor(on_gpu=True) as executor:
        others = {executor.submit(get_ident).result() for _ in range(20)}
        assert len(others) == 1 and get_ident() not in others
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before


# check_once


def test_items_with_equal_keys_are_checked_once_and_results_are_in_order() -> None:
    checked: list[tuple[int, str]] = []

    def judge(items: list[tuple[int, str]]) -> list[str]:
        checked.extend(items)
        return [f"{number}: {text.upper()}" for number, text in items]

    known: dict[object, str] = {}
    answers = [(0, "yes"), (0, "no"), (0, "yes"), (1, "yes"), (1, "no")] * 40
    expected = [f"{number}: {text.upper()}" for number, text in answers]
    assert check_once(answers, lambda item: item, judge, known) == expected
    assert checked == [(0, "yes"), (0, "no"), (1, "yes"), (1, "no")]
    assert check_once(answers, lambda item: item, judge, known) == expected
    assert len(checked) == 4  # the results are kept from one batch to the next


def test_the_first_of_equal_items_is_the_one_that_is_checked() -> None:
    results = check_once(["a1", "b1", "a2"], lambda item: item[0], lambda items: items, {})
    assert results == ["a1", "b1", "a1"]


def test_a_check_with_too_few_results_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        check_once(["a", "b"], lambda item: item, lambda items: items[:1], {})


# Ports


def test_completions_are_handed_over_as_they_come_and_progress_is_told() -> None:
    ports, told = scripted_ports(), list[tuple[str, int, int]]()
    ports.sampler = ScriptedSampler({0: lambda prompt, rng: prompt.upper()})
    ports.on_progress = lambda stage, done, total: told.append((stage, done, total))
    requests = [TextRequest(0, Prompt(text), 8, 0, item=text) for text in "abc"]
    received: list[TextCompletion] = []
    ports.sample("solve", requests, 1.0, received.extend)
    assert [(completion.text, completion.request.item) for completion in received] == [
        ("C", "c"),
        ("B", "b"),
        ("A", "a"),
    ]
    assert told == [("solve", done, 3) for done in range(4)]
    ports.sample("solve", [], 1.0, received.extend)
    assert len(told) == 4 and len(received) == 3


def test_times_of_a_stage_add_up() -> None:
    ports = scripted_ports()
    for _ in range(2):
        with ports.timed("solve"):
            ports.add_time("solve", 1.0, waited=0.5)
    seconds, waited = ports.timings["solve"]
    assert 2.0 <= seconds < 2.5 and waited == 1.0
