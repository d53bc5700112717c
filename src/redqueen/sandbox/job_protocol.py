"""The protocol of a job: which runs it needs, and what their replies mean. It yields requests and
receives replies, and touches no process itself."""

import signal
from collections.abc import Generator
from dataclasses import dataclass, replace

from redqueen.rng import stream
from redqueen.sandbox import wire
from redqueen.sandbox.inspection.touches import CHANCE, COPIES_SETS, STATE
from redqueen.sandbox.literals import MAX_TEXT
from redqueen.sandbox.protocol import MAX_SOURCE, Job, Kind, Outcome, Result
from redqueen.sandbox.replicas import ASCENDING, JURY, REPLICAS


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
        first, touches = yield from _run(job, replica=0)
        if not job.stable or first.kind not in ("value", "error"):
            return first
        cpu_s, steps = first.cpu_s, first.steps
        sees_chance = CHANCE in touches or (COPIES_SETS and "{" in "".join(job.inputs))
        for replica in range(1, JURY.stop if sees_chance else REPLICAS):
            fresh = replica == ASCENDING and STATE in touches
            again, _ = yield from _run(job, replica, fresh)
            cpu_s += again.cpu_s
            steps = again.steps if steps is None else steps
            if again.results != first.results:
                return replace(_disagree(first, again), cpu_s=cpu_s)
        return replace(first, steps=steps, cpu_s=cpu_s)
    except UnicodeEncodeError:
        return _give_all(job, "rejected", "text: not valid Unicode")


def _disagree(first: Outcome, again: Outcome) -> Outcome:
    """Every input for which two processes disagree is `unstable`; others keep their result."""
    results = tuple(
        a if a == b else Result("unstable", _describe_difference(a, b))
        for a, b in zip(first.results, again.results, strict=True)
    )
    index, result = next((at, one) for at, one in enumerate(results) if one.kind == "unstable")
    detail = result.text if len(results) == 1 else f"input {index}: {result.text}"
    return Outcome("unstable", results, detail, inspection=first.inspection)


def _describe_difference(a: Result, b: Result) -> str:
    if a.kind == b.kind == "value":
        return "different values in two processes"
    return f"{a.kind} in one process, {b.kind} in another"


def _run(
    job: Job, replica: int, fresh: bool = False
) -> Generator[Request, Reply, tuple[Outcome, str]]:
    """All inputs on one replica, and what the program touches. `fresh`: each input in a process of
    its own, so that no state of a module survives to the next."""
    if job.mode != "script" and not (fresh and len(job.inputs) > 1):
        return (yield from _run_once(job, job.inputs, replica))
    runs = []
    for text in job.inputs:
        runs.append((yield from _run_once(job, (text,), replica)))
        if (
            runs[-1][0].kind == "timeout"
        ):  # shared by the inputs that are left: each may take as long
            break
    results = tuple(outcome.results[0] for outcome, _ in runs)
    results += results[-1:] * (len(job.inputs) - len(results))
    return _summarize(results, sum(outcome.cpu_s for outcome, _ in runs)), runs[0][1]


def _run_once(
    job: Job, inputs: tuple[str, ...], replica: int
) -> Generator[Request, Reply, tuple[Outcome, str]]:
    """One run on one replica. The replicas take the inputs in different orders and with different
    memory limits, so that a result that depends on either shows as a difference."""
    order = list(range(len(inputs)))
    if replica and len(order) > 1:  # an order that nobody knows who has not read the whole job
        stream(replica, job.program, *inputs).shuffle(order)
    memory_mb = job.limits.memory_mb * (4 + replica % REPLICAS) // 4
    limits = replace(job.limits, memory_mb=memory_mb)
    count_steps = job.count_steps and replica == (REPLICAS - 1 if job.stable else 0)
    serial, frame = wire.write_request(
        job if replica == 0 else replace(job, allowed_modules=None),  # inspected once
        tuple(inputs[at] for at in order),
        limits,
        count_steps,
        report_touches=job.stable and replica == 0,
    )
    reply = yield Request(replica, serial, frame, limits.wall_s)
    outcome, touches = _judge(job, len(inputs), replica, reply)
    if job.mode == "tests":
        return outcome, touches
    results = dict(zip(order, outcome.results, strict=True))
    return replace(outcome, results=tuple(results[at] for at in range(len(inputs)))), touches


def _judge(job: Job, count: int, replica: int, reply: Reply) -> tuple[Outcome, str]:
    """The outcome of a run, from how it ended and what it wrote, and what the program touches. A
    run that reached a limit has failed even if it returned a value."""
    count = 1 if job.mode == "tests" else count
    lines = wire.read_lines(
        reply.body,
        count,
        job.limits.output_kb * 1024,
        job.allowed_modules is not None and replica == 0,
        # reading megabytes takes seconds: a large text is left to the caller, as it was written
        checked=replica == 0 and job.limits.output_kb * 1024 <= MAX_TEXT,
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
    return replace(outcome, inspection=lines.inspection, steps=lines.steps), lines.touches


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
