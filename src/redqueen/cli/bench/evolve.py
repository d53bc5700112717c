"""`redqueen bench evolve`: seconds of one replacement, operator by operator, at the size of a real
model."""

import json
import statistics
import time
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

import typer
from rich.table import Table

from redqueen.cli.bench.shapes import SHAPES
from redqueen.cli.console import note_others, notes, print_table
from redqueen.cli.options import Device, Json
from redqueen.engine.cpu_load import LoadMeter
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.models.base import pick_device
from redqueen.stages.evolve.cross import CROSSOVERS
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.plan import PlannedOperator


def evolve(
    shape: Annotated[
        Literal["0.5b", "1.5b", "7b"], typer.Option(help="Whose projections the members adapt.")
    ] = "7b",
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 32,
    device: Device = "auto",
    rounds: Annotated[int, typer.Option(min=1, help="Times each operator is measured.")] = 3,
    as_json: Json = False,
) -> None:
    """Seconds of one replacement, operator by operator, with random members."""
    result = bench_evolve(shape, rank, device, rounds)
    if as_json:
        print(json.dumps(asdict(result)))
    else:
        print_table(_table(result))
    note_others(result.other_programs_cores)


@dataclass(frozen=True, slots=True)
class EvolveBench:
    shape: str
    rank: int
    device: str
    projections: int
    parameters: int
    """Of one member."""
    seconds: dict[str, float]
    """One child of members that are on the device, by operator."""
    seconds_from_cpu: dict[str, float] | None
    """The same with members in main memory, as an engine reads and writes them; None where that is
    the device."""
    other_programs_cores: float
    """Cores that other programs used meanwhile, on average."""


def bench_evolve(shape: str, rank: int, device: str, rounds: int) -> EvolveBench:
    import torch

    where, load = pick_device(device), LoadMeter()
    cuda = where.type == "cuda"
    parents = [random_member(shape, rank, seed, str(where)) for seed in (1, 2)]
    cpu_parents = [_to_cpu(parent) for parent in parents if cuda]
    seconds, from_cpu = {}, {}
    for name in (*MUTATIONS, *CROSSOVERS):
        operator = _operator(name)
        notes.print(name)
        seconds[name] = _median(operator, parents, None, rounds, cuda)
        if cuda:
            from_cpu[name] = _median(operator, cpu_parents, str(where), rounds, cuda)
    return EvolveBench(
        shape=shape,
        rank=rank,
        device=torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads",
        projections=len(parents[0].projections),
        parameters=sum(a.numel() + b.numel() for a, b in parents[0].projections.values()),
        seconds=seconds,
        seconds_from_cpu=from_cpu if cuda else None,
        other_programs_cores=round(load.others(), 2),
    )


def projections(shape: str) -> dict[str, tuple[int, int]]:
    """Sizes in and out of every linear layer of the decoder."""
    sizes = SHAPES[shape]
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    narrow = hidden * sizes["num_key_value_heads"] // sizes["num_attention_heads"]
    layer = {
        "q_proj": (hidden, hidden),
        "k_proj": (hidden, narrow),
        "v_proj": (hidden, narrow),
        "o_proj": (hidden, hidden),
        "gate_proj": (hidden, inner),
        "up_proj": (hidden, inner),
        "down_proj": (inner, hidden),
    }
    return {
        f"layers.{number}.{name}": both
        for number in range(sizes["num_hidden_layers"])
        for name, both in layer.items()
    }


def _to_cpu(adapter: Adapter) -> Adapter:
    projections = {name: LoraPair(a.cpu(), b.cpu()) for name, (a, b) in adapter.projections.items()}
    return replace(adapter, projections=projections)


def random_member(shape: str, rank: int, seed: int, device: str) -> Adapter:
    """A member as training might have made it: B is not zero."""
    import torch

    rng = torch.Generator(device).manual_seed(seed)
    member = {}
    for name, (inside, outside) in projections(shape).items():
        a = (torch.rand(inside, rank, generator=rng, device=device) * 2 - 1) / inside**0.5
        b = torch.rand(rank, outside, generator=rng, device=device).sub_(0.5).mul_(0.02)
        member[name] = LoraPair(a, b)
    return Adapter(member, rank, 2.0 * rank)


def _operator(name: str) -> PlannedOperator:
    """With its default settings."""
    crosses = name in CROSSOVERS
    settings = (CROSSOVERS if crosses else MUTATIONS).choose(name)
    return PlannedOperator(settings, crosses)


def _median(
    operator: PlannedOperator, parents: list[Adapter], device: str | None, rounds: int, cuda: bool
) -> float:
    """Median seconds of one child; on a GPU after one warm-up."""
    import torch

    from redqueen.stages.evolve.breed import breed

    seconds = []
    for seed in range(rounds + cuda):
        started = time.perf_counter()
        breed(parents, operator, seed, device)
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return round(statistics.median(seconds[cuda:]), 4)


def _table(result: EvolveBench) -> Table:
    title = (
        f"One replacement at {result.shape} shape, rank {result.rank}, "
        f"{result.parameters / 1e6:.0f} M weights, {result.device}"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("operator")
    table.add_column("seconds", justify="right")
    if result.seconds_from_cpu is not None:
        table.add_column("from main memory", justify="right")
    for name, value in result.seconds.items():
        beside = [] if result.seconds_from_cpu is None else [f"{result.seconds_from_cpu[name]:.3f}"]
        table.add_row(name, f"{value:.3f}", *beside)
    return table
