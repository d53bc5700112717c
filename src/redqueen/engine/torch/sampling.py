"""Drawing tokens: each row from its own stream, by its own count of draws, whatever stands beside
it in the batch."""

import torch
from torch import Tensor, nn

from redqueen.engine.protocol import SamplingParams

_GOLDEN, _MIX1, _MIX2 = (
    -7046029254386353131,
    -4658895280553007687,
    -7723592293110705685,
)  # splitmix64's constants, as signed numbers

_PART = 128


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


def draw(
    logits: Tensor, sampling: SamplingParams, temperatures: Tensor, seeds: Tensor, draws: Tensor
) -> tuple[Tensor, Tensor]:
    """A token for each row of logits, and its log-probability; each row at its own temperature."""
    logits = logits.float()
    if sampling.temperature == 0:
        tokens = logits.argmax(-1)
        return tokens, torch.log_softmax(logits, -1).gather(-1, tokens[:, None])[:, 0]
    logprobs = torch.log_softmax(logits / temperatures[:, None], -1)
    chances = logprobs.exp()
    if sampling.top_p < 1:
        chances = _nucleus(chances, sampling.top_p)
    tokens = _drawn(chances, uniform(seeds, draws))
    return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


def _drawn(chances: Tensor, points: Tensor) -> Tensor:
    """The token at which the chances, added up, pass the point. First the part of the vocabulary,
    then the token in it: the long sums of a large vocabulary would cost more than the model's last
    layer."""
    vocabulary = chances.shape[-1]
    parts = nn.functional.pad(chances, (0, -vocabulary % _PART)).unflatten(-1, (-1, _PART))
    heaps = parts.sum(-1, dtype=torch.float64).cumsum(-1)
    point = points[:, None] * heaps[:, -1:]
    part = torch.searchsorted(heaps, point, right=True).clamp(max=heaps.shape[-1] - 1)
    before = torch.where(part > 0, heaps.gather(-1, (part - 1).clamp(min=0)), 0.0)
    within = parts.gather(1, part[:, :, None].expand(-1, 1, _PART))[:, 0].cumsum(
        -1, dtype=torch.float64
    )
    token = torch.searchsorted(within, point - before, right=True).clamp(max=_PART - 1)
    return (part * _PART + token)[:, 0].clamp(max=vocabulary - 1)


def _nucleus(chances: Tensor, top_p: float) -> Tensor:
    """Zero for all but the likeliest tokens that together reach top_p."""
    ordered, index = chances.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(chances).scatter(-1, index, torch.where(before < top_p, ordered, 0.0))
