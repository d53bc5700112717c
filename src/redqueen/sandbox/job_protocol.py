"""The protocol of a job: which runs it needs, and what their replies mean. It yields requests and
receives replies, and touches no process itself."""

import signal
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from redqueen.sandbox import wire
from redqueen.sandbox.protocol import MAX_SOURCE, Job, Kind, Outcome, Result

REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Request:
    replica: int
    serial: int
    frame: bytes
    wall_s: float


@dataclass(frozen=True, slots=True)
class Reply:
    """How a run ended. `infrastructure`: the zygote died, or the run was killed from outside,
    twice."""

    state: int
    signal: int
    cpu_s: float
    body: bytes
    infrastructure: bool = False


def run_job(job: Job) -> Generator[Request, Reply, Outcome]:
    """Requests out, replies in, up to the job's outcome."""
    if len(job.program) > MAX_SOURCE:
        return _give_all(job, "rejected", "size: source too large")
    if 4 * (len(job.tests) + sum(map(len, job.inputs))) + 4 * MAX_SOURCE > wire.MAX_BODY:
        return _give_all(job, "rejected", "size: inputs too large")
    try:
        first = yield from _run(job, replica=0)
        if not job.stable or first.kind not in ("value", "error"):
            return first
        cpu_s = first.cpu_s
        for replica in range(1, REPLICAS):
            again = yield from _run(job, replica)
            cpu_s += again.cpu_s
            if again.results != first.results:
                unstable = _give_all(job, "unstable", _describe_difference(first, again))
                return replace(unstable, cpu_s=cpu_s, inspection=first.inspection)
        return replace(first, steps=again.steps, cpu_s=cpu_s)
    except UnicodeEncodeError:
        return _give_all(job, "rejected", "text: not valid Unicode")


def _describe_difference(first: Outcome, again: Outcome) -> str:
    pairs = zip(first.results, again.results, strict=True)
    index, (a, b) = next((index, pair) for index, pair in enumerate(pairs) if pair[0] != pair[1])
    if a.kind == b.kind == "value":
        difference = "different values in two processes"
    else:
        difference = f"{a.kind} in one process, {b.kind} in another"
    return difference if len(first.results) == 1 else f"input {index}: {difference}"


def _run(job: Job, replica: int) -> Generator[Request, Reply, Outcome]:
    if job.mode != "script":
        outcome = yield from _run_once(job, job.inputs, replica)
        return outcome
    outcomes = []
    for text in job.inputs:  # a new process for each input
        outcomes.append((yield from _run_once(job, (text,), replica)))
    results = tuple(outcome.results[0] for outcome in outcomes)
    return _summarize(results, sum(outcome.cpu_s for outcome in outcomes))


def _run_once(
    job: Job, inputs: tuple[str, ...], replica: int
) -> Generator[Request, Reply, Outcome]:
    """One run on one replica. The replicas take the inputs in different orders and with different
    memory limits, so that a result that depends on either shows as a difference."""
    order = _ORDERS[replica](list(range(len(inputs))))
    limits = replace(job.limits, memory_mb=job.limits.memory_mb * (4 + replica) // 4)
    count_steps = job.count_steps and replica == (REPLICAS - 1 if job.stable else 0)
    serial, frame = wire.write_request(job, tuple(inputs[at] for at in order), limits, count_steps)
    reply = yield Request(replica, serial, frame, limits.wall_s)
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
    """The outcome of a run, from how it ended and what it wrote. A run that reached a limit has
    failed even if it returned a value."""
    count = 1 if job.mode == "tests" else count
    lines = wire.read_lines(
        reply.body,
        count,
        job.limits.output_kb * 1024,
        job.allowed_modules is not None,
        checked=replica == 0,
    )
    failure = _find_failure(job, reply)
    if failure is not None:
        results = (Result(*failure),) * count
    elif lines.rejection is not None:
        results = (Result("rejected", lines.rejection),) * count
    elif not lines.finished:
        results = (Result("crashed", "ended without a result"),) * count
    elif len(lines.results) == count:
        results = lines.results
    elif len(lines.results) == 1 and lines.results[0].kind != "value":
        results = lines.results * count  # one failure for all inputs: it does not compile, say
    else:
        results = (Result("crashed", "the wrong number of results"),) * count
    outcome = _summarize(results, reply.cpu_s)
    return replace(outcome, inspection=lines.inspection, steps=lines.steps)


def _find_failure(job: Job, reply: Reply) -> tuple[Kind, str] | None:
    """What ended the run before its time."""
    if reply.infrastructure:
        return "crashed", "the sandbox process died twice on this job"
    if reply.state == wire.WALL:
        return "timeout", "wall time"
    if reply.state == wire.TOO_MUCH:
        return "unsupported", "too much output"
    processes = 2 if job.mode == "tests" else 1
    cpu_limit = processes * (1.1 * job.limits.cpu_s + 0.1)
    if reply.signal in (signal.SIGPROF, signal.SIGXCPU) or reply.cpu_s > cpu_limit:
        return "timeout", "CPU time"
    if reply.signal and reply.signal != signal.SIGKILL:
        known = reply.signal in set(signal.Signals)
        name = signal.Signals(reply.signal).name if known else f"signal {reply.signal}"
        return "crashed", name
    return None


def _summarize(results: tuple[Result, ...], cpu_s: float) -> Outcome:
    failed = next((result for result in results if result.kind != "value"), None)
    if failed is None:
        return Outcome("value", results, cpu_s=cpu_s)
    return Outcome(failed.kind, results, failed.text, cpu_s)


def _give_all(job: Job, kind: Kind, detail: str) -> Outcome:
    """The same result for every input."""
    count = 1 if job.mode == "tests" else len(job.inputs)
    return Outcome(kind, (Result(kind, detail),) * count, detail)
