"""Scores of one model, and of a population: its mean, its majority vote, and the union of its
members' attempts, each beside the base with as many count and attempts."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from redqueen.evaluate.replies import ByItem, GradedReply, share_correct
from redqueen.evaluate.statistics import (
    Accuracy,
    mean,
    paired_difference,
    pass_at_k,
    score_interval,
)

_KS = (1, 2, 4, 8, 16, 32, 64, 128)


def summarize_model(replies: ByItem) -> dict[str, Any]:
    row = summarize_scores(list(map(share_correct, replies.values())))
    samples = min(map(len, replies.values()))
    if samples > 1:
        ks = sorted({k for k in _KS if k < samples} | {samples})
        row["pass_at"] = {str(k): round(mean(union_pass([replies], k)), 4) for k in ks}
        if votes := majority_votes([replies], samples):
            row["majority_vote"] = summarize_scores(list(map(mean, votes.values())))
    everything = [reply for of_item in replies.values() for reply in of_item]
    reasons = Counter(reply.reason.partition(":")[0] for reply in everything if not reply.correct)
    return row | {
        "truncated": sum(reply.truncated for reply in everything),
        "incorrect": dict(reasons.most_common()),
        **summarize_reasoning(everything),
    }


def summarize_reasoning(replies: Sequence[GradedReply]) -> dict[str, Any]:
    """How often replies begin with reasoning where they may, and how often they are correct with it
    and without."""
    able = [reply for reply in replies if reply.reasoned is not None]
    if not able:
        return {}

    def accuracy(reasoned: bool) -> dict[str, Any]:
        own = [reply.correct for reply in able if reply.reasoned == reasoned]
        return Accuracy(sum(own), len(own)).to_json()

    share = sum(reply.reasoned is True for reply in able)
    return {
        "reasoned": {
            "share": Accuracy(share, len(able)).to_json(),
            "accuracy_with": accuracy(True),
            "accuracy_without": accuracy(False),
        }
    }


def summarize_population(
    members: Sequence[ByItem], base: ByItem | None, count: int
) -> dict[str, Any]:
    """`count` votes are shared by the members, and so are the attempts of their union. The base is
    compared where it has given as many replies."""
    columns = list(zip(*(map(share_correct, replies.values()) for replies in members), strict=True))
    union = union_pass(members, count)
    row: dict[str, Any] = {
        "mean": summarize_scores(list(map(mean, columns))),
        "union_pass": summarize_scores(union) | {"k": count},
    }
    if base is not None:
        base_scores = list(map(share_correct, base.values()))
        row["mean"]["against_base"] = paired_difference(
            list(map(mean, columns)), base_scores
        ).to_json()
    as_often = base if base is not None and min(map(len, base.values())) >= count else None
    if as_often is not None:
        tries = union_pass([as_often], count)
        row["union_pass"]["base"] = summarize_scores(tries)
        row["union_pass"]["against_base"] = paired_difference(union, tries).to_json()
    votes = {item: mean(tied) for item, tied in majority_votes(members, count).items()}
    if votes:
        row["majority_vote"] = summarize_scores(list(votes.values())) | {"votes": count}
        if as_often is not None:
            others = {item: mean(tied) for item, tied in majority_votes([as_often], count).items()}
            row["majority_vote"]["base"] = summarize_scores([others[item] for item in votes])
            row["majority_vote"]["against_base"] = paired_difference(
                list(votes.values()), [others[item] for item in votes]
            ).to_json()
    return row


def summarize_scores(scores: Sequence[float]) -> dict[str, Any]:
    """A mean over items with its interval."""
    return {
        "accuracy": round(mean(scores), 4),
        "n": len(scores),
        "interval": [round(end, 4) for end in score_interval(scores)],
    }


def split(count: int, members: int) -> list[int]:
    """As evenly as possible, the first ones more."""
    return [count // members + (place < count % members) for place in range(members)]


def union_pass(models: Sequence[ByItem], k: int) -> list[float]:
    """By item, the unbiased estimate that one of k attempts is correct, shared by these models."""
    return [
        1
        - math.prod(
            1 - pass_at_k(len(replies[item]), sum(reply.correct for reply in replies[item]), each)
            for replies, each in zip(models, split(k, len(models)), strict=True)
            if each
        )
        for item in models[0]
    ]


def majority_votes(models: Sequence[ByItem], count: int) -> dict[str, list[bool]]:
    """By item, whether the answer that the majority votes for is correct; in a tie, each of those
    answers. Without items whose answers cannot be compared."""
    votes = {}
    for item in models[0]:
        cast = [
            reply
            for replies, each in zip(models, split(count, len(models)), strict=True)
            for reply in replies[item][:each]
        ]
        if all(reply.vote_key is not None for reply in cast):
            votes[item] = majority_vote(cast)
    return votes


def majority_vote(replies: Sequence[GradedReply]) -> list[bool]:
    """Whether the most frequent answer is correct; one for each of those that tie."""
    votes = Counter(reply.vote_key for reply in replies if reply.vote_key)
    most = max(votes.values(), default=0)
    correct = {reply.vote_key for reply in replies if reply.correct}
    return [key in correct for key, count in votes.items() if count == most] or [False]
