"""`redqueen run RECIPE --dry-run`: what a run would load, and what it would need."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from redqueen.cli.bench.shapes import SHAPES
from redqueen.cli.console import VisibleConsole, print_table
from redqueen.core.build import Arm
from redqueen.core.estimate import (
    H200,
    Gpu,
    checkpoint_bytes,
    memory,
    step_size,
    step_time,
)
from redqueen.core.fit import fit
from redqueen.evaluate.in_run import suites_of

if TYPE_CHECKING:
    from redqueen.models.shape import BaseShape

_LENGTHS = (0.25, 1.0)
"""Shares of their limits that completions may use."""
_DEVICES = (1, 8)


def show_plan(arms: Sequence[Arm]) -> None:
    """For all worlds of a study together."""
    console = VisibleConsole(soft_wrap=True)
    configs = [config for _, config in arms]
    config, size = configs[0], step_size(configs)
    shape = base_shape(config.base)
    itemsize = 4 if config.dtype == "float32" or config.device == "cpu" else 2
    own = shape.adapter_parameters(config.lora.rank, config.lora.targets)
    rows = {
        "base": f"{config.base}: {shape.family}, {shape.layers} layers, {_count(shape.parameters)} "
        f"parameters, {'float32' if itemsize == 4 else 'bfloat16'}",
        "members": f"{sum(config.slots for config in configs)} adapters of rank {config.lora.rank}"
        f", {_count(own)} parameters each" + (f", in {len(arms)} worlds" if len(arms) > 1 else ""),
        "a step": f"{size.proposals:,} proposals of up to {config.propose.max_tokens:,} tokens, at "
        f"most {size.attempts:,} attempts of up to {config.solve.max_tokens:,}"
        + (f", and {size.replayed:,} at archived problems" if size.replayed else ""),
        "steps": f"{config.steps:,}, a checkpoint every {config.ledger.checkpoint_every} of "
        f"{checkpoint_bytes(configs, shape) / 1e6:,.0f} MB",
        "measured on": ", ".join(suites_of(config.evaluate))
        or "nothing by itself (evaluate.suite): redqueen eval RUN --suite all",
    }
    for name, text in rows.items():
        console.print(f"{name:12} {text}")
    if config.device == "cpu":
        console.print("Memory and time are estimated for GPUs only.")
        return
    gpu = _measure_gpu() or H200
    if unfitted := config.engine.unfitted:
        limits = fit(configs, shape, gpu.memory, itemsize)
        engine = config.engine.with_limits(limits)
        configs = [config.model_copy(update={"engine": engine}) for config in configs]
        chosen = ", ".join(f"{name} = {getattr(limits, name):,}" for name in unfitted)
        console.print(f"{'fitted':12} {chosen}")
    _show_memory(console, memory(configs, shape, itemsize), gpu)
    table = Table(title=f"time on {gpu.name}, estimated", title_justify="left")
    for column in ("GPUs", "completions", "propose", "solve", "update", "a step", "all steps"):
        table.add_column(column, justify="right", no_wrap=True)
    for devices in _DEVICES:
        for length in _LENGTHS:
            time = step_time(configs, shape, gpu, length, devices, itemsize)
            stages = time.propose, time.solve, time.update, time.total
            table.add_row(
                str(devices),
                f"{100 * length:.0f} % of limits",
                *(f"{seconds:.1f} s" for seconds in stages),
                f"{time.total * config.steps / 3600:.1f} h",
            )
    print_table(table, console)
    console.print(
        "Without the sandbox, which runs beside sampling, and without measurements. How long "
        "completions are decides most; the first steps tell."
    )


def _show_memory(console: Console, parts: Mapping[str, float], gpu: Gpu) -> None:
    table = Table(title="memory of one GPU, at the most", title_justify="left")
    table.add_column("part")
    table.add_column("GB", justify="right")
    for name, size in parts.items():
        table.add_row(name, f"{size / 1e9:.1f}")
    total = sum(parts.values())
    table.add_row("all", f"{total / 1e9:.0f} of {gpu.memory / 1e9:.0f} ({gpu.name})")
    print_table(table, console)
    if total > gpu.memory:
        console.print(
            "It may not fit. Lower engine.max_tokens_per_microbatch or engine.max_num_seqs, or set "
            "engine.gradient_checkpointing."
        )


def base_shape(base: str) -> "BaseShape":
    """From the base's config; of Qwen2.5-Coder without the hub."""
    import transformers

    from redqueen.models.shape import read_shape, shape_of

    known = re.fullmatch(r"Qwen/Qwen2\.5-Coder-([\d.]+B)(-Instruct)?", base)
    size = known[1].lower() if known else ""
    if size not in SHAPES:
        return read_shape(base)
    return shape_of(
        transformers.Qwen2Config(
            **SHAPES[size],
            vocab_size=152_064 if size == "7b" else 151_936,
            tie_word_embeddings=size != "7b",
        )
    )


def _measure_gpu() -> Gpu | None:
    """The GPU that is here: how fast it copies and multiplies."""
    import torch

    if not torch.cuda.is_available():
        return None
    source = torch.empty(1 << 29, dtype=torch.bfloat16, device="cuda")
    square = source[: 8192 * 8192].view(8192, 8192).zero_()

    def seconds(work: Callable[[], object], repeats: int = 5) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        work()
        start.record()
        for _ in range(repeats):
            work()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000 / repeats

    half = source.numel() // 2
    bandwidth = 2 * half * 2 / seconds(lambda: source[:half].copy_(source[half:]))
    flops = 2 * 8192**3 / seconds(lambda: square @ square)
    total = torch.cuda.mem_get_info()[1]
    return Gpu(torch.cuda.get_device_name(), total, bandwidth, flops)


def _count(number: int) -> str:
    return f"{number / 1e9:.2f}B" if number >= 1e9 else f"{number / 1e6:.1f}M"
