"""Policy losses: from log-probabilities and advantages to one number per token.

    LOSSES["dapo"](batch, settings) -> losses [tokens]

A loss uses methods of tensors only, so that an engine brings its own. How per-token losses are
averaged into a member's loss is a setting, `average`: see `redqueen.engine.protocol.Average`.
Clipping matters only where the policy has moved since sampling: with more than one optimizer step.

Below, r is the probability of a token now over that when it was sampled, and A its advantage.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PositiveInt

from redqueen.config.registry import Choice, CustomChoice, Entry, Registry
from redqueen.engine.protocol import Loss, LossBatch

if TYPE_CHECKING:
    from torch import Tensor

_MAX_LOG_RATIO = 20.0
"""Beyond this, exp would overflow in the product with an advantage."""


class LossChoice(Choice):
    average: Literal["tokens", "sequences"] | PositiveInt = "tokens"
    """`tokens`: mean over all tokens of a member. `sequences`: mean over its completions of each
    one's token mean. A number: mean over its completions of each one's sum, divided by it."""


class CustomLoss(CustomChoice, LossChoice):
    """A loss of your own by import path."""


class Clipped(LossChoice):
    clip_low: float = Field(default=0.2, ge=0)
    """The ratio is clipped at 1 - clip_low; 0: not from below."""
    clip_high: float = Field(default=0.2, ge=0)
    """The ratio is clipped at 1 + clip_high; 0: not from above."""

    def clip(self, ratio: "Tensor") -> "Tensor":
        return ratio.clamp(1 - (self.clip_low or math.inf), 1 + (self.clip_high or math.inf))


class Ppo(Clipped):
    type: str = "ppo"


class Dapo(Clipped):
    """PPO's loss with clip-higher, averaged over tokens (Yu et al. 2025, arXiv 2503.14476)."""

    type: str = "dapo"
    clip_high: float = Field(default=0.28, ge=0)
    """Wider than clip_low, so that unlikely tokens can become likely."""


class DrGrpo(Clipped):
    """PPO's loss summed over a completion and divided by a constant (Liu et al. 2025, arXiv
    2503.20783). Goes with an estimator that does not divide by the deviation, such as rloo."""

    type: str = "dr_grpo"
    average: Literal["tokens", "sequences"] | PositiveInt = 1024
    """A constant, usually the longest completion: no completion counts less for being longer."""


class Gspo(Clipped):
    type: str = "gspo"
    clip_low: float = Field(default=3e-4, ge=0)
    """Small, as it bounds a geometric mean over the completion."""
    clip_high: float = Field(default=4e-4, ge=0)
    """Small for the same reason."""
    average: Literal["tokens", "sequences"] | PositiveInt = "sequences"
    """The mean over completions of each one's token mean: the ratio belongs to a completion."""


class Cispo(Clipped):
    type: str = "cispo"
    clip_low: float = Field(default=0.0, ge=0)
    """The weight is clipped at 1 - clip_low; 0: not from below."""
    clip_high: float = Field(default=4.0, ge=0)
    """The weight is clipped at 1 + clip_high; 0: not from above."""


class CrossEntropy(LossChoice):
    type: str = "cross_entropy"


class Reinforce(LossChoice):
    type: str = "reinforce"
    max_ratio: float = Field(default=2.0, ge=0)
    """Truncated importance sampling: every token is weighted by r, at most this much. It corrects
    for a sampler that rounds differently than training does. 0: not at all."""


def reinforce(batch: LossBatch, settings: Reinforce) -> "Tensor":
    """The plain policy gradient (Williams 1992), weighted by the truncated ratio: -min(r, c) A log
    p, without a gradient through r. Meant for one optimizer step."""
    losses = -batch.advantages * batch.logprobs
    return (
        losses * _ratio(batch).clamp(max=settings.max_ratio).detach()
        if settings.max_ratio
        else losses
    )


def cross_entropy(batch: LossBatch, settings: LossChoice) -> "Tensor":
    """-A log p, for texts that the member did not sample: A is the weight of a token, 1 or 0."""
    return -batch.advantages * batch.logprobs


def ppo(batch: LossBatch, settings: Clipped) -> "Tensor":
    """Clipped surrogate (Schulman et al. 2017, arXiv 1707.06347): -min(r A, clip(r) A)."""
    ratio = _ratio(batch)
    return -(ratio * batch.advantages).minimum(settings.clip(ratio) * batch.advantages)


def gspo(batch: LossBatch, settings: Clipped) -> "Tensor":
    """Group sequence policy optimization (Zheng et al. 2025, arXiv 2507.18071): PPO's loss with one
    ratio for the whole completion, the geometric mean of r over its tokens."""
    log_ratio = batch.sequence_mean(batch.logprobs - batch.sampled_logprobs)
    ratio = log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
    return -(ratio * batch.advantages).minimum(settings.clip(ratio) * batch.advantages)


def cispo(batch: LossBatch, settings: Clipped) -> "Tensor":
    """Clipped importance sampling (MiniMax 2025, arXiv 2506.13585): -sg(clip(r)) A log p, with sg
    for no gradient. The weight is clipped, so no token loses its gradient."""
    return -settings.clip(_ratio(batch)).detach() * batch.advantages * batch.logprobs


def _ratio(batch: LossBatch) -> "Tensor":
    log_ratio = batch.logprobs - batch.sampled_logprobs
    return log_ratio.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()


LOSSES: Registry[Callable[[LossBatch, Any], "Tensor"]] = Registry(
    "loss",
    {
        "reinforce": Entry(reinforce, Reinforce),
        "ppo": Entry(ppo, Ppo),
        "dapo": Entry(ppo, Dapo),
        "dr_grpo": Entry(ppo, DrGrpo),
        "gspo": Entry(gspo, Gspo),
        "cispo": Entry(cispo, Cispo),
        "cross_entropy": Entry(cross_entropy, CrossEntropy),
    },
    custom=CustomLoss,
)


def bind_loss(choice: Choice) -> Loss:
    """The loss that a setting chooses, as an engine takes it."""
    average = choice.average if isinstance(choice, LossChoice) else "tokens"
    return Loss(BoundLoss(choice.type, choice.options), average)


@dataclass(frozen=True, slots=True)
class BoundLoss:
    """A loss by name with its settings. It can be sent to another process."""

    type: str
    options: Any

    def __call__(self, batch: LossBatch) -> "Tensor":
        return LOSSES[self.type](batch, self.options)
