"""Limits that fit by themselves: what the engine computes at a time where settings say `auto`.

The rule is arithmetic on shapes and on the memory of the GPU (core/estimate.py), so that equal runs
on equal GPUs have equal limits. It is applied once, when a run is made. Its ledger has the numbers
as if they had been set: a resume has the same ones, whatever it is resumed on.
"""

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from redqueen.config.engine import Limits
from redqueen.config.schema import Config
from redqueen.core.estimate import memory
from redqueen.engine.blocks.devices import device_memory
from redqueen.errors import ConfigError

if TYPE_CHECKING:
    from redqueen.models.shape import BaseShape

log = logging.getLogger(__name__)

_USED_FRAC = 0.85
"""Of the memory: the estimate is not exact, and memory in use is fragmented."""
_SHARES = (
    ("max_num_seqs", "KV cache", 0.4),
    ("max_prefill_tokens", "prefill", 0.1),
    ("max_tokens_per_microbatch", "activations of a micro-batch", 1.0),
)
"""How much of what the base and the members leave each may have."""
_MOST = Limits(1024, 65_536, 16_384)
"""Beyond these nothing gets faster."""
_LEAST = Limits(8, 1024, 1024)


def fit(configs: Sequence[Config], shape: "BaseShape", total: float, itemsize: int = 2) -> Limits:
    """The largest powers of two for what is `auto`, for all worlds together, on a GPU with this
    many bytes. Sequences first: decoding takes most of a step."""
    unfitted = configs[0].engine.unfitted
    limits = configs[0].engine.limits._replace(**{name: getattr(_LEAST, name) for name in unfitted})

    def parts(limits: Limits) -> dict[str, float]:
        engine = configs[0].engine.model_copy(update=limits._asdict())
        first = configs[0].model_copy(update={"engine": engine})
        return memory([first, *configs[1:]], shape, itemsize)

    least = parts(limits)
    budget = _USED_FRAC * total
    fixed = ("base", "adapters, gradients, optimizer", "runtime")
    held = sum(least[name] for name in fixed)
    room = budget - held
    if held > total:
        raise ConfigError(
            f"it does not fit into {total / 1e9:.0f} GB: "
            + ", ".join(f"{name} {least[name] / 1e9:.1f} GB" for name in fixed)
            + ". Lower lora.rank or the number of members, or take a smaller base."
        )
    if sum(least.values()) > budget:
        log.warning(
            "%.0f GB of GPU memory may be too few, however little is computed at a time. "
            "engine.gradient_checkpointing=true needs less, and so do smaller solve.max_tokens and "
            "lora.rank.",
            total / 1e9,
        )
    for name, part, share in _SHARES:
        while name in unfitted and getattr(limits, name) < getattr(_MOST, name):
            larger = limits._replace(**{name: 2 * getattr(limits, name)})
            needed = parts(larger)
            if needed[part] > share * room or sum(needed.values()) > budget:
                break
            limits = larger
    return limits


def fit_to_device(configs: Sequence[Config], base: str) -> tuple[list[Config], dict[str, str]]:
    """The settings with numbers for what is `auto`, and what is to be known of them. Without a GPU
    they are the defaults."""
    engine = configs[0].engine
    if not engine.unfitted:
        return list(configs), {}
    total = device_memory(configs[0].device, engine)
    limits = engine.limits
    if total:
        from redqueen.models.shape import read_shape

        itemsize = 4 if configs[0].dtype == "float32" else 2
        limits = fit(configs, read_shape(base), total, itemsize)
    chosen = {name: getattr(limits, name) for name in engine.unfitted}
    log.info(
        "fitted to %s: %s",
        f"{total / 1e9:.0f} GB of GPU memory" if total else "a machine without a GPU",
        ", ".join(f"engine.{name}={number:,}" for name, number in chosen.items()),
    )
    fitted = [
        config.model_copy(update={"engine": config.engine.with_limits(limits)})
        for config in configs
    ]
    return fitted, {"limits": json.dumps({"memory": total, **chosen})}
