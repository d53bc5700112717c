"""Scores of a population: its mean, its majority vote, and the union of its attempts, each against
the base on the same items with as many votes and attempts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from redqueen.benchmarks.cruxeval import CruxEval
from redqueen.benchmarks.humaneval import HumanEval
from redqueen.benchmarks.maths.text import normalize
from redqueen.benchmarks.suite import CHAT, Item
from redqueen.cli.evaluate import _show
from redqueen.evaluate.crossplay import Crossplay, _solve_rates
from redqueen.evaluate.replies import EvalConfig, GradedReply, Model
from redqueen.evaluate.result import EvalResult
from redqueen.evaluate.summary import majority_vote

GOLD = {"a": "1", "b": "2", "c": "3"}
"""The answers to the items."""


def replies(model: str, **answers: str | None) -> list[GradedReply]:
    """What a model answers to each item; several samples are separated by a blank, and `-` is no
    answer."""
    graded = []
    for item, text in answers.items():
        for sample, answer in enumerate((text or "?").split()):
            key = None if text is None else "" if answer == "-" else answer
            graded.append(
                GradedReply(
                    item, model, sample, "", answer == GOLD[item], "wrong", False, key, None
                )
            )
    return graded


def result_of(samples: int, *models: list[GradedReply]) -> EvalResult:
    items = tuple(Item(name, {}) for name in dict.fromkeys(reply.item for reply in models[0]))
    config = EvalConfig("own", "own-1", "base", samples, 0.8 if samples > 1 else 0.0, 10)
    return EvalResult(
        "run",
        items,
        config,
        tuple(Model(of_model[0].model) for of_model in models),
        tuple(reply for of_model in models for reply in of_model),
    )


def scores_of(samples: int, *models: list[GradedReply]) -> dict[str, Any]:
    return result_of(samples, *models).to_json()


def test_what_most_members_say_counts_and_silence_has_no_vote() -> None:
    assert majority_vote(replies("S0", a="1 1 9")) == [True]
    assert majority_vote(replies("S0", a="9 9 1")) == [False]
    assert majority_vote(replies("S0", a="- - - 1")) == [True]
    assert majority_vote(replies("S0", a="- -")) == [False]


def test_a_tie_is_worth_what_a_lot_among_the_first_would_be() -> None:
    assert majority_vote(replies("S0", a="1 9 8")) == [True, False, False]
    assert majority_vote(replies("S0", a="8 1 8 1 5")) == [False, True]


def test_a_population_votes_and_its_union_is_as_good_as_its_best_on_each_item() -> None:
    members = [
        replies("S0", a="1", b="2", c="9"),
        replies("S1", a="1", b="7", c="9"),
        replies("S2", a="5", b="7", c="3"),
    ]
    found = scores_of(1, *members, replies("base", a="1", b="8", c="9"))
    (together,) = found["populations"]
    assert together["members"] == ["S0", "S1", "S2"]
    assert together["mean"]["accuracy"] == pytest.approx(4 / 9, abs=1e-4)
    vote, union = together["majority_vote"], together["union_pass"]
    # a is right, b and c are voted down
    assert (vote["accuracy"], vote["votes"]) == (pytest.approx(1 / 3, abs=1e-4), 3)
    assert (union["accuracy"], union["k"]) == (1.0, 3)
    # one reply of the base is no match for three votes
    assert "against_base" not in vote and "against_base" not in union
    assert {name: row["against_base"]["better"] for name, row in found["members"].items()} == {
        "S0": 1,
        "S1": 0,
        "S2": 1,
    }
    assert found["base"]["accuracy"] == pytest.approx(1 / 3, abs=1e-4)


def test_votes_and_attempts_are_shared_by_members_and_the_base_has_as_many() -> None:
    members = [replies("S0", a="1 9", b="2 9"), replies("S1", a="1 9", b="2 9")]
    (together,) = scores_of(2, *members, replies("base", a="1 9", b="9 9"))["populations"]
    vote, union = together["majority_vote"], together["union_pass"]
    # the first vote of each member; the base has two votes, which tie on a
    assert (vote["votes"], vote["accuracy"], vote["base"]["accuracy"]) == (2, 1.0, 0.25)
    assert vote["against_base"]["difference"] == pytest.approx(0.75)
    # one of two attempts of each member at a half: 3/4; the base has both of its own
    assert (union["k"], union["accuracy"], union["base"]["accuracy"]) == (2, 0.75, 0.5)


def test_a_member_with_fewer_replies_than_the_base_gives_the_votes_it_has() -> None:
    members = [replies("S0", a="1 1"), replies("S1", a="9 1")]
    (together,) = scores_of(4, *members, replies("base", a="9 9 9 1"))["populations"]
    assert together["majority_vote"]["votes"] == together["union_pass"]["k"] == 4
    assert together["majority_vote"]["against_base"]["difference"] == 1.0
    assert together["union_pass"]["base"]["accuracy"] == 1.0


def test_what_a_population_hands_over_is_in_the_ledger_under_its_own_name() -> None:
    models = [
        Model("S0", 0, "S0", students=2),
        Model("S1", 1, "S1", students=2, chosen=True),
        Model("soup", 2, "soup", "soup"),
        Model("base", 3, role="base"),
    ]
    result = replace(
        result_of(
            2,
            replies("S0", a="9 9", b="2 2"),
            replies("S1", a="1 1", b="9 9"),
            replies("soup", a="1 1", b="2 2"),
            replies("base", a="9 9", b="9 9"),
        ),
        models=tuple(models),
    )
    rows = result.to_rows()
    scores: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        scores.setdefault((row["subject"], row["item"]), []).append(row["correct"])
    assert scores["chosen", "a"] == scores["S1", "a"] == [1, 1]
    assert scores["soup", "b"] == [1, 1]
    assert sorted(scores["vote", "a"]) == [0, 1]  # a tie of two answers, one of them correct
    assert scores["base vote", "a"] == [0]
    (together,) = result.to_json()["populations"]
    assert together["chosen"]["model"] == "S1" and together["soup"]["accuracy"] == 1.0
    assert "soup" not in result.to_json()["members"] and result.score == 0.5


def test_a_soup_beside_one_student_is_shown() -> None:
    """Asked for with the chosen student alone, there is no population to show it with."""
    models = [
        Model("S1", 1, "S1", students=2, chosen=True),
        Model("soup", 2, "soup", "soup"),
        Model("base", 3, role="base"),
    ]
    answers = (replies("S1", a="9"), replies("soup", a="1"), replies("base", a="9"))
    shown = replace(result_of(1, *answers), models=tuple(models)).to_json()
    assert shown["populations"] == [] and shown["members"]["soup"]["accuracy"] == 1.0


def test_soups_of_several_worlds_are_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for alone, they belong to no population that is shown."""
    models = (
        Model("0/soup", 0, "soup", "soup", world=0),
        Model("1/soup", 1, "soup", "soup", world=1),
        Model("base", 2, role="base"),
    )
    answers = (replies("0/soup", a="1"), replies("1/soup", a="9"), replies("base", a="9"))
    _show([replace(result_of(1, *answers), models=models)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if "/soup" in line] == ["100.0", "0.0"]


def test_a_part_of_the_students_has_no_vote_and_a_single_student_is_its_own_soup() -> None:
    part = replace(
        result_of(2, replies("S0", a="1 1"), replies("base", a="9 9")),
        models=(Model("S0", 0, "S0", students=2), Model("base", 1, role="base")),
    )
    assert {row["subject"] for row in part.to_rows()} == {"S0", "base"}
    single = replace(part, models=(Model("S0", 0, "S0", students=1, chosen=True), part.models[1]))
    subjects = {row["subject"] for row in single.to_rows()}
    assert subjects == {"S0", "base", "chosen", "soup", "vote", "base vote"}
    assert single.vote_scores(0) == {"vote": [1.0], "base vote": [0.0]}


def test_scores_say_how_often_replies_reason_and_what_that_is_worth() -> None:
    graded = [
        replace(reply, reasoned=reasoned)
        for reply, reasoned in zip(
            replies("base", a="1 9", b="2 2", c="3 9"),
            [True, False, True, True, None, None],
            strict=True,
        )
    ]
    reasoning = result_of(2, graded).to_json()["reasoned"]
    assert reasoning["share"]["accuracy"] == 0.75
    assert (reasoning["accuracy_with"]["accuracy"], reasoning["accuracy_with"]["n"]) == (1.0, 3)
    assert reasoning["accuracy_without"]["accuracy"] == 0.0


def test_the_share_that_reasons_says_which_task_kinds_it_is_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def graded(model: str, **answers: str) -> list[GradedReply]:
        return [
            replace(reply, reasoned=None if reply.item == "b" else True)
            for reply in replies(model, **answers)
        ]

    plain = result_of(1, graded("S0", a="1", b="2", c="9"), graded("base", a="9", b="9", c="3"))
    kinds = {"a": "code_o", "b": "code_f", "c": "code_o"}
    items = tuple(replace(item, kind=kinds[item.id]) for item in plain.items)
    result = replace(plain, items=items)
    row = result.to_json()
    assert row["reasoned"]["kinds"] == row["base"]["reasoned"]["kinds"] == ["code_o"]
    assert row["reasoned"]["share"]["n"] == 2
    _show([result])
    shown = " ".join(capsys.readouterr().out.split())
    assert "reasoned: % of the code_o answers that begin with reasoning" in shown


def test_answers_that_cannot_be_compared_have_no_vote_and_others_vote_without_them() -> None:
    programs = scores_of(1, replies("S0", a=None), replies("S1", a=None), replies("base", a=None))
    assert "majority_vote" not in programs["populations"][0]
    mixed = scores_of(
        1,
        replies("S0", a=None, b="2"),
        replies("S1", a=None, b="2"),
        replies("base", a=None, b="9"),
    )
    vote = mixed["populations"][0]["majority_vote"]
    assert (vote["n"], vote["accuracy"]) == (1, 1.0)


def test_the_score_is_the_mean_of_the_solvers_beside_the_base() -> None:
    result = result_of(
        1,
        replies("S0", a="1", b="2", c="9"),
        replies("S1", a="1", b="9", c="9"),
        replies("base", a="9", b="9", c="9"),
    )
    assert result.per_item == {"a": 1.0, "b": 0.5, "c": 0.0}
    assert (result.n, result.correct, result.score) == (3, 1.5, 0.5)
    low, high = result.interval
    assert 0 <= low < 0.5 < high <= 1
    assert result.difference is not None and result.difference.mean == 0.5
    assert result_of(1, replies("base", a="1")).difference is None


def test_members_without_their_base_have_scores_and_no_differences() -> None:
    result = result_of(1, replies("S0", a="1"), replies("S1", a="9"))
    assert (result.score, result.difference) == (0.5, None)
    assert [row["accuracy"] for row in result.to_json()["members"].values()] == [1.0, 0.0]


def test_one_member_that_answers_several_times_has_a_vote_of_its_own() -> None:
    found = scores_of(3, replies("S0", a="1 1 9", b="9 9 2"))
    assert found["majority_vote"]["accuracy"] == 0.5
    assert found["pass_at"] == {"1": 0.5, "2": pytest.approx(0.8333, abs=1e-4), "3": 1.0}


def test_outputs_are_voted_for_by_value_and_programs_and_inputs_not_at_all() -> None:
    item = Item("x", {"code": "def f(): pass", "input": "", "output": "[1, 2]"})
    output = CruxEval("o")
    assert (
        output.vote_key(item, "<answer>[1,2]</answer>", CHAT)
        == output.vote_key(item, "So <answer> [1, 2] </answer>", CHAT)
        == "[1, 2]"
    )
    assert output.vote_key(item, "<answer>'a' * 3</answer>", CHAT) == "'a'*3"
    assert output.vote_key(item, "", CHAT) == ""
    assert CruxEval("i").vote_key(item, "<answer>3</answer>", CHAT) is None
    assert HumanEval().vote_key(item, "```python\npass\n```", CHAT) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,000", "1000.0"),
        ("\\$5", "5"),
        ("-0", "0.0"),
        ("\\dfrac{1}{2}", "\\frac{1}{2}"),
        ("\\text{Evelyn}", "evelyn"),
        ("(3, \\ 4)", "(3,\\ 4)"),
    ],
)
def test_answers_of_mathematics_that_are_equal_as_numbers_words_or_texts_have_one_form(
    one: str, other: str
) -> None:
    assert normalize(one) == normalize(other) != ""


def test_numbers_that_differ_in_their_last_digit_stay_apart_and_endless_answers_are_none() -> None:
    assert normalize("1" * 60) != normalize("1" * 59 + "2")
    assert normalize("1" * 3000) == normalize("") == ""


def test_crossplay_without_problems_of_a_step_is_json() -> None:
    rows = [{"step": 2, "suite": "crossplay/4", "correct": correct} for correct in (0, 1)]
    world = Crossplay(0, "run", [2, 4], _solve_rates(rows, [2, 4]), [0, 2], rows)
    table = json.loads(json.dumps(world.to_json(), allow_nan=False))
    assert table["solved"] == [[None, 0.5], [None, None]]
