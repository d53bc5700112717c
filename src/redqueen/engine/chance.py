"""Drawing tokens: each row from its own stream, by its own count of draws, whatever stands beside it in the batch."""

import torch
from torch import Tensor

from redqueen.engine import Sampling

_GOLDEN, _MIX1, _MIX2 = -7046029254386353131, -4658895280553007687, -7723592293110705685  # splitmix64's constants, as signed numbers


def uniform(seeds: Tensor, draws: Tensor) -> Tensor:
    """Numbers between 0 and 1, a function of (seed, number of the draw): splitmix64."""
    x = seeds + (draws + 1) * _GOLDEN
    x = (x ^ _shifted(x, 30)) * _MIX1
    x = (x ^ _shifted(x, 27)) * _MIX2
    x = x ^ _shifted(x, 31)
    return (_shifted(x, 40).double() + 0.5) / 2**24


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Right by so many bits, with zeros coming in."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def draw(logits: Tensor, sampling: Sampling, seeds: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """A token for each row of logits, and its log-probability."""
    logits = logits.float()
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
        return tokens, torch.log_softmax(logits, -1).gather(-1, tokens[:, None])[:, 0]
    logprobs = torch.log_softmax(logits / sampling.temperature, -1)
    chances = logprobs.exp()
    if sampling.top_p < 1:
        chances = _nucleus(chances, sampling.top_p)
    heaps = chances.cumsum(-1, dtype=torch.float64)
    point = uniform(seeds, draws)[:, None] * heaps[:, -1:]
    tokens = torch.searchsorted(heaps, point, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


def _nucleus(chances: Tensor, top_p: float) -> Tensor:
    """Zero for all but the likeliest tokens that together reach top_p."""
    ordered, index = chances.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(chances).scatter(-1, index, torch.where(before < top_p, ordered, 0.0))
