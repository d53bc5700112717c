"""`redqueen bench serve`: many tenants against one who does all of their work.

Every tenant runs the same RL loop, through the service: commands are encoded, checked, written to
journals and gathered as those of HTTP clients are, and only HTTP itself is left out, so that the
clients' own time does not count. The total work is the same whatever the number of tenants:
completions are sampled to a fixed length and trained on. So random weights do, too.
"""

import json
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from redqueen.cli.bench.serve_work import Work, one_by_one, prompts_of
from redqueen.cli.console import note, note_others, print_table
from redqueen.cli.options import Device, Json
from redqueen.cli.serve import check_installed
from redqueen.engine.cpu_load import LoadMeter
from redqueen.errors import EngineError

if TYPE_CHECKING:
    from redqueen.engine.shared import SharedEngine
    from redqueen.serve.app import ModelServer, ServeSettings


@dataclass(frozen=True, slots=True)
class Measured:
    tenants: int
    seconds: float
    over_one: float
    """Seconds over those of one tenant with the same total work."""
    tokens_per_s: float
    """Sampled, and trained on in the same time."""
    sampled_together: float
    """Tenants in a sampling call, on average."""
    trained_together: float
    latency_s: float
    """From a request to its answer, on average: queueing and computing."""
    median_step_s: float
    """Of all steps of all tenants: what happens once, such as a graph that is captured late, does
    not show in it."""


def serve(
    base: Annotated[
        str,
        typer.Option(
            help="A base (pawn, a folder, ...) or a shape with random weights: 0.5b, 1.5b, 7b."
        ),
    ] = "pawn",
    tenants: Annotated[
        list[int] | None, typer.Option(help="Numbers of tenants; 1 is always measured.")
    ] = None,
    completions: Annotated[
        int, typer.Option(min=1, help="Of one step, of all tenants together.")
    ] = 128,
    attempts: Annotated[int, typer.Option(min=1, help="Completions of each prompt.")] = 8,
    prompt_tokens: Annotated[int, typer.Option(min=2, help="Tokens of each prompt.")] = 64,
    tokens: Annotated[int, typer.Option(min=1, help="Of each completion.")] = 64,
    steps: Annotated[int, typer.Option(min=1, help="Measured.")] = 4,
    warmup: Annotated[int, typer.Option(min=1, help="Steps before those.")] = 1,
    rounds: Annotated[
        int, typer.Option(min=1, help="All numbers of tenants in turns, so often; medians.")
    ] = 1,
    rank: Annotated[int, typer.Option(min=1, help="Of the adapters.")] = 8,
    peft: Annotated[
        bool, typer.Option("--peft", help="Also PEFT, one adapter after another.")
    ] = False,
    threads: Annotated[int, typer.Option(min=0, max=1024, help="Of a CPU; 0: torch's choice.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """What it costs to share a device: tenants who train at the same time, against one who does
    the same work alone."""
    check_installed("starlette", "tinker")
    counts = sorted({1, *(tenants or (2, 4, 8, 16))})
    work = Work(completions, prompt_tokens, tokens, attempts, steps, warmup)
    if completions % (attempts * counts[-1]):
        note(f"{completions} completions are not the same number for {counts[-1]} tenants")
    load = LoadMeter()
    measured = [_measure_round(base, counts, work, rank, threads, device) for _ in range(rounds)]
    rows = [_medians(same) for same in zip(*measured, strict=True)]
    others = one_by_one(base, counts[-1], work, rank, device) if peft else None
    note_others(load.others())
    if as_json:
        peft_s = asdict(others) if others else None
        table = {
            "work": asdict(work),
            "rounds": [[asdict(row) for row in round_] for round_ in measured],
            "rows": [asdict(row) for row in rows],
            "peft": peft_s,
        }
        typer.echo(json.dumps(table))
        return
    print_table(_table(rows))
    if others is not None:
        note(f"PEFT, {counts[-1]} adapters one after another: {others.seconds:.2f} s")


def _measure_round(
    base: str, counts: Sequence[int], work: Work, rank: int, threads: int, device: str
) -> list[Measured]:
    rows: list[Measured] = []
    for count in counts:
        row = _measure(base, count, work, rank, threads, device)
        ratio = row.seconds / (rows[0].seconds if rows else row.seconds)
        rows.append(replace(row, over_one=ratio))
        note(f"{count} tenants: {row.seconds:.2f} s, {ratio:.2f} of one")
    return rows


def _medians(rows: Sequence[Measured]) -> Measured:
    """Each figure by itself: `over_one` is the median of the rounds' ratios, so that a machine that
    was slower in one round does not decide."""
    names = [field.name for field in fields(Measured) if field.name != "tenants"]
    return Measured(
        rows[0].tenants, *(median(getattr(row, name) for row in rows) for name in names)
    )


def _table(rows: Sequence[Measured]) -> Table:
    table = Table(
        "tenants",
        "seconds",
        "/ one",
        "tokens/s",
        "a sample",
        "a pass",
        "latency",
        "step",
        caption="a sample, a pass: tenants in one call of the engine, on average",
    )
    for row in rows:
        table.add_row(
            str(row.tenants),
            f"{row.seconds:.2f}",
            f"{row.over_one:.2f}",
            f"{row.tokens_per_s:,.0f}",
            f"{row.sampled_together:.1f}",
            f"{row.trained_together:.1f}",
            f"{row.latency_s:.3f} s",
            f"{row.median_step_s:.3f} s",
        )
    return table


def _measure(base: str, count: int, work: Work, rank: int, threads: int, device: str) -> Measured:
    from redqueen.config.engine import EngineConfig, LoraConfig
    from redqueen.serve.app import ModelServer, ServeSettings
    from redqueen.serve.tenants import Keys

    keys = Keys(tuple((f"t{number}", f"tml-bench-{number}") for number in range(count)))
    with tempfile.TemporaryDirectory() as folder:
        settings = ServeSettings(
            base,
            Path(folder),
            count + 1,
            LoraConfig(rank=rank),
            EngineConfig(threads=threads),
            device,
            keys=keys,
        )
        note(f"{count} tenants: loading {base}")
        server = ModelServer(settings, _random_engine(settings))
        try:
            return _play(server, count, work)
        finally:
            server.close()


def _random_engine(settings: "ServeSettings") -> "SharedEngine | None":
    """Of a shape with random weights; None: the base is one that can be loaded."""
    from redqueen.cli.bench.shapes import SHAPES

    if settings.base not in SHAPES:
        return None
    from redqueen.cli.bench.workload import bench_base
    from redqueen.engine.torch.shared import SharedTorchEngine
    from redqueen.models.base import pick_device

    loaded = bench_base(settings.base, pick_device(settings.device))
    return SharedTorchEngine(loaded, settings.slots, settings.engine, settings.lora)


def _play(server: "ModelServer", count: int, work: Work) -> Measured:
    loops = [_Loop(server, f"t{number}", number, count, work) for number in range(count)]
    barrier = threading.Barrier(count + 1)

    errors: list[BaseException] = []

    def run(loop: _Loop) -> None:
        try:
            for number in range(work.warmup):
                loop.step(number)
            barrier.wait()
            for number in range(work.steps):
                loop.step(work.warmup + number)
            barrier.wait()
        except Exception as error:  # noqa: BLE001  (nobody waits for a tenant that has failed)
            errors.append(error)
            barrier.abort()

    def meet() -> None:
        try:
            barrier.wait()
        except threading.BrokenBarrierError as error:
            raise errors[0] from error

    workers = [threading.Thread(target=run, args=(loop,), daemon=True) for loop in loops]
    for worker in workers:
        worker.start()
    meet()
    calls, passes = server.worker.runner.calls, server.worker.trainer.passes
    calls.clear()
    passes.clear()
    for loop in loops:
        loop.waits.clear()
        loop.steps.clear()
    started = time.perf_counter()
    meet()
    seconds = time.perf_counter() - started
    waits = [wait for loop in loops for wait in loop.waits]
    return Measured(
        count,
        seconds,
        1.0,
        work.completions * work.tokens * work.steps / seconds,
        sum(calls) / len(calls),
        sum(passes) / len(passes),
        sum(waits) / len(waits),
        median(step for loop in loops for step in loop.steps),
    )


class _Loop:
    """One tenant: sample, train on what was sampled, step."""

    def __init__(
        self, server: "ModelServer", name: str, number: int, count: int, work: Work
    ) -> None:
        from redqueen.serve.commands import ModelShape

        self.server, self.service, self.name, self.work = server, server.service, name, work
        self.progress = f"{count} tenants: step" if number == 0 else ""
        rank = server.settings.lora.rank
        session = self.service.sessions.create(name)
        self.model = self.service.create_model(name, session, 0, ModelShape(rank, number))
        self.prompts = prompts_of(Random(number), work, count)
        self.sequence = 0
        self.waits: list[float] = []
        self.steps: list[float] = []

    def step(self, number: int) -> None:
        started = time.perf_counter()
        self._step(number)
        self.steps.append(time.perf_counter() - started)
        if self.progress:
            done, of = number + 1 - self.work.warmup, self.work.steps
            where = f"{done} of {of}" if done > 0 else "before the measured ones"
            note(f"{self.progress} {where}, {self.steps[-1]:.2f} s")

    def _step(self, number: int) -> None:
        from redqueen.serve.commands import SampleOrder

        sampler = f"{self.model.session}:sample:{number}"
        body = {"model_id": self.model.id, "sampling_session_seq_id": number}
        self._wait(self._submit("save_weights_for_sampler", json.dumps(body).encode()))
        weights = self.service.samplers[sampler]
        futures = [
            self.service.sample(
                self.name,
                weights,
                SampleOrder(
                    prompt,
                    self.work.attempts,
                    self.work.tokens,
                    stop_tokens=frozenset(),
                    seed=number,
                ),
            )
            for prompt in self.prompts
        ]
        sampled = [self._wait(future)["sequences"] for future in futures]
        gradients = self._submit("forward_backward", self._encode(sampled))
        step = self._submit("optim_step", b'{"adam_params": {"learning_rate": 1e-6}}')
        self._wait(gradients), self._wait(step)

    def _submit(self, kind: str, body: bytes) -> Any:
        self.sequence += 1
        return self.service.submit(self.name, self.model.id, self.sequence, kind, body)

    def _wait(self, future: Any) -> dict[str, Any]:
        started, event = time.perf_counter(), threading.Event()
        with self.service.lock:
            if not future.done:
                future.callbacks.append(event.set)
            else:
                event.set()
        while not event.wait(1.0):
            if self.server.worker.failure is not None:
                raise EngineError(f"the engine failed: {self.server.worker.failure}")
        self.waits.append(time.perf_counter() - started)
        assert future.result is not None and "error" not in future.result, future.result
        result: dict[str, Any] = future.result
        return result

    def _encode(self, sampled: list[list[dict[str, Any]]]) -> bytes:
        from redqueen.serve.tinker_replies import encode_request

        data = [
            (prompt, one["tokens"], one["logprobs"], (-1.0) ** place)
            for prompt, group in zip(self.prompts, sampled, strict=True)
            for place, one in enumerate(group)
        ]
        return encode_request(self.model.id, self.sequence + 1, "importance_sampling", data)
