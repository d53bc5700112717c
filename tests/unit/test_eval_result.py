"""Scores of a population: its mean, its majority vote, and the best of its members, each against the
base on the same items."""

from typing import Any

import pytest

from redqueen.benchmarks.cruxeval import CruxEval
from redqueen.benchmarks.humaneval import HumanEval
from redqueen.benchmarks.maths.text import normalize
from redqueen.benchmarks.suite import CHAT, Item
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
                GradedReply(item, model, sample, "", answer == GOLD[item], "wrong", False, key)
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
    assert majority_vote(replies("S0", a="1 1 9")) == 1.0
    assert majority_vote(replies("S0", a="9 9 1")) == 0.0
    assert majority_vote(replies("S0", a="- - - 1")) == 1.0
    assert majority_vote(replies("S0", a="- -")) == 0.0


def test_a_tie_is_worth_what_a_lot_among_the_first_would_be() -> None:
    assert majority_vote(replies("S0", a="1 9 8")) == pytest.approx(1 / 3)
    assert majority_vote(replies("S0", a="8 1 8 1 5")) == 0.5


def test_a_population_votes_and_is_as_good_as_its_best_on_each_item() -> None:
    members = [
        replies("S0", a="1", b="2", c="9"),
        replies("S1", a="1", b="7", c="9"),
        replies("S2", a="5", b="7", c="3"),
    ]
    found = scores_of(1, *members, replies("base", a="1", b="8", c="9"))
    (together,) = found["populations"]
    assert together["members"] == ["S0", "S1", "S2"]
    assert together["mean"]["accuracy"] == pytest.approx(4 / 9, abs=1e-4)
    assert together["majority_vote"]["accuracy"] == pytest.approx(
        1 / 3, abs=1e-4
    )  # a is right, b and c are voted down
    assert together["best_of_members"]["accuracy"] == 1.0
    against = together["best_of_members"]["against_base"]
    assert (against["better"], against["worse"]) == (2, 0) and against[
        "difference"
    ] == pytest.approx(2 / 3, abs=1e-4)
    assert {name: row["against_base"]["better"] for name, row in found["members"].items()} == {
        "S0": 1,
        "S1": 0,
        "S2": 1,
    }
    assert found["base"]["accuracy"] == pytest.approx(1 / 3, abs=1e-4)


def test_with_samples_the_best_of_members_is_set_beside_as_many_tries_of_the_base() -> None:
    members = [replies("S0", a="1 9", b="9 9"), replies("S1", a="1 9", b="9 9")]
    (together,) = scores_of(2, *members, replies("base", a="1 9", b="2 9"))["populations"]
    best = together["best_of_members"]
    assert best["accuracy"] == pytest.approx(
        3 / 8
    )  # one of two tries at a half each, on one of two items
    assert best["base_as_often"]["accuracy"] == 1.0  # two of two samples
    assert best["against_base_as_often"]["worse"] == 2
    assert (
        "base_as_often"
        not in scores_of(1, replies("S0", a="1"), replies("S1", a="1"), replies("base", a="1"))[
            "populations"
        ][0]["best_of_members"]
    )


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
    assert (vote["n"], vote["accuracy"], vote["against_base"]["better"]) == (1, 1.0, 1)


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
