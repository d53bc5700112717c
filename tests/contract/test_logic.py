"""Puzzles: what is one, what is not, and that gold is the only solution, checked by brute force."""

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from redqueen.config.sandbox import SandboxConfig
from redqueen.config.stages import VerifyConfig
from redqueen.tasks import Malformed, Reject, RunRules, load_kind
from redqueen.tasks.logic.generator import random_puzzle
from redqueen.tasks.logic.language import (
    ANY,
    OPERATORS,
    Puzzle,
    read_json,
    read_puzzle,
    write_puzzle,
)
from redqueen.tasks.logic.solver import OverBudget, compile_test, solve
from redqueen.tasks.logic.texts import FEW_SHOT
from redqueen.tasks.prompts import load_prompt_format
from redqueen.testing import check_kind
from tests.outside.things import NoSandbox

RULES = RunRules.of(VerifyConfig())
LOGIC = load_kind("logic")
ABC = {"a": "1..4", "b": "1..4", "c": "1..4"}
OK = [
    ["all_different", "a", "b", "c"],
    ["=", ["+", "a", "b"], "c"],
    ["<", "b", "a"],
    ["!=", "c", 4],
]


def puzzle(variables: Any, *constraints: Any) -> Puzzle:
    return read_puzzle({"variables": variables, "constraints": list(constraints)})


def reason(given: Puzzle) -> str:
    with pytest.raises(Reject) as caught:
        LOGIC.verified(given, None, RULES)
    return caught.value.reason


def brute_force(given: Puzzle) -> list[dict[str, Any]]:
    names = list(given.variables)
    places = {name: place for place, name in enumerate(names)}
    tests = [compile_test(one, places) for one in given.constraints]
    return [
        dict(zip(names, values, strict=True))
        for values in product(*given.variables.values())
        if all(test(list(values)) for test in tests)
    ]


def random_expression(rng: Random, kind: str = "truth", depth: int = 0) -> Any:
    """Of any operators; some arguments are not what an operator takes."""
    if rng.random() < 0.02:
        return rng.choice(
            ["a", "b", "red", 10**6, True, None, 1.5, [], {}, ["eval", "a"], ["=", "a"]]
        )
    if kind == "text":
        return rng.choice(["b", "d", "red", "blue"])
    if kind == "number" and (depth > 2 or rng.random() < 0.5):
        return rng.choice(["a", "c", 0, 1, 2, 3, -1])
    if kind == "number" and depth:
        name = rng.choice("+ - * % abs count".split())
    else:
        every = "= != < <= > >= all_different not and or =>".split()
        name = rng.choice(every if depth < 3 else every[:7])
    _, takes, fewest, most = OPERATORS[name]
    own = rng.choice(["number", "text"]) if takes == ANY else takes
    parts = [
        random_expression(rng, own, depth + 1) for _ in range(rng.randint(fewest, min(4, most)))
    ]
    return [name, parts[0], rng.randint(1, 3)] if name == "%" else [name, *parts]


def test_the_kind_satisfies_the_contract_of_plug_ins_without_any_sandbox() -> None:
    texts = [json.dumps({"variables": ABC, "constraints": OK}), FEW_SHOT["teacher"].reply[0][1]]
    check_kind(
        "logic",
        proposals=[f"<answer>```puzzle\n{text}\n```</answer>" for text in texts],
        answers=[
            '<answer>{"c": 3, "a": 2, "b": 1}</answer>',
            "<answer>a=1\nb = 4\nc: 2\nd=3</answer>",
        ],
        wrong=['<answer>{"c": 3, "a": 1, "b": 2}</answer>', '<answer>{"a": 1}</answer>'],
        prompt_format="chat",
        sandbox=NoSandbox(SandboxConfig()),
    )


def test_examples_and_few_shots_are_problems_with_the_answers_that_they_show() -> None:
    for given in LOGIC.seeds():
        problem = LOGIC.verified(given, None, RULES).problem("logic")
        assert read_puzzle(read_json(write_puzzle(given))) == given
        assert (
            LOGIC.load_payload(
                json.loads(
                    json.dumps({"variables": given.variables, "constraints": given.constraints})
                )
            )
            == given
        )
        shown = load_prompt_format("chat").render(LOGIC.ask_answer(problem))
        assert problem.gold[0] not in shown.text
        assert shown.system is not None and "Python" not in shown.system
    cells = {LOGIC.cell(LOGIC.verified(one, None, RULES).problem("logic")) for one in LOGIC.seeds()}
    assert len(cells) == len(LOGIC.seeds())
    for asked, reply in (
        (FEW_SHOT["teacher"].examples[0], None),
        (FEW_SHOT["student"].given, FEW_SHOT["student"].reply),
    ):
        given = read_puzzle(read_json(asked[0][1]))
        assert LOGIC.verified(given, None, RULES).gold[0] == (reply or asked[1:])[0][1]
    assert LOGIC.verified(read_puzzle(read_json(FEW_SHOT["teacher"].reply[0][1])), None, RULES).gold


def test_a_number_in_quotes_is_a_number() -> None:
    for text in ('{"a": "3", "b": -2}', "a = 3\nb = -2", '{"b": "-2", "a": 3}'):
        assert LOGIC.read_answer([("assignment", text)]) == '{"a": 3, "b": -2}'


@pytest.mark.parametrize(
    ("constraints", "why"),
    [
        ([["<", "a", "b"]], "ambiguous"),
        ([["<", "a", "b"], ["<", "b", "a"]], "unsolvable"),
        ([["=", "a", 1], ["=", "b", 2], ["=", "c", 3]], "trivial"),
    ],
)
def test_what_has_none_or_many_solutions_or_gives_them_away_is_no_problem(
    constraints: list[Any], why: str
) -> None:
    assert reason(puzzle(ABC, *constraints)) == why


def test_a_puzzle_beyond_the_budget_is_refused_and_rounds_do_not_depend_on_order() -> None:
    names = "abcdefghijklmnop"
    sums = [
        ["=", ["%", ["+", *(names[(i + j) % 16] for j in range(8))], 7], i % 7] for i in range(16)
    ]
    assert reason(puzzle(dict.fromkeys(names, "1..6"), *sums)) == "too_hard"
    rng = Random(0)
    for _ in range(10):
        given = random_puzzle(rng, 4)
        one, other = solve(given), solve(Puzzle(given.variables, given.constraints[::-1]))
        assert (one.rounds, one.nodes, one.left) == (other.rounds, other.nodes, other.left)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", "[" * 100_000, '{"a":' * 3000, '{"variables": {}, "constraints": []}',
        '{"variables": {"a": "1..2", "a": "1..3"}, "constraints": [["=", "a", 1]]}',
        '{"variables": {"a": "1..999"}, "constraints": [["=", "a", 1]]}',
        '{"variables": {"a": "3..1"}, "constraints": [["=", "a", 1]]}',
        '{"variables": {"a": [1, "red"]}, "constraints": [["=", "a", 1]]}',
        '{"variables": {"a": [1, 1]}, "constraints": [["=", "a", 1]]}',
        '{"variables": {"a": ["b"], "b": [1]}, "constraints": [["=", "b", 1]]}',
        '{"variables": {"a": [1.5]}, "constraints": [["=", "a", 1]]}',
        '{"variables": {"a": [NaN]}, "constraints": [["=", "a", 1]]}',
        '{"variables": {"a": [true, false]}, "constraints": [["=", "a", true]]}',
        '{"variables": {"__class__": "1..2"}, "constraints": [["=", "__class__", 1]]}',
        '{"variables": {"a": "1..2"}, "constraints": [["=", 1, 1]]}',
        '{"variables": {"a": "1..2"}, "constraints": ["a"]}',
        '{"variables": {"a": "1..2"}, "constraints": [["%", "a", 0]]}',
        '{"variables": {"a": "1..2"}, "constraints": [["=", ["%", "a", 0], 1]]}',
        '{"variables": {"a": "1..2"}, "constraints": [["exec", "a"]]}',
        '{"variables": {"a": "1..2"}, "constraints": [["=", "a", ' + "9" * 5000 + "]]}",
        '{"variables": {"a": ["x", "y"]}, "constraints": [["<", "a", "x"]]}',
        '{"variables": {"a": "1..2"}, "constraints": [' + '["not", ' * 9 + '["=", "a", 1]' + "]" * 9 + "]}",
    ],
)  # fmt: skip
def test_what_is_not_in_the_language_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        LOGIC.read_proposal([("puzzle", text)], ())
    with pytest.raises(Malformed):
        LOGIC.read_answer([("assignment", text or "a = b = c")])


def test_random_expressions_are_read_or_refused_and_solved_as_brute_force_solves_them() -> None:
    rng, read = Random(1), 0
    for _ in range(1500):
        constraints = [random_expression(rng) for _ in range(rng.randint(1, 3))]
        variables = {"a": [1, 2, 3], "b": ["red", "blue"], "c": "0..2", "d": ["blue", "green"]}
        try:
            given = puzzle(variables, *constraints)
        except Malformed:
            continue
        read += 1
        every = brute_force(given)
        found = solve(given).solutions
        assert len(found) == min(2, len(every)) and all(one in every for one in found)
    assert 300 < read < 1400


def test_gold_of_random_puzzles_is_what_brute_force_finds_and_names_and_order_do_not_count() -> (
    None
):
    rng = Random(2)
    for number in range(30):
        given = random_puzzle(rng, 1 + number % 4)
        (only,) = brute_force(given)
        assert solve(given).solutions == (only,)
        try:
            problem = LOGIC.verified(given, None, RULES).problem("logic")
        except Reject as reject:
            assert reject.reason == "trivial"
            continue
        assert json.loads(problem.gold[0]) == only
        named = {name: f"{name}_" for name in given.variables}
        renamed = json.loads(json.dumps(given.constraints), object_hook=dict)
        other = read_puzzle(
            {
                "variables": {named[name]: domain for name, domain in given.variables.items()},
                "constraints": _rename(renamed, named)[::-1],
            }
        )
        again = LOGIC.verified(other, None, RULES).problem("logic")
        assert again.key == problem.key
        assert LOGIC.structure(again) == LOGIC.structure(problem)
        assert LOGIC.behaviour(again, None) == LOGIC.behaviour(problem, None)


def test_a_value_that_is_named_like_a_place_is_no_variable() -> None:
    variables = {"a": ["v0", "v1", "v2"], "b": ["v0", "v1", "v2"], "c": "1..3"}
    order = [["or", ["=", "a", "v1"], ["=", "c", 1]], ["!=", "c", 1], ["=>", ["=", "a", "v1"], [">", "c", 2]]]  # fmt: skip
    keys = {
        LOGIC.verified(puzzle(variables, *order, ["=", "b", value]), None, RULES)
        .problem("logic")
        .key
        for value in ("v0", "a")
    }
    assert len(keys) == 2


def _rename(part: Any, named: dict[str, str]) -> Any:
    if isinstance(part, list):
        return [_rename(one, named) for one in part]
    return named.get(part, part)


def test_higher_tiers_take_more_search_or_rounds() -> None:
    work = {}
    for tier in (1, 6):
        rng = Random(3)
        found = [solve(random_puzzle(rng, tier)) for _ in range(8)]
        work[tier] = sum(one.nodes + one.rounds for one in found)
    assert work[6] > 1.5 * work[1]


def test_a_budget_ends_the_solver() -> None:
    with pytest.raises(OverBudget):
        solve(random_puzzle(Random(4), 3), budget=50)


def test_a_file_of_puzzles_is_read_and_its_mistakes_are_named(tmp_path: Path) -> None:
    from redqueen.errors import DataError
    from redqueen.tasks.sources import read_payloads

    path = tmp_path / "puzzles.jsonl"
    row: dict[str, Any] = {"kind": "logic", "variables": ABC, "constraints": OK}
    path.write_text(json.dumps(row))
    assert read_payloads(path) == [("logic", puzzle(ABC, *OK))]
    path.write_text(json.dumps({**row, "constraints": [["<", "a"]]}))
    with pytest.raises(DataError, match="line 1: < with 1 arguments"):
        read_payloads(path)
