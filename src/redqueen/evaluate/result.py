"""What an evaluation returns: every graded reply, and the scores that follow from them."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from redqueen.benchmarks.suite import Item
from redqueen.evaluate.replies import BASE, ByItem, EvalConfig, GradedReply, Model, share_correct
from redqueen.evaluate.statistics import Difference, mean, paired_difference, score_interval
from redqueen.evaluate.summary import summarize_model, summarize_population


@dataclass(frozen=True)
class EvalResult:
    """One or more models on one suite."""

    target: str
    items: tuple[Item, ...]
    config: EvalConfig
    models: tuple[Model, ...]
    """Those under test, and the base where it was measured beside them."""
    replies: tuple[GradedReply, ...]
    note: str = ""
    """What a reader of the scores must know about the suite."""
    run: Path | None = None
    step: int = 0
    """Of the run, after which the models were as they are."""

    @cached_property
    def by_model(self) -> dict[str, ByItem]:
        tables: dict[str, dict[str, list[GradedReply]]] = {
            model.name: defaultdict(list) for model in self.models
        }
        for reply in self.replies:
            tables[reply.model][reply.item].append(reply)
        return {name: dict(table) for name, table in tables.items()}

    @property
    def under_test(self) -> tuple[Model, ...]:
        """All but the base; the base where it is alone."""
        return tuple(model for model in self.models if not model.is_base) or self.models

    @property
    def solvers(self) -> tuple[Model, ...]:
        """The models whose mean is the score: those that solve problems, else all under test."""
        solvers = tuple(model for model in self.under_test if model.role != "teacher")
        return solvers or self.under_test

    @property
    def populations(self) -> dict[int, list[Model]]:
        """By world, the solvers that count together, where there are several."""
        worlds: dict[int, list[Model]] = defaultdict(list)
        for model in self.under_test:
            if model.role != "teacher":
                worlds[model.world].append(model)
        return {world: members for world, members in worlds.items() if len(members) > 1}

    def item_scores(self, model: str) -> list[float]:
        """The share of a model's replies that are correct, item by item."""
        return [share_correct(replies) for replies in self.by_model[model].values()]

    def world_scores(self, world: int) -> dict[str, list[float]]:
        """Item scores of one world's members by their ids, and of the base."""
        return {
            model.member or model.name: self.item_scores(model.name)
            for model in self.models
            if model.is_base or model.world == world
        }

    @property
    def per_item(self) -> dict[str, float]:
        """The share of correct replies by item, over all solvers."""
        columns = zip(*(self.item_scores(model.name) for model in self.solvers), strict=True)
        return dict(zip((item.id for item in self.items), map(mean, columns), strict=True))

    @property
    def n(self) -> int:
        return len(self.items)

    @property
    def correct(self) -> float:
        """Items that are correct; one with several replies counts by its share."""
        return math.fsum(self.per_item.values())

    @property
    def score(self) -> float:
        return self.correct / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the score."""
        return score_interval(list(self.per_item.values()))

    @property
    def difference(self) -> Difference | None:
        """To the base on the same items; None where there is no other model."""
        if BASE not in self.by_model or self.under_test == self.models:
            return None
        return paired_difference(list(self.per_item.values()), self.item_scores(BASE))

    def to_rows(self, suite: str | None = None) -> list[dict[str, Any]]:
        """A row for each reply, as in the table `evals` of the ledger; those of the base in every
        world. `suite`: another name for it."""
        items = {item.id: item for item in self.items}
        worlds = dict.fromkeys(model.world for model in self.under_test)
        subjects = {
            model.name: [(model.world, model.member or model.name)]
            if not model.is_base
            else [(world, BASE) for world in worlds]
            for model in self.models
        }
        return [
            {
                "world": world,
                "step": self.step,
                "suite": suite or self.config.suite,
                "subject": subject,
                "item": reply.item,
                "kind": items[reply.item].kind or self.config.prompt_version,
                "tier": items[reply.item].tier,
                "sample": reply.sample,
                "correct": int(reply.correct),
            }
            for reply in self.replies
            for world, subject in subjects[reply.model]
        ]

    def to_json(self) -> dict[str, Any]:
        """Scores with intervals: of one model beside the base, or of a population."""
        if len(self.under_test) > 1:
            row = self._population_json()
        else:
            row = self._model_json(self.under_test[0].name) | self.config.to_json()
            if self.difference is not None:
                row["base"] = self._model_json(BASE)
                row["against_base"] = self.difference.to_json()
        if any(item.tier for item in self.items) and len(self.models) == 1:
            row["tiers"] = self._tiers_json()
        return row | ({"note": self.note} if self.note else {})

    def _model_json(self, name: str) -> dict[str, Any]:
        return summarize_model(self.by_model[name], self.config.samples)

    def _population_json(self) -> dict[str, Any]:
        members = {model.name: self._model_json(model.name) for model in self.under_test}
        row: dict[str, Any] = {"n": self.n, **self.config.to_json(), "members": members}
        if BASE not in self.by_model:
            return row
        base = self.item_scores(BASE)
        for name, scores in members.items():
            difference = paired_difference(self.item_scores(name), base)
            scores["against_base"] = difference.to_json()
        populations = [
            {"world": world, "arm": models[0].arm, "members": [model.name for model in models]}
            | summarize_population(
                [self.by_model[model.name] for model in models],
                self.by_model[BASE],
                self.config.samples,
            )
            for world, models in self.populations.items()
        ]
        return row | {"base": self._model_json(BASE), "populations": populations}

    def _tiers_json(self) -> dict[str, dict[str, Any]]:
        """By kind and tier."""
        (replies,) = self.by_model.values()
        cells: dict[str, dict[str, dict[str, Sequence[GradedReply]]]] = {}
        for item in self.items:
            cell = cells.setdefault(item.kind, {}).setdefault(str(item.tier), {})
            cell[item.id] = replies[item.id]
        return {
            kind: {tier: summarize_model(cell, self.config.samples) for tier, cell in row.items()}
            for kind, row in cells.items()
        }
