"""Entries of reasoning-gym as problems: a question and an answer, scored by the data set's own
scorer. Nobody proposes them; they come from a source, and a seed and an index make them again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from redqueen.errors import ConfigError, unknown
from redqueen.records import Problem
from redqueen.sandbox import Job, Outcome
from redqueen.tasks.gym.scorer import SCORER
from redqueen.tasks.kind import Block, Kind, Malformed, Reject, Request, RunRules, Verified, take

MAX_ANSWER = 4000
_TRIES = 20
"""Entries that are made until one can be asked: some are longer than a prompt, or have no single
answer."""
_MAX_QUESTION = 6000

_NO_ANSWERS = ("there is no such answer", "?")

Entries = Callable[[Random, int, range, Sequence[str]], list[tuple[str, Any]]]


@dataclass(frozen=True, slots=True)
class Entry:
    """The payload of a problem: an entry of a data set."""

    dataset: str
    seed: int
    index: int
    question: str
    metadata: str = ""
    """Of the entry, as JSON."""


class Gym(Kind):
    name = "gym"
    payload = Entry
    system = "You are careful and exact."
    summary = "answer a question of a procedural data set"
    proposal_blocks = ("question",)
    answer_blocks = ("answer",)

    def ask_proposal(self, references: Sequence[Problem]) -> Request:
        raise ConfigError(
            "problems of reasoning-gym are made, not proposed: set population.teachers=0 and "
            "fixed.source=reasoning-gym"
        )

    def read_proposal(self, blocks: Sequence[Block], references: Sequence[Problem]) -> Entry:
        raise Malformed("nobody proposes these")

    def verification(self, payload: Entry, rules: RunRules) -> Job | None:
        if len(payload.question) > _MAX_QUESTION:
            raise Reject("too_long", f"a question of {len(payload.question)} characters")
        return None

    def verified(self, payload: Entry, outcome: Outcome | None, rules: RunRules) -> Verified:
        """Made again from its seed, and its own answer scored."""
        if payload.dataset not in SCORER.start():
            raise Reject("unsupported", f"no data set {payload.dataset[:40]!r}")
        made = SCORER.ask(payload.dataset, payload.seed, payload.index)
        if made.get("question") != payload.question:
            raise Reject("unstable", "this version of reasoning-gym makes another question")
        gold = made.get("gold")
        if not isinstance(gold, str) or not gold.strip() or len(gold) > rules.max_output_chars:
            raise Reject("unsupported", "no single answer, or a long one")
        if not _is_correct(payload, gold):
            raise Reject("unstable", "its scorer does not accept its own answer")
        if any(_is_correct(payload, text) for text in _NO_ANSWERS if text != gold):
            raise Reject("unsupported", "its scorer accepts any answer")
        features = {"length": len(payload.question), "answer_length": len(gold)}
        return Verified(payload, (gold,), features, (payload.dataset, payload.question))

    def ask_answer(self, problem: Problem) -> Request:
        given = (("question", problem.payload.question),)
        return self.request("student", "Answer this question.", given)

    def read_answer(self, blocks: Sequence[Block]) -> str:
        text = take(blocks, "answer").strip()
        if not text or len(text) > MAX_ANSWER:
            raise Malformed(f"an answer of {len(text)} characters, from 1 to {MAX_ANSWER}")
        return text

    def grading(self, problem: Problem, answer: str, rules: RunRules) -> Job | None:
        return None

    def is_correct(self, problem: Problem, answer: str, outcome: Outcome | None) -> bool:
        return answer == problem.gold[0] or _is_correct(problem.payload, answer)

    def show(self, problem: Problem) -> tuple[Block, ...]:
        entry: Entry = problem.payload
        return (
            ("question", entry.question),
            ("answer", problem.gold[0]),
            ("data set", entry.dataset),
        )

    def structure(self, problem: Problem) -> str:
        return str(problem.payload.dataset)

    def cell(self, problem: Problem) -> str:
        return f"{self.name}/{problem.payload.dataset}"

    def load_payload(self, fields: Mapping[str, Any]) -> Entry:
        dataset, question = fields.get("dataset"), fields.get("question")
        seed, index, metadata = fields.get("seed"), fields.get("index"), fields.get("metadata", "")
        if not isinstance(dataset, str) or not isinstance(question, str):
            raise ValueError("expected the texts 'dataset' and 'question'")
        if not all(type(number) is int and 0 <= number < 1 << 31 for number in (seed, index)):
            raise ValueError("expected 'seed' and 'index', as whole numbers")
        return Entry(dataset, int(seed or 0), int(index or 0), question, str(metadata))


def _is_correct(entry: Entry, answer: str) -> bool:
    return bool(SCORER.ask(entry.dataset, entry.seed, entry.index, answer).get("correct", False))


def entries_of(*datasets: str) -> Entries:
    """A source of these data sets, of all where none is named."""

    def make(rng: Random, count: int, tiers: range, kinds: Sequence[str]) -> list[tuple[str, Any]]:
        """Entries of data sets of reasoning-gym, each of a random one (an extra)."""
        if kinds and Gym.name not in kinds:
            return []
        known = SCORER.start()
        for name in datasets:
            if name not in known:
                raise ConfigError(unknown("data set of reasoning-gym", name, known))
        return [(Gym.name, _make_entry(rng, datasets or known)) for _ in range(count)]

    return make


def _make_entry(rng: Random, datasets: Sequence[str]) -> Entry:
    for _ in range(_TRIES):
        name, seed = rng.choice(datasets), rng.getrandbits(31)
        made = SCORER.ask(name, seed, 0)
        question = made.get("question", "")
        if isinstance(made.get("gold"), str) and 0 < len(question) <= _MAX_QUESTION:
            return Entry(name, seed, 0, question, str(made.get("metadata", "{}"))[:_MAX_QUESTION])
    raise ConfigError(f"no entry of {', '.join(datasets[:5])} has a short question and one answer")
