"""Losses against plain formulas, one completion at a time, and their gradients against finite
differences."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from redqueen.config.registry import Choice
from redqueen.engine.torch.learner import LossTokens
from redqueen.errors import ConfigError
from redqueen.stages.update.losses import LOSSES, bind_loss

LENGTHS = (1, 4, 7, 2, 6)
SETTINGS: dict[str, dict[str, Any]] = {
    "reinforce": {"max_ratio": 1.2},
    "ppo": {"clip_low": 0.2, "clip_high": 0.3},
    "dapo": {},
    "dr_grpo": {},
    "gspo": {"clip_low": 0.1, "clip_high": 0.15},
    "cispo": {"clip_low": 0.5, "clip_high": 0.4},
    "cross_entropy": {},
}
"""Such that some tokens are clipped."""


def plain_loss(
    name: str, logprobs: Any, before: Any, advantages: Any, low: float, high: float, fixed: Any
) -> list[float]:
    """Per token, as the papers have it. `fixed`: log-probabilities that no gradient goes through."""
    losses: list[float] = []
    start = 0
    for length in LENGTHS:
        tokens = range(start, start + length)
        start += length
        together = math.exp(sum(logprobs[t] - before[t] for t in tokens) / length)
        for t in tokens:
            a, ratio = advantages[t], math.exp(logprobs[t] - before[t])
            if name == "gspo":
                ratio = together
            clipped = min(max(ratio, 1 - low), 1 + high)
            if name == "reinforce":
                losses.append(-min(math.exp(fixed[t] - before[t]), 1.2) * a * logprobs[t])
            elif name == "cross_entropy":
                losses.append(-a * logprobs[t])
            elif name == "cispo":
                weight = min(max(math.exp(fixed[t] - before[t]), 1 - low), 1 + high)
                losses.append(-weight * a * logprobs[t])
            else:
                losses.append(-min(ratio * a, clipped * a))
    return losses


def batch_of(logprobs: Sequence[float], before: Any, advantages: Any) -> LossTokens:
    tensors = (
        torch.tensor(values, dtype=torch.float64) for values in (logprobs, before, advantages)
    )
    now, old, gains = tensors
    return LossTokens(now.requires_grad_(), old, gains, torch.tensor(LENGTHS))


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradient_are_those_of_its_paper(name: str) -> None:
    rng = np.random.default_rng(0)
    size = sum(LENGTHS)
    before = rng.uniform(-3, -0.5, size)
    logprobs = before + rng.normal(0, 0.4, size)
    advantages = np.repeat(rng.normal(0, 1, len(LENGTHS)), LENGTHS)
    choice: Any = LOSSES.choose({"type": name, **SETTINGS[name]})
    low = getattr(choice, "clip_low", None) or math.inf
    high = getattr(choice, "clip_high", None) or math.inf

    def expected(now: Any) -> list[float]:
        return plain_loss(name, now, before, advantages, low, high, logprobs)

    batch = batch_of(logprobs.tolist(), before, advantages)
    losses = bind_loss(choice).per_token(batch)
    assert losses.tolist() == pytest.approx(expected(logprobs), rel=1e-9)
    losses.sum().backward()
    assert batch.logprobs.grad is not None
    step = 1e-6
    for token in range(size):
        up, down = logprobs.copy(), logprobs.copy()
        up[token] += step
        down[token] -= step
        slope = (sum(expected(up)) - sum(expected(down))) / (2 * step)
        assert float(batch.logprobs.grad[token]) == pytest.approx(slope, abs=1e-6), token
    clipped = int((batch.logprobs.grad == 0).sum())
    assert 0 < clipped < size or name in ("reinforce", "cispo", "cross_entropy")


@pytest.mark.parametrize("name", LOSSES)
def test_while_the_policy_is_unchanged_every_loss_has_the_gradient_of_the_plain_one(
    name: str,
) -> None:
    rng = np.random.default_rng(1)
    logprobs = rng.uniform(-3, -0.5, sum(LENGTHS))
    advantages = np.repeat(rng.normal(0, 1, len(LENGTHS)), LENGTHS)
    batch = batch_of(logprobs.tolist(), logprobs, advantages)
    bind_loss(LOSSES.choose(name)).per_token(batch).sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx((-advantages).tolist(), rel=1e-9)


def test_a_ratio_beyond_all_measure_does_not_overflow() -> None:
    batch = batch_of([-1.0] * sum(LENGTHS), [-1e4] * sum(LENGTHS), [1.0] * sum(LENGTHS))
    for name in LOSSES:
        choice = LOSSES.choose(name)
        assert torch.isfinite(bind_loss(choice).per_token(batch)).all(), name


def test_each_loss_says_how_it_is_averaged_and_a_setting_changes_it() -> None:
    averages = {name: bind_loss(LOSSES.choose(name)).average for name in LOSSES}
    assert averages == {
        "reinforce": "tokens",
        "ppo": "tokens",
        "dapo": "tokens",
        "dr_grpo": 1024,
        "gspo": "sequences",
        "cispo": "tokens",
        "cross_entropy": "tokens",
    }
    assert bind_loss(LOSSES.choose({"type": "ppo", "average": "sequences"})).average == "sequences"
    with pytest.raises(ConfigError, match=r"average.*got 0"):
        LOSSES.choose({"type": "ppo", "average": 0})


def halved(batch: Any, settings: dict[str, float]) -> Any:
    return -batch.advantages * batch.logprobs * settings["factor"]


def test_a_loss_of_ones_own_comes_by_import_path_with_its_settings() -> None:
    choice: Choice = LOSSES.choose(
        {"type": f"{__name__}:halved", "settings": {"factor": 0.5}, "average": "sequences"}
    )
    loss = bind_loss(choice)
    batch = batch_of([-2.0] * sum(LENGTHS), [-2.0] * sum(LENGTHS), [1.0] * sum(LENGTHS))
    assert loss.average == "sequences" and set(loss.per_token(batch).tolist()) == {1.0}


def test_without_a_largest_ratio_reinforce_is_the_plain_policy_gradient() -> None:
    rng = np.random.default_rng(1)
    logprobs, before, advantages = (rng.normal(-1, 0.3, sum(LENGTHS)) for _ in range(3))
    losses = bind_loss(LOSSES.choose({"type": "reinforce", "max_ratio": 0})).per_token(
        batch_of(logprobs.tolist(), before, advantages)
    )
    assert losses.tolist() == pytest.approx((-advantages * logprobs).tolist())
