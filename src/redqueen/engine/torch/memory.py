"""Where the GPU's memory ends: what is said then, and how an engine goes on with less at a time."""

import gc
import logging
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from redqueen.config.engine import Limits
from redqueen.engine.protocol import SampleRequest, TrainSample
from redqueen.errors import ConfigError, EngineError

log = logging.getLogger(__name__)

T = TypeVar("T")


class PrefillTooLarge(RuntimeError):
    """Memory ended in a prefill, and not in a decode step."""


@contextmanager
def explain_device(setting: str = "the number of members") -> Iterator[None]:
    """Within: a lost GPU is a message, and an out-of-memory error says which setting to lower."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise ConfigError(_explain_memory(setting)) from error
        if not isinstance(error, torch.AcceleratorError):
            raise
        why = str(error).partition("\n")[0]
        raise EngineError(
            f"the GPU failed: {why}. `nvidia-smi` and the kernel's log may say more."
        ) from error


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ended, for torch itself, for a library, or while a CUDA graph was captured:
    then an error of the capture comes after it."""
    while error is not None:
        if isinstance(error, torch.OutOfMemoryError):
            return True
        if isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


_OUT_OF_MEMORY = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def peak_memory_gb(device: torch.device) -> float:
    """The most at a time, of the GPU or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def until_it_fits(
    attempt: Callable[[], T], shrink: Callable[[RuntimeError], bool], setting: str
) -> T:
    """What the attempt returns. Where memory ends, it is made again after `shrink`, which says
    whether there is less to do at a time."""
    while True:
        with explain_device(setting):
            try:
                return attempt()
            except RuntimeError as error:
                if not is_out_of_memory(error) or not shrink(error):
                    raise
        # Outside of the handler: the error held the frames, and these the tensors, of the attempt.
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def halve_microbatch(limits: Limits, samples: Sequence[TrainSample]) -> Limits | None:
    """Limits for micro-batches of half the size; None where a sample is computed alone already."""
    sizes = [len(sample.prompt) + len(sample.completion) for sample in samples]
    longest, tokens = max(sizes), min(limits.max_tokens_per_microbatch, sum(sizes))
    if tokens <= longest:
        return None
    return _say(limits._replace(max_tokens_per_microbatch=max(longest, tokens // 2)), limits)


def halve_sampling(
    limits: Limits, requests: Sequence[SampleRequest], in_prefill: bool
) -> Limits | None:
    """Limits for prefill batches, or else decode batches, of half the size; None where a sequence
    is computed alone already."""
    prompts = [len(request.prompt) for request in requests]
    longest, tokens = max(prompts), min(limits.max_prefill_tokens, sum(prompts))
    if in_prefill and tokens > longest:
        return _say(limits._replace(max_prefill_tokens=max(longest, tokens // 2)), limits)
    sequences = min(limits.max_num_seqs, len(requests))
    if sequences == 1:
        return None
    return _say(limits._replace(max_num_seqs=sequences // 2), limits)


def _say(smaller: Limits, limits: Limits) -> Limits:
    for name, number, before in zip(Limits._fields, smaller, limits, strict=True):
        if number != before:
            log.warning(
                "the GPU's memory is full: engine.%s=%s from now on, instead of %s. The batch is "
                "computed again.",
                name,
                f"{number:,}",
                f"{before:,}",
            )
    return smaller


def _explain_memory(setting: str) -> str:
    free, total = torch.cuda.mem_get_info()
    others = total - free - torch.cuda.memory_reserved()
    held = (
        f"; other programs hold {others / 1e9:.0f} of its {total / 1e9:.0f} GB"
        if others > total / 10
        else ""
    )
    used = torch.cuda.max_memory_allocated() / 1e9
    return (
        f"this batch does not fit into the GPU's memory ({used:.0f} GB were in use{held}). "
        f"Lower {setting}."
    )
