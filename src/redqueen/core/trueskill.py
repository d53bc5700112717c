"""TrueSkill for one against one without draws, in closed form (Herbrich, Minka, Graepel 2006)."""

import math

from redqueen.config.stages import RateConfig
from redqueen.records import Rating


def win_probability(first: Rating, second: Rating, config: RateConfig) -> float:
    """The probability that the first one wins against the second."""
    return _cdf(
        (first.mu - second.mu) / math.sqrt(first.sigma**2 + second.sigma**2 + 2 * config.beta**2)
    )


def rate_game(winner: Rating, loser: Rating, config: RateConfig) -> tuple[Rating, Rating]:
    """Both ratings after a game."""
    won, lost = winner.sigma**2 + config.tau**2, loser.sigma**2 + config.tau**2
    spread = math.sqrt(won + lost + 2 * config.beta**2)
    lead = (winner.mu - loser.mu) / spread
    surprise = _hazard(lead)
    certainty = surprise * (surprise + lead)

    def after(mu: float, variance: float, sign: int) -> Rating:
        return Rating(
            mu + sign * variance / spread * surprise,
            math.sqrt(variance * max(1 - variance / spread**2 * certainty, 1e-4)),
        )

    return after(winner.mu, won, 1), after(loser.mu, lost, -1)


def _cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _hazard(x: float) -> float:
    """Density over distribution of the normal; far out, where both vanish, their limit."""
    below = _cdf(x)
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi) / below if below > 1e-300 else -x
