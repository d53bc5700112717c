"""AdamW over a population: every member has its own moments, step count, learning rate and gradient
norm. One step for all of them is a few row-wise operations."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from redqueen.engine.protocol import OptimizerSettings, StepStats
from redqueen.engine.torch.population import Population

_IDLE = OptimizerSettings(learning_rate=0.0)


class PopulationAdamW:
    def __init__(self, population: Population) -> None:
        self.population = population
        self.exp_avg = torch.zeros_like(population.weights)  # [slots, parameters_each]
        self.exp_avg_sq = torch.zeros_like(population.weights)
        self.steps = torch.zeros(population.slots, 1, device=population.device)

    @torch.no_grad()
    def step(self, settings: Mapping[int, OptimizerSettings]) -> StepStats:
        """Only the slots in `settings` change, and of these only the ones with a finite gradient.
        All gradients are cleared."""
        weights, grads = self.population.weights, self.population.grads
        # Summed in float64 and rounded: the result does not depend on how torch splits the rows
        # between threads.
        norms = torch.linalg.vector_norm(grads, dim=1, dtype=torch.float64).float()  # [slots]
        grad_norms: list[float] = norms.tolist()
        finite = [math.isfinite(norm) for norm in grad_norms]
        learns = [slot in settings and finite[slot] for slot in range(self.population.slots)]
        rows = [settings[slot] if learns[slot] else _IDLE for slot in range(self.population.slots)]

        def column(values: Iterable[float]) -> Tensor:
            return torch.tensor(list(values), device=grads.device)[:, None]  # [slots, 1]

        clip = column(row.grad_clip for row in rows)
        grads *= (clip * norms[:, None].clamp(min=1e-12).reciprocal()).clamp(max=1)
        if not all(finite):
            grads[~norms.isfinite()] = 0
        # A lerp with weight zero leaves the moments of idle slots as they are.
        taken = column(float(learning) for learning in learns)
        self.steps += taken
        self.exp_avg.lerp_(grads, column(1 - row.beta1 for row in rows) * taken)
        self.exp_avg_sq.lerp_(grads.square(), column(1 - row.beta2 for row in rows) * taken)
        count = self.steps.clamp(min=1)
        mean = self.exp_avg / (1 - column(row.beta1 for row in rows) ** count)
        variance = self.exp_avg_sq / (1 - column(row.beta2 for row in rows) ** count)
        rate = column(row.learning_rate for row in rows)
        weights *= 1 - rate * column(row.weight_decay for row in rows)
        weights -= rate * mean / variance.sqrt_().add_(column(row.eps for row in rows))
        grads.zero_()
        self.population.changed()
        return StepStats(
            {slot: grad_norms[slot] for slot in settings},
            frozenset(slot for slot in settings if not finite[slot]),
        )

    @torch.no_grad()
    def step_only(self, settings: Mapping[int, OptimizerSettings]) -> StepStats:
        """A step after which the gradients of slots that are not in `settings` are as before."""
        grads = self.population.grads
        others = [slot for slot in range(self.population.slots) if slot not in settings]
        waiting = grads[others]  # a copy
        grads[others] = 0
        stats = self.step(settings)
        grads[others] = waiting
        return stats

    def reset(self, slot: int) -> None:
        for state in self.state().values():
            state[slot] = 0

    def copy(self, source: int, target: int) -> None:
        for state in self.state().values():
            state[target] = state[source]

    def state(self) -> dict[str, Tensor]:
        """A row for each slot."""
        return {"exp_avg": self.exp_avg, "exp_avg_sq": self.exp_avg_sq, "step": self.steps}
