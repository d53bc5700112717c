"""Random and hostile puzzles and queries, from a teacher's text to the verdict: every one ends as a
problem or with a reason, within its limits, and gold is what another evaluation gives. `make fuzz`
plays 10,000 of each."""

import json
import logging
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import prod
from random import Random
from typing import Any

import pytest

from redqueen.config.sandbox import SandboxConfig
from redqueen.config.stages import VerifyConfig
from redqueen.records import Problem, Proposal, Rejection
from redqueen.sandbox import Job, Outcome
from redqueen.sandbox.pool import SandboxPool
from redqueen.stages.solve import grade_answers
from redqueen.stages.verify import verify_payloads, verify_proposals
from redqueen.tasks import Malformed, load_kinds
from redqueen.tasks.kind import load_problem, problem_fields
from redqueen.tasks.logic.language import Puzzle, read_json, read_puzzle
from redqueen.tasks.prompts import load_prompt_format
from redqueen.tasks.sql import runner
from redqueen.tasks.sql.databases import read_result, write_rows
from tests.contract.random_puzzles import all_solutions, puzzle_text
from tests.contract.random_queries import database
from tests.contract.texts import WRITERS
from tests.outside.things import NoSandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

log = logging.getLogger(__name__)
CASES = 10_000 if os.environ.get("REDQUEEN_FUZZ_S") else 300
BATCH = 50
CONFIG = VerifyConfig()
KINDS = load_kinds()
SMALL = 3000
"""Assignments up to which a puzzle is solved by going through all of them."""
OWN_CPU_S = 2.0
"""Of this process, for one puzzle or for reading one query."""


class Metered(SandboxPool):
    """Remembers what its jobs came to."""

    def __init__(self, config: SandboxConfig) -> None:
        self.slowest, self.ends = 0.0, Counter[str]()
        super().__init__(config)
        self.ends.clear()  # of the programs that a pool tries its walls with

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        outcomes = super().run(jobs)
        self.slowest = max([self.slowest, *(one.cpu_s for one in outcomes)])
        self.ends.update(one.kind for one in outcomes)
        return outcomes


@pytest.fixture
def metered() -> Iterator[Metered]:
    with Metered(SandboxConfig(workers=2)) as pool:
        yield pool


def text_of(rng: Random, *blocks: tuple[str, str]) -> tuple[str, str]:
    form = rng.choice(sorted(WRITERS))
    return form, WRITERS[form](*blocks)


def tell(what: str, counts: Counter[Any], slowest: float) -> None:
    log.info("%s, slowest %.2f CPU seconds: %s", what, slowest, sorted(counts.items()))


def is_whole(problem: Problem, shown: str) -> None:
    """Whatever is asked of an accepted problem has an answer, and it reads back as it was."""
    kind = KINDS[problem.kind]
    assert kind.structure(problem) and kind.cell(problem) and kind.behaviour(problem, None)
    assert kind.surface(problem) is not None
    load_prompt_format("chat").render(kind.ask_answer(problem))
    assert dict(kind.show(problem))[shown]
    kind.without_evidence(problem, Random(0))
    stored = json.loads(json.dumps(problem_fields(problem), ensure_ascii=False))
    assert load_problem(stored, kind) == problem


def check_puzzle(text: str, verdict: Problem | Rejection) -> str:
    """The verdict against brute force, where the puzzle is one and small."""
    try:
        puzzle: Puzzle = read_puzzle(read_json(text))
    except Malformed:
        assert isinstance(verdict, Rejection) and verdict.reason == "malformed"
        return "malformed"
    reason = verdict.reason if isinstance(verdict, Rejection) else "problem"
    if prod(map(len, puzzle.variables.values())) > SMALL:
        assert reason in ("problem", "too_hard", "trivial", "unsolvable", "ambiguous")
        return f"{reason} (large)"
    every = list(all_solutions(puzzle.variables, puzzle.constraints))
    expected = {0: ("unsolvable",), 1: ("problem", "trivial")}.get(len(every), ("ambiguous",))
    assert reason in expected, text
    if isinstance(verdict, Problem):
        assert [json.loads(gold) for gold in verdict.gold] == every, text
    return reason


def test_random_and_hostile_puzzles_end_as_problems_with_the_only_solution_or_with_a_reason() -> (
    None
):
    counts: Counter[Any] = Counter()
    slowest, golds = 0.0, dict[str, list[Any]]()
    for seed in range(CASES):
        rng = Random(seed)
        sort, text = puzzle_text(rng)
        form, written = text_of(rng, ("puzzle", text))
        parse, began = load_prompt_format(form), time.process_time()
        (verdict,) = verify_proposals(
            [Proposal("logic", written)], KINDS, parse, NoSandbox(SandboxConfig()), CONFIG
        )
        slowest = max(slowest, time.process_time() - began)
        if parsed := _parsed(written, form):
            counts[sort, check_puzzle(parsed, verdict)] += 1
        else:
            assert isinstance(verdict, Rejection) and verdict.reason == "malformed"
            counts[sort, "no puzzle"] += 1
        if isinstance(verdict, Problem):
            is_whole(verdict, "assignment")
            gold = json.loads(verdict.gold[0])
            values = [gold[name] for name in verdict.payload.variables]
            assert golds.setdefault(verdict.key, values) == values, text
            _grades(verdict, json.dumps(gold), form, NoSandbox(SandboxConfig()))
    tell("puzzles", counts, slowest)
    assert slowest < OWN_CPU_S
    assert sum(counts.values()) == CASES
    assert sum(count for (_, end), count in counts.items() if end == "problem") > CASES / 20


def _parsed(written: str, form: str) -> str:
    try:
        blocks = load_prompt_format(form).parse(written, KINDS["logic"].proposal_blocks)
    except Malformed:
        return ""
    return dict(blocks).get("puzzle", "")


def _grades(problem: Problem, answer: str, form: str, sandbox: Any) -> None:
    """What gold says is correct, and nothing else is."""
    (label,) = KINDS[problem.kind].answer_blocks
    answers = [answer, "no", '[["?"]]', "{}", "SELECT '?'"]
    pairs = [(problem, WRITERS[form]((label, text))) for text in answers]
    graded = grade_answers(pairs, KINDS, load_prompt_format(form), sandbox, CONFIG)
    assert graded[0].verdict == "correct", (problem.payload, answer)
    assert {one.verdict for one in graded[1:]} <= {"wrong", "malformed"}, problem.payload


REASONS = {"malformed", "too_long", "error", "unsupported", "unstable", "timeout", "memory"}


def test_random_and_hostile_queries_end_as_problems_with_the_right_rows_or_with_a_reason(
    metered: Metered,
) -> None:
    counts: Counter[Any] = Counter()
    golds: dict[tuple[str, str], tuple[str, ...]] = {}
    with SandboxPool(SandboxConfig(workers=1)) as other:
        for start in range(0, CASES, BATCH):
            made = [_proposal(Random(seed)) for seed in range(start, start + BATCH)]
            for form in sorted(WRITERS):
                cases = [case for case in made if case[1] == form]
                verdicts = _verify([proposal for _, _, proposal in cases], form, metered)
                counts.update(_count(cases, verdicts))
                problems = [one for one in verdicts if isinstance(one, Problem)]
                _check_queries(problems, form, other)
                for one in problems:
                    assert golds.setdefault((one.kind, one.key), one.gold) == one.gold
    tell(f"queries, ends of their jobs {dict(metered.ends)}", counts, metered.slowest)
    assert sum(counts.values()) == CASES
    assert metered.slowest < CONFIG.cpu_s + 0.5
    assert set(metered.ends) <= {"value", "timeout"}
    assert sum(count for (_, end), count in counts.items() if end == "problem") > CASES / 20


Case = tuple[str, str, Proposal]


def _proposal(rng: Random) -> Case:
    sort, tables, query = database(rng)
    kind = rng.choice(["sql_o", "sql_q"])
    question = [("question", "Which?")] if kind == "sql_q" else []
    form, written = text_of(rng, ("tables", tables), ("query", query), *question)
    return sort, form, Proposal(kind, written)


def _verify(
    proposals: Sequence[Proposal], form: str, pool: SandboxPool
) -> list[Problem | Rejection]:
    """As the verify stage does, duplicates aside."""
    prompt_format, own = load_prompt_format(form), time.process_time()
    payloads = []
    for proposal in proposals:
        kind = KINDS[proposal.kind]
        try:
            blocks = prompt_format.parse(proposal.text, kind.proposal_blocks)
            payloads.append((proposal.kind, kind.read_proposal(blocks, ()), None))
        except Malformed as error:
            payloads.append((proposal.kind, Rejection(error.reason, str(error)), None))
    verdicts = verify_payloads(payloads, KINDS, pool, CONFIG)
    assert time.process_time() - own < OWN_CPU_S
    return verdicts


def _count(
    cases: Sequence[Case], verdicts: Sequence[Problem | Rejection]
) -> Iterator[tuple[str, str]]:
    for (sort, _, proposal), verdict in zip(cases, verdicts, strict=True):
        reason = verdict.reason if isinstance(verdict, Rejection) else "problem"
        assert reason in {*REASONS, "trivial", "problem"}, (proposal.text, verdict)
        yield sort, reason


def _check_queries(problems: Sequence[Problem], form: str, other: SandboxPool) -> None:
    again = verify_payloads(
        [(one.kind, one.payload, None) for one in problems], KINDS, other, CONFIG
    )
    for problem, second in zip(problems, again, strict=True):
        assert second == problem
        is_whole(problem, "result")
        text, query = problem.payload.tables, problem.payload.query
        shown = runner.read_tables(text, runner.Budget())
        hidden = [
            runner.write_tables(runner.hide(shown, Random(f"{number} {text}")))
            for number in range(len(problem.gold) - 1)
        ]
        for tables, gold in zip([text, *hidden], problem.gold, strict=True):
            assert _plain_rows(tables, query, gold) == read_result(gold).rows, (tables, query)
        rows = write_rows(read_result(problem.gold[0]).rows)
        _grades(problem, rows if problem.kind == "sql_o" else query, form, other)


def _plain_rows(tables: str, query: str, gold: str) -> list[tuple[Any, ...]]:
    """From a database that has nothing of ours: no limits, no other order of rows, keys as they are
    written."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(tables)
    found = [tuple(map(_plain, row)) for row in connection.execute(query).fetchall()]
    connection.close()
    in_order: Callable[[Any], Any] = list if read_result(gold).ordered else _by_text
    return list(in_order(found))


def _by_text(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.4f}")
    return int(rounded) if rounded.is_integer() else rounded
