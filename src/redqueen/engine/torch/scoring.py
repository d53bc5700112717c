"""Log-probabilities of all tokens of samples, of prompts too, from the pass that trains on them or
from one without gradients. A prompt that several samples share is computed once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from redqueen.engine.protocol import Loss, TrainSample
from redqueen.engine.shared import Scored
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.learner import LossTokens, accumulate, hidden_states, logprobs_of
from redqueen.engine.torch.packing import MicroBatch, split_microbatches
from redqueen.engine.torch.population import Population
from redqueen.engine.torch.routing import put


class ScoreSheet:
    """The log-probabilities of samples, filled in by micro-batches in any order."""

    def __init__(self, forward: Forward, samples: Sequence[TrainSample]) -> None:
        self.forward = forward
        self.places: dict[int, list[int]] = {}
        """Of each sample, by identity, where it stands among all."""
        for place, sample in enumerate(samples):
            self.places.setdefault(id(sample), []).append(place)
        self.rows: list[tuple[float, ...]] = [()] * len(samples)

    def add(self, batch: MicroBatch, hidden: Tensor, logprobs: Tensor) -> None:
        prompts = iter(self._prompt_logprobs(batch, hidden))
        completions, start = logprobs.tolist(), 0
        for sequence in batch.sequences:
            before = tuple(next(prompts) for _ in sequence.prompt[1:])
            for sample in sequence.samples:
                end = start + len(sample.completion)
                for place in self.places[id(sample)]:
                    self.rows[place] = (*before, *completions[start:end])
                start = end

    def _prompt_logprobs(self, batch: MicroBatch, hidden: Tensor) -> list[float]:
        """Of every prompt token but the first of each row."""
        length, prompts = batch.ids.shape[1], [row.prompt for row in batch.sequences]
        places = [
            row * length + offset
            for row, prompt in enumerate(prompts)
            for offset in range(len(prompt) - 1)
        ]
        if not places:
            return []
        index = put(torch.tensor(places), hidden.device)
        targets = put(torch.tensor([t for prompt in prompts for t in prompt[1:]]), hidden.device)
        with torch.no_grad():
            ones = torch.ones(len(places), device=hidden.device)
            logprobs, _ = logprobs_of(self.forward, hidden[index], targets, ones)
        values: list[float] = logprobs.tolist()
        return values


def score_and_accumulate(
    forward: Forward,
    population: Population,
    samples: Sequence[TrainSample],
    loss: Loss,
    max_tokens: int,
    share_prompts: bool,
) -> Scored:
    sheet = ScoreSheet(forward, samples)
    stats = accumulate(
        forward, population, samples, loss, 0.0, max_tokens, share_prompts, sheet.add
    )
    return Scored(tuple(sheet.rows), {slot: one.loss for slot, one in stats.slots.items()})


@torch.no_grad()
def score(
    forward: Forward,
    samples: Sequence[TrainSample],
    loss: Loss,
    max_tokens: int,
    share_prompts: bool,
) -> Scored:
    """Without gradients. The loss is the sum over a slot's tokens."""
    sheet, losses = ScoreSheet(forward, samples), dict[int, float]()
    for batch in split_microbatches(samples, max_tokens, share_prompts, forward.base.device):
        routing = forward.routing(batch.row_slots, batch.ids.shape[1])
        hidden = hidden_states(forward, batch, routing)
        logprobs, _ = logprobs_of(
            forward, hidden[batch.predicted_by], batch.targets, batch.temperatures
        )
        sheet.add(batch, hidden, logprobs)
        sampled = torch.where(batch.sampled_logprobs.isnan(), logprobs, batch.sampled_logprobs)
        tokens = LossTokens(logprobs, sampled, batch.advantages, batch.lengths)
        per_token = loss.per_token(tokens).tolist()
        for slot, value in zip(batch.slots.tolist(), per_token, strict=True):
            losses[slot] = losses.get(slot, 0.0) + value
    return Scored(tuple(sheet.rows), losses)
