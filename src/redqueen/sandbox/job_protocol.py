"""The course of a job: which runs it needs, and what their replies mean. It asks and is answered,
and touches no process itself."""

import signal
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from redqueen.sandbox import wire
from redqueen.sandbox.jobs import MAX_SOURCE, Job, Kind, Outcome, Result

REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Request:
    replica: int
    serial: int
    frame: bytes
    wall_s: float


@dataclass(frozen=True, slots=True)
class Reply:
    """How a run ended. `infrastructure`: the zygote, or a hand from outside, ended it, twice."""

    state: int
    signal: int
    cpu_s: float
    body: bytes
    infrastructure: bool = False


def conduct(job: Job) -> Generator[Request, Reply, Outcome]:
    """The course of one job, as requests out and replies in, up to its outcome."""
    if len(job.program) > MAX_SOURCE:
        return _all(job, "rejected", "size: source too large")
    if 4 * (len(job.tests) + sum(map(len, job.inputs))) + 4 * MAX_SOURCE > wire.MAX_BODY:
        return _all(job, "rejected", "size: inputs too large")
    try:
        first = yield from _run(job, replica=0)
        if not job.stable or first.kind not in ("value", "error"):
            return first
        cpu_s = first.cpu_s
        for replica in range(1, REPLICAS):
            again = yield from _run(job, replica)
            if again.results != first.results:
                where = next(
                    index
                    for index, (a, b) in enumerate(zip(first.results, again.results, strict=True))
                    if a != b
                )
                kinds = first.results[where].kind, again.results[where].kind
                what = (
                    "different values in two processes"
                    if kinds == ("value", "value")
                    else f"{kinds[0]} in one process, {kinds[1]} in another"
                )
                detail = what if len(first.results) == 1 else f"input {where}: {what}"
                return replace(
                    _all(job, "unstable", detail),
                    cpu_s=cpu_s + again.cpu_s,
                    inspection=first.inspection,
                )
            cpu_s += again.cpu_s
        return replace(first, steps=again.steps, cpu_s=cpu_s)
    except UnicodeEncodeError:
        return _all(job, "rejected", "text: not valid Unicode")


def _run(job: Job, replica: int) -> Generator[Request, Reply, Outcome]:
    if job.mode != "script":
        outcome = yield from _run_once(job, job.inputs, replica)
        return outcome
    outcomes = []
    for text in job.inputs:  # a process for each input
        outcomes.append((yield from _run_once(job, (text,), replica)))
    results = tuple(outcome.results[0] for outcome in outcomes)
    return _summary(results, sum(outcome.cpu_s for outcome in outcomes))


def _run_once(
    job: Job, inputs: tuple[str, ...], replica: int
) -> Generator[Request, Reply, Outcome]:
    """One run on one replica. The replicas take the inputs in different orders and with different
    memory, so that what depends on either shows as a difference."""
    order = _ORDERS[replica](list(range(len(inputs))))
    limits = replace(job.limits, memory_mb=job.limits.memory_mb * (4 + replica) // 4)
    steps = job.count_steps and replica == (REPLICAS - 1 if job.stable else 0)
    reply = yield Request(
        replica, *wire.request(job, tuple(inputs[at] for at in order), limits, steps), limits.wall_s
    )
    outcome = _judge(job, len(inputs), replica, reply)
    if job.mode == "tests":
        return outcome
    results = dict(zip(order, outcome.results, strict=True))
    return replace(outcome, results=tuple(results[at] for at in range(len(inputs))))


_ORDERS: tuple[Callable[[list[int]], list[int]], ...] = (
    lambda order: order,
    lambda order: order[::-1],
    lambda order: order[len(order) // 2 :] + order[: len(order) // 2],
)


def _judge(job: Job, count: int, replica: int, reply: Reply) -> Outcome:
    """The outcome of a run, from how it ended and what it wrote. A run that met a limit is a
    failure even if it returned a value."""
    ended = _ended(job, reply)
    count = 1 if job.mode == "tests" else count
    lines = wire.read_lines(
        reply.body,
        count,
        job.limits.output_kb * 1024,
        job.allowed_modules is not None,
        checked=replica == 0,
    )
    if ended is not None:
        results = (Result(*ended),) * count
    elif lines.rejection is not None:
        results = (Result("rejected", lines.rejection),) * count
    elif not lines.finished:
        results = (Result("crashed", "ended without a result"),) * count
    elif len(lines.results) == count:
        results = lines.results
    elif (
        len(lines.results) == 1 and lines.results[0].kind != "value"
    ):  # it does not compile, say: one line speaks for all inputs
        results = lines.results * count
    else:
        results = (Result("crashed", "the wrong number of results"),) * count
    return replace(_summary(results, reply.cpu_s), inspection=lines.inspection, steps=lines.steps)


def _ended(job: Job, reply: Reply) -> tuple[Kind, str] | None:
    if reply.infrastructure:
        return "crashed", "the sandbox process died twice on this job"
    if reply.state == wire.WALL:
        return "timeout", "wall time"
    if reply.state == wire.TOO_MUCH:
        return "unsupported", "too much output"
    processes = 2 if job.mode == "tests" else 1
    if reply.signal in (signal.SIGPROF, signal.SIGXCPU) or reply.cpu_s > processes * (
        1.1 * job.limits.cpu_s + 0.1
    ):
        return "timeout", "CPU time"
    if reply.signal and reply.signal != signal.SIGKILL:
        return "crashed", signal.Signals(reply.signal).name if reply.signal in set(
            signal.Signals
        ) else f"signal {reply.signal}"
    return None


def _summary(results: tuple[Result, ...], cpu_s: float) -> Outcome:
    worst = next((result for result in results if result.kind != "value"), None)
    return Outcome(worst.kind if worst else "value", results, worst.text if worst else "", cpu_s)


def _all(job: Job, kind: Kind, detail: str) -> Outcome:
    return Outcome(
        kind, (Result(kind, detail),) * (1 if job.mode == "tests" else len(job.inputs)), detail
    )
