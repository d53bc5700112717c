"""Settings of the match stage."""

from typing import Literal

from pydantic import Field

from redqueen.config.section import Section
from redqueen.stages.rate.ratings import RatingConfig


class MatchConfig(Section):
    scheme: Literal["pfsp", "uniform", "round_robin", "self_play"] = "pfsp"
    """Who plays whom. pfsp: near-balanced pairings are likelier. self_play: every member solves its
    own problems, unrated (Absolute Zero)."""
    outcome: Literal["all_proposals", "paper", "threshold", "per_problem"] = "all_proposals"
    """What wins a game. all_proposals: the student's score over all proposals (an invalid, repeated
    or unsolved one counts as solved), against the expected one. paper: the solve rate of the valid
    problems, against the expected one. threshold: the score of all_proposals, against a fixed one.
    per_problem: every proposal is a game of its own, against the threshold."""
    threshold: float = Field(default=0.5, gt=0, lt=1)
    """The score from which on the student wins, for threshold and per_problem."""
    rating: RatingConfig = RatingConfig()
