"""What an evaluation returns: every graded reply, and the scores that follow from them."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from redqueen.benchmarks.suite import Item
from redqueen.evaluate.replies import (
    BASE,
    BASE_VOTE,
    CHOSEN,
    FORCED,
    SOUP,
    VOTE,
    ByItem,
    EvalConfig,
    GradedReply,
    Model,
    share_correct,
)
from redqueen.evaluate.statistics import Difference, mean, paired_difference, score_interval
from redqueen.evaluate.styles import StyleTrial
from redqueen.evaluate.summary import majority_votes, summarize_model, summarize_population


@dataclass(frozen=True)
class EvalResult:
    """One or more models on one suite."""

    target: str
    """What was measured, as it was named."""
    items: tuple[Item, ...]
    """The items that were asked."""
    config: EvalConfig
    """Suite, prompts and sampling: all that the replies depend on."""
    models: tuple[Model, ...]
    """Those under test, and the base where it was measured beside them."""
    replies: tuple[GradedReply, ...]
    """Of every model to every item, with the verdict."""
    note: str = ""
    """What a reader of the scores must know about the suite."""
    run: Path | None = None
    """The folder of the run whose models were measured, if any."""
    step: int = 0
    """Of the run, after which the models were as they are."""
    trial: StyleTrial | None = None
    """Of prompt styles, where the best was to be found."""

    @cached_property
    def by_model(self) -> dict[str, ByItem]:
        """Replies by model and item."""
        tables: dict[str, dict[str, list[GradedReply]]] = {
            model.name: defaultdict(list) for model in self.models
        }
        for reply in self.replies:
            tables[reply.model][reply.item].append(reply)
        return {name: dict(table) for name, table in tables.items()}

    @property
    def under_test(self) -> tuple[Model, ...]:
        """All but the base; the base where it is alone."""
        tested = tuple(model for model in self.models if not model.is_reference)
        return tested or tuple(model for model in self.models if model.is_base)

    @property
    def solvers(self) -> tuple[Model, ...]:
        """The models whose mean is the score: those that solve problems, else all under test."""
        return tuple(model for model in self.under_test if model.is_solver) or self.under_test

    @property
    def worlds(self) -> dict[int, list[Model]]:
        """By world, those that solve problems."""
        worlds: dict[int, list[Model]] = defaultdict(list)
        for model in self.under_test:
            if model.is_solver:
                worlds[model.world].append(model)
        return dict(worlds)

    @property
    def populations(self) -> dict[int, list[Model]]:
        """By world, the solvers that count together, where there are several."""
        return {world: members for world, members in self.worlds.items() if len(members) > 1}

    def vote_count(self, members: Sequence[Model]) -> int:
        """How many votes `members` have together: as many as other models have replies, and at
        least one each."""
        return max(self.config.samples, len(members))

    def item_scores(self, model: str) -> list[float]:
        """The share of replies that are correct, item by item; `model`: its name, such as S2."""
        return [share_correct(replies) for replies in self.by_model[model].values()]

    def world_scores(self, world: int) -> dict[str, list[float]]:
        """Item scores of the members of `world` by their ids, of its soup, of the chosen student,
        and of the base."""
        scores = {
            model.member or model.name: self.item_scores(model.name)
            for model in self.models
            if model.is_reference or model.world == world
        }
        for model in self.worlds.get(world, []):
            if model.chosen:
                scores[CHOSEN] = scores[model.member]
            if model.students == 1:
                scores[SOUP] = scores[model.member]
        return scores

    def vote_scores(self, world: int) -> dict[str, list[float]]:
        """Item scores of the vote of the students of `world`, and of the base with as many votes;
        of items whose answers can be compared. Empty without all students, or with one vote."""
        members = self.worlds.get(world, [])
        count = self.vote_count(members)
        if len(members) != max((model.students for model in members), default=-1) or count < 2:
            return {}
        tables = {VOTE: [self.by_model[model.name] for model in members]}
        if BASE in self.by_model and min(map(len, self.by_model[BASE].values())) >= count:
            tables[BASE_VOTE] = [self.by_model[BASE]]
        votes = {name: majority_votes(replies, count) for name, replies in tables.items()}
        return {
            name: [mean(own[item]) for item in votes[VOTE]] for name, own in votes.items() if own
        }

    @property
    def per_item(self) -> dict[str, float]:
        """The share of correct replies by item, over all solvers."""
        columns = zip(*(self.item_scores(model.name) for model in self.solvers), strict=True)
        return dict(zip((item.id for item in self.items), map(mean, columns), strict=True))

    @property
    def n(self) -> int:
        """How many items were asked."""
        return len(self.items)

    @property
    def correct(self) -> float:
        """Items that are correct; one with several replies counts by its share."""
        return math.fsum(self.per_item.values())

    @property
    def score(self) -> float:
        """The share of correct replies, from 0 to 1: the mean over all solvers."""
        return self.correct / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the score."""
        return score_interval(list(self.per_item.values()))

    @property
    def difference(self) -> Difference | None:
        """To the base on the same items; None where there is no other model."""
        if BASE not in self.by_model or self.under_test[0].is_base:
            return None
        return paired_difference(list(self.per_item.values()), self.item_scores(BASE))

    def to_rows(self, suite: str | None = None) -> list[dict[str, Any]]:
        """A row for each reply, as in the table `evals` of the ledger; those of the base in every
        world. `chosen`, `vote` and, of a single student, `soup` are subjects of their own. `suite`:
        another name for it."""
        worlds = dict.fromkeys(model.world for model in self.under_test)
        subjects: dict[str, list[tuple[int, str]]] = {
            model.name: [(world, model.name) for world in worlds]
            if model.is_reference
            else [(model.world, model.member or model.name)]
            for model in self.models
        }
        for model in self.under_test:
            if model.chosen and model.member != CHOSEN:
                subjects[model.name].append((model.world, CHOSEN))
            if model.is_solver and model.students == 1:
                subjects[model.name].append((model.world, SOUP))
        rows = [
            (world, subject, reply.item, reply.sample, reply.correct)
            for reply in self.replies
            for world, subject in subjects[reply.model]
        ]
        items = {item.id: item for item in self.items}
        return [
            {
                "world": world,
                "step": self.step,
                "suite": suite or self.config.suite,
                "subject": subject,
                "item": item,
                "kind": items[item].kind or self.config.prompt_version,
                "tier": items[item].tier,
                "sample": sample,
                "correct": int(correct),
            }
            for world, subject, item, sample, correct in [*rows, *self._vote_rows()]
        ]

    def _vote_rows(self) -> Iterator[tuple[int, str, str, int, bool]]:
        """World, subject, item, number and verdict. Answers that tie are samples of one item, so
        that their mean is what a lot among them is worth."""
        for world, members in self.worlds.items():
            for name in self.vote_scores(world):
                models = (
                    members if name == VOTE else [model for model in self.models if model.is_base]
                )
                tables = [self.by_model[model.name] for model in models]
                for item, tied in majority_votes(tables, self.vote_count(members)).items():
                    for number, correct in enumerate(tied):
                        yield world, name, item, number, correct

    def to_json(self) -> dict[str, Any]:
        """Scores with intervals: of one model beside the base, or of a population."""
        if len(self.under_test) > 1:
            row = self._population_json()
        else:
            row = self._model_json(self.under_test[0].name) | self.config.to_json()
            if self.difference is not None:
                row["base"] = self._model_json(BASE)
                row["against_base"] = self.difference.to_json()
        if FORCED in self.by_model:
            row["base_forced"] = self._model_json(FORCED)
        if any(item.tier for item in self.items) and self.under_test[0].is_base:
            row["tiers"] = self._tiers_json()
        if self.trial is not None:
            row["trial"] = self.trial.to_json()
        return row | ({"note": self.note} if self.note else {})

    @cached_property
    def reasoning_kinds(self) -> list[str]:
        """The task kinds whose replies may begin with reasoning: with the compact format deduction
        alone."""
        able = {reply.item for reply in self.replies if reply.reasoned is not None}
        return list(dict.fromkeys(item.kind for item in self.items if item.id in able))

    def _model_json(self, name: str) -> dict[str, Any]:
        row = summarize_model(self.by_model[name])
        if "reasoned" in row:
            row["reasoned"] |= {"kinds": self.reasoning_kinds}
        if name != BASE and BASE in self.by_model:
            gap = paired_difference(self.item_scores(name), self.item_scores(BASE))
            row["against_base"] = gap.to_json()
        return row

    def _population_json(self) -> dict[str, Any]:
        members = {model.name: self._model_json(model.name) for model in self.under_test}
        row: dict[str, Any] = {
            "n": self.n,
            **self.config.to_json(),
            "members": {
                model.name: members[model.name]
                for model in self.under_test
                if model.role != SOUP or model.world not in self.populations
            },
        }
        if BASE in self.by_model:
            row["base"] = self._model_json(BASE)
        products = {
            (model.world, SOUP if model.role == SOUP else CHOSEN): {
                "model": model.name,
                **members[model.name],
            }
            for model in self.under_test
            if model.role == SOUP or model.chosen
        }
        row["populations"] = [
            {"world": world, "arm": models[0].arm, "members": [model.name for model in models]}
            | summarize_population(
                [self.by_model[model.name] for model in models],
                self.by_model.get(BASE),
                self.vote_count(models),
            )
            | {name: product for (place, name), product in products.items() if place == world}
            for world, models in self.populations.items()
        ]
        return row

    def _tiers_json(self) -> dict[str, dict[str, Any]]:
        """By kind and tier."""
        replies = self.by_model[BASE]
        cells: dict[str, dict[str, dict[str, Sequence[GradedReply]]]] = {}
        for item in self.items:
            cell = cells.setdefault(item.kind, {}).setdefault(str(item.tier), {})
            cell[item.id] = replies[item.id]
        return {
            kind: {tier: summarize_model(cell) for tier, cell in row.items()}
            for kind, row in cells.items()
        }
