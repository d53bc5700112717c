"""Ratings by role: who is a good critic, judge or debater, apart from who solves problems well."""

import statistics
from collections import defaultdict

from redqueen.core.state import StepState
from redqueen.core.trueskill import rate_game
from redqueen.records import Rating


def rate_roles(state: StepState) -> None:
    """In each role of each game, a member wins that earned more a turn than the members that played
    the role in this step did on average, and meets their mean rating; as teachers are rated."""
    world, config = state.world, state.world.config.rate
    for (_, role), rewards in sorted(_rewards(state).items()):
        means = {member: statistics.fmean(earned) for member, earned in rewards.items()}
        expected = statistics.fmean(means.values())
        before = {member: world.role_rating(member, role) for member in means}
        opponent = Rating(
            statistics.fmean(rating.mu for rating in before.values()),
            statistics.fmean(rating.sigma for rating in before.values()),
        )
        for member, mean in means.items():
            if abs(mean - expected) < 1e-9:  # also where it played alone
                after = before[member]
            elif mean > expected:
                after, _ = rate_game(before[member], opponent, config)
            else:
                _, after = rate_game(opponent, before[member], config)
            world.role_ratings.setdefault(role, {})[member] = after


def _rewards(state: StepState) -> dict[tuple[str, str], dict[str, list[float]]]:
    """What each member earned, by game and role."""
    rewards: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for play in state.plays:
        for turn, reward in zip(play.turns, play.rewards, strict=True):
            if turn.author is not None and turn.verdict != "voided":
                rewards[play.game, turn.role][turn.author.member].append(reward)
    return rewards
