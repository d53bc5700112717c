"""AdamW over a population: every member has its own state, learning rate, step count and gradient
norm. All of it is a few row-wise operations."""

import torch
from torch import Tensor

from redqueen.engine.protocol import TrainSettings
from redqueen.engine.torch.population import Population

_EPSILON = 1e-8


class PopulationAdamW:
    def __init__(self, population: Population) -> None:
        self.population = population
        self.first = torch.zeros_like(population.weights)
        self.second = torch.zeros_like(population.weights)
        self.steps = torch.zeros(population.slots, 1, device=population.device)

    def zero_grad(self) -> None:
        self.population.grads.zero_()

    @torch.no_grad()
    def step(self, learning: Tensor, settings: TrainSettings) -> Tensor:
        """One step for the members that learned something; the others stay as they are. Their
        gradient norms, before clipping; one that is no number belongs to a member that could not
        learn."""
        population, grads = self.population, self.population.grads
        # summed in double: rounded again, it does not depend on how the rows were dealt out to
        # threads
        norms: Tensor = torch.linalg.vector_norm(grads, dim=1, dtype=torch.float64).float()
        grads *= (settings.grad_clip / norms.clamp(min=1e-12)).clamp(max=1)[:, None]
        if not bool(
            norms.isfinite().all()
        ):  # who has such a gradient stays as it is, and its norm says so
            learning = learning & norms.isfinite()
            grads[~norms.isfinite()] = 0
        rates = [
            settings.learning_rates.get(slot, settings.learning_rate)
            for slot in range(population.slots)
        ]
        rate = torch.tensor(rates, device=grads.device)[:, None] * learning[:, None]
        taking = learning[:, None].float()
        self.steps += taking
        # lerp with weight zero leaves a member's state as it is
        self.first.lerp_(grads, (1 - settings.beta1) * taking)
        self.second.lerp_(grads.square(), (1 - settings.beta2) * taking)
        count = self.steps.clamp(min=1)
        mean = self.first / (1 - settings.beta1**count)
        spread = (self.second / (1 - settings.beta2**count)).sqrt_().add_(_EPSILON)
        population.weights *= 1 - rate * settings.weight_decay
        population.weights -= rate * mean / spread
        population.changed()
        return norms

    def reset(self, slot: int) -> None:
        for state in (self.first, self.second, self.steps):
            state[slot] = 0

    def state(self) -> dict[str, Tensor]:
        return {"first": self.first, "second": self.second, "steps": self.steps}
