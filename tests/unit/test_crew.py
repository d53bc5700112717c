"""Workers that die, hang, come and go, and the blocks that outlive them; without any process."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from redqueen.engine.blocks.balance import Balancer, even_out, longest
from redqueen.engine.blocks.crew import Crew, spread
from redqueen.engine.blocks.pulse import Pulse
from redqueen.engine.blocks.redo_log import RedoLog
from redqueen.engine.blocks.supervisor import NoRoom, Supervisor, WorkerDied
from redqueen.engine.blocks.worker import Call
from redqueen.engine.usage import Usage
from redqueen.errors import ConfigError, EngineError


class Machine:
    """What fake workers have in common: what they were asked, and what befalls them."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, str]] = []
        """Which worker, which block, which call."""
        self.deaths: list[tuple[str, Exception]] = []
        """Before which call the next ones die, and of what."""
        self.weights = "a"
        self.redo = RedoLog()
        self.started = 0

    def worker(self, number: int) -> Supervisor:
        return Supervisor(number, f"worker {number}", lambda: Fake(self, number), self.redo)

    def hit(self, name: str) -> None:
        if self.deaths and self.deaths[0][0] == name:
            raise self.deaths.pop(0)[1]


class Fake:
    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number = machine, number
        self.state: dict[int, list[Any]] = {}
        self.killed = threading.Event()

    def wait_until_ready(self) -> Any:
        self.machine.started += 1
        self.machine.hit("start")
        base = SimpleNamespace(fingerprint=self.machine.weights, name="pawn")
        return SimpleNamespace(base=base, host="here")

    def call(self, block: int, call: Call, emit: Any) -> tuple[Any, Usage]:
        self.machine.asked.append((self.number, block, call.name))
        self.machine.hit(call.name)
        if call.name == "wait":
            assert self.killed.wait(10)
            raise WorkerDied("killed")
        if call.name == "pack":
            return repr(self.state[block]).encode(), Usage()
        if call.name == "unpack":
            self.state[block] = eval(call.arguments[0])
        elif call.name in ("forget", "load"):
            self.state[block] = [call.arguments[0]] if call.arguments else []
        elif call.changes:
            self.state[block].append(call.arguments[0])
        return tuple(self.state[block]), Usage()

    def kill(self) -> None:
        self.killed.set()

    def close(self) -> None:
        self.killed.set()


@contextmanager
def crew_of(machine: Machine, workers: int, blocks: int, **options: Any) -> Iterator[Crew]:
    supervisors = [machine.worker(number) for number in range(workers)]
    for supervisor in supervisors:
        supervisor.start()
    crew = Crew(blocks, supervisors, **options)
    try:
        yield crew
    finally:
        crew.close()


def run(crew: Crew, name: str, *arguments: Any, blocks: int = 4) -> dict[int, Any]:
    calls = {block: Call(name, arguments) for block in range(blocks)}
    return crew.run(calls, lambda block, columns: None)


def test_blocks_are_spread_evenly_with_few_moves() -> None:
    assert spread(5, [0, 1], {}) == {0: 0, 2: 0, 4: 0, 1: 1, 3: 1}
    lost = spread(6, [0, 2], {0: 0, 1: 1, 2: 2, 3: 0, 4: 1, 5: 2})
    assert {block: lost[block] for block in (0, 2, 3, 5)} == {0: 0, 3: 0, 2: 2, 5: 2}
    assert sorted(lost.values()) == [0, 0, 0, 2, 2, 2]
    joined = spread(6, [0, 2, 3], lost)
    assert sorted(joined.values()) == [0, 0, 2, 2, 3, 3]
    assert sum(joined[block] != lost[block] for block in range(6)) == 2


def test_a_new_worker_makes_the_calls_since_the_checkpoint_again_in_their_order() -> None:
    machine = Machine()
    with crew_of(machine, 1, 2) as crew:
        run(crew, "step", 1, blocks=2)
        machine.redo.checkpointed(Path("kept"), {0: {0: "S0"}, 1: {0: "S1"}})
        run(crew, "step", 2, blocks=2)
        run(crew, "write", 3, blocks=2)
        machine.deaths = [("read", WorkerDied("killed")), ("load", WorkerDied("again"))]
        expected = (Path("kept"), 2, 3)
        assert run(crew, "read", blocks=2) == {0: expected, 1: expected}
        assert crew.workers[0].restarts == 2


def test_blocks_of_a_worker_that_cannot_start_again_go_to_the_others() -> None:
    machine = Machine()
    with crew_of(machine, 2, 4) as crew:
        run(crew, "step", 1)
        machine.deaths = [("read", WorkerDied("killed")), *[("start", WorkerDied("no GPU"))] * 3]
        assert set(run(crew, "read").values()) == {(1,)}
        assert len(crew.workers) == 1 and machine.started == 5
        assert run(crew, "step", 2) == dict.fromkeys(range(4), (1, 2))


def test_the_last_worker_that_cannot_start_again_ends_the_run_and_says_why() -> None:
    machine = Machine()
    with crew_of(machine, 1, 1) as crew:
        machine.deaths = [
            ("read", WorkerDied("killed")), *[("start", WorkerDied("CUDA out of memory"))] * 3,
        ]  # fmt: skip
        with pytest.raises(EngineError, match=r"died 3 times while .* CUDA out of memory"):
            run(crew, "read", blocks=1)


def test_the_last_worker_waits_for_room() -> None:
    machine = Machine()
    with crew_of(machine, 1, 1) as crew:
        run(crew, "step", 1, blocks=1)
        machine.deaths = [("read", WorkerDied("killed")), *[("start", NoRoom("full"))] * 2]
        assert run(crew, "read", blocks=1) == {0: (1,)}


def test_a_worker_that_joins_between_steps_gets_blocks_as_they_are() -> None:
    machine = Machine()
    room = 3

    def recruit(has: int, number: int) -> Supervisor | None:
        return machine.worker(number) if has < room else None

    with crew_of(machine, 1, 4, recruit=recruit) as crew:
        run(crew, "step", 1)
        crew.follow()
        until(lambda: all(future.done() for _, future in crew._joining))
        crew.follow()
        assert [worker.number for worker in crew.workers] == [0, 1, 2]
        machine.asked.clear()
        assert run(crew, "step", 2) == dict.fromkeys(range(4), (1, 2))
        assert {number for number, _, _ in machine.asked} == {0, 1, 2}
        loaded = {number for number, _, name in machine.asked if name == "forget"}
        assert loaded == {1, 2}, "blocks that stay are not loaded again"


def test_blocks_are_exchanged_so_that_the_busiest_worker_has_less_to_do() -> None:
    places = {0: 0, 1: 1, 2: 0, 3: 1}
    loads = {0: 9.0, 1: 2.0, 2: 8.0, 3: 1.0}
    better = even_out(loads, places)
    assert longest(loads, places) == 17 and longest(loads, better) == 10
    assert sorted(better.values()) == sorted(places.values()), "each keeps its number of blocks"
    assert even_out(loads, better) == better
    assert even_out({1: 5.0}, places) == places, "a single block has no better place"
    rng = random.Random(0)
    for _ in range(50):
        many = {block: rng.lognormvariate(0, 0.6) for block in range(24)}
        spread_out = spread(24, range(8), {})
        assert longest(many, even_out(many, spread_out)) <= longest(many, spread_out)


def test_blocks_move_only_where_that_saves_more_than_it_takes() -> None:
    balancer = Balancer(bytes_each=1e8)
    places, tokens = {0: 0, 1: 1, 2: 0, 3: 1}, {0: 900, 1: 200, 2: 800, 3: 100}
    assert balancer.place(tokens, places) is places, "nobody knows yet how long a token takes"
    balancer.trained(tokens, {block: count / 1000 for block, count in tokens.items()})
    assert balancer.place(tokens, places) is places, "0.7 s saved, 0.4 s of moves"
    balancer.moved(size=0, blocks=2, seconds=0.01)
    assert balancer.place(tokens, places) is places, "what was restored says nothing of moves"
    balancer.moved(size=2 * 10**7, blocks=2, seconds=0.01)
    assert longest(tokens, balancer.place(tokens, places)) == 1000


def test_a_block_moves_as_it_is() -> None:
    machine = Machine()
    with crew_of(machine, 2, 4) as crew:
        run(crew, "step", 1)
        machine.asked.clear()
        assert crew.move({**crew.places, 0: 1, 1: 0}) > 0
        assert run(crew, "read") == dict.fromkeys(range(4), (1,))
        asked = {(number, block) for number, block, name in machine.asked if name == "read"}
        assert asked == {(1, 0), (0, 1), (0, 2), (1, 3)}
        assert "step" not in {name for _, _, name in machine.asked}, "no call is made again"


@pytest.mark.parametrize("name", ["pack", "unpack"])
def test_a_block_that_is_lost_on_its_way_is_made_again(name: str) -> None:
    machine = Machine()
    with crew_of(machine, 2, 4) as crew:
        run(crew, "step", 1)
        machine.deaths = [(name, WorkerDied("killed"))]
        crew.move({**crew.places, 0: 1, 1: 0})
        assert not machine.deaths
        assert run(crew, "step", 2) == dict.fromkeys(range(4), (1, 2))


def test_a_worker_with_other_weights_does_not_join() -> None:
    machine = Machine()
    with crew_of(machine, 1, 2, recruit=lambda has, number: machine.worker(number)) as crew:
        machine.weights = "b"
        crew.follow()
        until(crew._joining[0][1].done)
        assert isinstance(crew._joining[0][1].exception(), ConfigError)
        crew.follow()
        assert len(crew.workers) == 1


def test_closing_ends_calls_that_are_under_way() -> None:
    machine = Machine()
    with crew_of(machine, 2, 2) as crew:
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(run, crew, "wait", blocks=2)
            until(lambda: [name for _, _, name in machine.asked].count("wait") == 2)
            crew.close()
            with pytest.raises(EngineError, match="died 1 times in the call 'wait'"):
                call.result(10)
        assert machine.started == 2, "none was started after the end"


def test_the_redo_log_knows_its_size_and_is_empty_after_a_checkpoint() -> None:
    redo = RedoLog()
    redo.add(
        0, Call("write", (0, {"q": (np.zeros(10, np.float32), np.zeros(5, np.float64))}, True))
    )
    assert redo.bytes == 80
    redo.checkpointed(Path("kept"), {})
    assert redo.bytes == 0 and redo.restoring(0) == [Call("forget")]


def test_a_thread_that_computes_has_a_pulse_and_one_that_waits_has_none() -> None:
    end = threading.Event()

    def compute() -> None:
        while not end.is_set():
            sum(range(100))

    threads = [threading.Thread(target=target) for target in (compute, end.wait)]
    for thread in threads:
        thread.start()
    try:
        busy, waiting = (Pulse(thread.ident or 0, 900) for thread in threads)
        time.sleep(0.05)
        busy.moved(), waiting.moved()
        until(busy.moved)
        assert not any(waiting.moved() for _ in range(20))
    finally:
        end.set()
        for thread in threads:
            thread.join()


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)
