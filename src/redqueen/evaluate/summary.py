"""Scores of one model, and of a population: its mean, its majority vote, and the best of its
members."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from redqueen.evaluate.replies import ByItem, GradedReply, share_correct
from redqueen.evaluate.statistics import mean, paired_difference, pass_at_k, score_interval

_KS = (1, 2, 4, 8, 16, 32, 64, 128)


def summarize_model(replies: ByItem, samples: int) -> dict[str, Any]:
    row = summarize_scores(list(map(share_correct, replies.values())))
    if samples > 1:
        ks = sorted({k for k in _KS if k < samples} | {samples})
        row["pass_at"] = {str(k): round(mean(_pass_at(replies, k)), 4) for k in ks}
        if votes := _majority_votes([replies]):
            row["majority_vote"] = summarize_scores(list(votes.values()))
    everything = [reply for of_item in replies.values() for reply in of_item]
    reasons = Counter(reply.reason.partition(":")[0] for reply in everything if not reply.correct)
    return row | {
        "truncated": sum(reply.truncated for reply in everything),
        "incorrect": dict(reasons.most_common()),
    }


def summarize_population(members: Sequence[ByItem], base: ByItem, samples: int) -> dict[str, Any]:
    base_scores = list(map(share_correct, base.values()))
    columns = list(zip(*(map(share_correct, replies.values()) for replies in members), strict=True))
    best = [1 - math.prod(1 - score for score in column) for column in columns]
    row = {
        "mean": _summarize_beside(list(map(mean, columns)), base_scores),
        "best_of_members": _summarize_beside(best, base_scores),
    }
    if samples >= len(members) > 1:
        # as many tries of the base: what different members are worth beside one that tries again
        tries = _pass_at(base, len(members))
        row["best_of_members"]["against_base_as_often"] = paired_difference(best, tries).to_json()
        row["best_of_members"]["base_as_often"] = summarize_scores(tries)
    if votes := _majority_votes(members):
        voted = [score for item, score in zip(base, base_scores, strict=True) if item in votes]
        row["majority_vote"] = _summarize_beside(list(votes.values()), voted)
    return row


def summarize_scores(scores: Sequence[float]) -> dict[str, Any]:
    """A mean over items with its interval."""
    return {
        "accuracy": round(mean(scores), 4),
        "n": len(scores),
        "interval": [round(end, 4) for end in score_interval(scores)],
    }


def _summarize_beside(scores: Sequence[float], base: Sequence[float]) -> dict[str, Any]:
    return summarize_scores(scores) | {"against_base": paired_difference(scores, base).to_json()}


def _pass_at(replies: ByItem, k: int) -> list[float]:
    return [
        pass_at_k(len(of_item), sum(reply.correct for reply in of_item), k)
        for of_item in replies.values()
    ]


def _majority_votes(models: Sequence[ByItem]) -> dict[str, float]:
    """By item, the worth of the majority vote; without items whose answers cannot be compared."""
    votes = {}
    for item in models[0]:
        replies = [reply for replies in models for reply in replies[item]]
        if all(reply.vote_key is not None for reply in replies):
            votes[item] = majority_vote(replies)
    return votes


def majority_vote(replies: Sequence[GradedReply]) -> float:
    """1 if the most frequent answer is correct; in a tie, the share of those that are."""
    votes = Counter(reply.vote_key for reply in replies if reply.vote_key)
    most = max(votes.values(), default=0)
    tied = [key for key, count in votes.items() if count == most]
    correct = {reply.vote_key for reply in replies if reply.correct}
    return sum(key in correct for key in tied) / len(tied) if tied else 0.0
