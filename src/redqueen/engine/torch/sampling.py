"""Sampling tokens: every sequence has a random stream of its own, whatever stands beside it in the
batch."""

import torch
from torch import Tensor, nn

from redqueen.engine.protocol import SamplingParams

_GOLDEN, _MIX1, _MIX2 = (
    -7046029254386353131,
    -4658895280553007687,
    -7723592293110705685,
)  # splitmix64's constants as signed 64-bit integers

_CHUNK = 128


def uniform(seeds: Tensor, counters: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), a function of (seed, counter) alone: splitmix64."""
    x = seeds + (counters + 1) * _GOLDEN
    x = (x ^ _shift_right(x, 30)) * _MIX1
    x = (x ^ _shift_right(x, 27)) * _MIX2
    x = x ^ _shift_right(x, 31)
    return (_shift_right(x, 40).double() + 0.5) / 2**24


def continue_stream(seed: int, counter: int) -> int:
    """The seed whose stream begins where that of `seed` is at this counter."""
    return (seed + counter * _GOLDEN) % (1 << 64)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: torch has no unsigned 64-bit shift, so the sign bits are masked out."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def sample_tokens(
    logits: Tensor, sampling: SamplingParams, temperatures: Tensor, seeds: Tensor, counters: Tensor
) -> tuple[Tensor, Tensor]:
    """One token for each row of logits, [sequences, vocabulary], and its log-probability at the
    row's temperature, before top-p."""
    logits = logits.float()
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
        return tokens, torch.log_softmax(logits, -1).gather(-1, tokens[:, None])[:, 0]
    logprobs = torch.log_softmax(logits / temperatures[:, None], -1)
    probs = logprobs.exp()
    if sampling.top_p < 1:
        probs = _keep_nucleus(probs, sampling.top_p)
    tokens = _invert_cdf(probs, uniform(seeds, counters))
    return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


def _invert_cdf(probs: Tensor, uniforms: Tensor) -> Tensor:
    """The token at which the cumulative probability passes the uniform number.

    Two levels, chunk and token in the chunk: one cumulative sum in float64 over a large vocabulary
    would cost more than the model's output layer.
    """
    vocabulary = probs.shape[-1]
    chunks = nn.functional.pad(probs, (0, -vocabulary % _CHUNK)).unflatten(-1, (-1, _CHUNK))
    chunk_ends = chunks.sum(-1, dtype=torch.float64).cumsum(-1)  # [sequences, chunks]
    point = uniforms[:, None] * chunk_ends[:, -1:]
    chunk = torch.searchsorted(chunk_ends, point, right=True).clamp(max=chunk_ends.shape[-1] - 1)
    before = torch.where(chunk > 0, chunk_ends.gather(-1, (chunk - 1).clamp(min=0)), 0.0)
    chosen = chunks.gather(1, chunk[:, :, None].expand(-1, 1, _CHUNK))[:, 0]
    token_ends = chosen.cumsum(-1, dtype=torch.float64)  # [sequences, _CHUNK]
    token = torch.searchsorted(token_ends, point - before, right=True).clamp(max=_CHUNK - 1)
    return (chunk * _CHUNK + token)[:, 0].clamp(max=vocabulary - 1)


def _keep_nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Zero for all but the most likely tokens that together reach top_p."""
    ordered, index = probs.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(probs).scatter(-1, index, torch.where(before < top_p, ordered, 0.0))
