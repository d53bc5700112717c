"""Figures of a population: its mean, its majority vote, and the best of its members, each against
the base on the same items."""

import pytest

from redqueen.benchmarks.cruxeval import CruxEval
from redqueen.benchmarks.humaneval import HumanEval
from redqueen.benchmarks.maths.text import normal_form
from redqueen.benchmarks.suite import Item
from redqueen.evaluate.attempts import Attempted, Setting
from redqueen.evaluate.figures import Figures, Population, figures, majority, population_figures

RIGHT = {"a": "1", "b": "2", "c": "3"}
"""The answers to the items."""


def attempts(member: str, **given: str | None) -> list[Attempted]:
    """What a member answers to each item; several samples are separated by a blank, and `-` is no
    answer."""
    found = []
    for item, text in given.items():
        for sample, answer in enumerate((text or "?").split()):
            ballot = None if text is None else "" if answer == "-" else answer
            found.append(
                Attempted(item, member, sample, "", answer == RIGHT[item], "wrong", False, ballot)
            )
    return found


def setting(samples: int, *members: str) -> Setting:
    return Setting("own", "own-1", "base", samples, 0.8 if samples > 1 else 0.0, 10, members)


def of(samples: int, members: list[list[Attempted]]) -> Figures:
    names = [some[0].member for some in members]
    everything = [one for some in members for one in some]
    return population_figures(
        setting(samples, *names), everything, [Population(0, "run", tuple(names[:-1]))], ""
    )


def test_what_most_members_say_counts_and_silence_has_no_vote() -> None:
    assert majority(attempts("S0", a="1 1 9")) == 1.0
    assert majority(attempts("S0", a="9 9 1")) == 0.0
    assert majority(attempts("S0", a="- - - 1")) == 1.0
    assert majority(attempts("S0", a="- -")) == 0.0


def test_a_tie_is_worth_what_a_lot_among_the_first_would_be() -> None:
    assert majority(attempts("S0", a="1 9 8")) == pytest.approx(1 / 3)
    assert majority(attempts("S0", a="8 1 8 1 5")) == 0.5


def test_a_population_votes_and_is_as_good_as_its_best_on_each_item() -> None:
    members = [
        attempts("S0", a="1", b="2", c="9"),
        attempts("S1", a="1", b="7", c="9"),
        attempts("S2", a="5", b="7", c="3"),
    ]
    found = of(1, [*members, attempts("base", a="1", b="8", c="9")])
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
    members = [attempts("S0", a="1 9", b="9 9"), attempts("S1", a="1 9", b="9 9")]
    (together,) = of(2, [*members, attempts("base", a="1 9", b="2 9")])["populations"]
    best = together["best_of_members"]
    assert best["accuracy"] == pytest.approx(
        3 / 8
    )  # one of two tries at a half each, on one of two items
    assert best["base_as_often"]["accuracy"] == 1.0  # two of two samples
    assert best["against_base_as_often"]["worse"] == 2
    assert (
        "base_as_often"
        not in of(1, [attempts("S0", a="1"), attempts("S1", a="1"), attempts("base", a="1")])[
            "populations"
        ][0]["best_of_members"]
    )


def test_answers_that_cannot_be_compared_have_no_vote_and_others_vote_without_them() -> None:
    programs = of(1, [attempts("S0", a=None), attempts("S1", a=None), attempts("base", a=None)])
    assert "majority_vote" not in programs["populations"][0]
    mixed = of(
        1,
        [
            attempts("S0", a=None, b="2"),
            attempts("S1", a=None, b="2"),
            attempts("base", a=None, b="9"),
        ],
    )
    vote = mixed["populations"][0]["majority_vote"]
    assert (vote["n"], vote["accuracy"], vote["against_base"]["better"]) == (1, 1.0, 1)


def test_one_member_that_answers_several_times_has_a_vote_of_its_own() -> None:
    found = figures(setting(3, "S0"), attempts("S0", a="1 1 9", b="9 9 2"), "")
    assert found["majority_vote"]["accuracy"] == 0.5
    assert found["pass_at"] == {"1": 0.5, "2": pytest.approx(0.8333, abs=1e-4), "3": 1.0}


def test_outputs_are_voted_for_by_value_and_programs_and_inputs_not_at_all() -> None:
    item = Item("x", {"code": "def f(): pass", "input": "", "output": "[1, 2]"})
    output = CruxEval("o")
    assert (
        output.ballot(item, "<answer>[1,2]</answer>", "chat")
        == output.ballot(item, "So <answer> [1, 2] </answer>", "chat")
        == "[1, 2]"
    )
    assert output.ballot(item, "<answer>'a' * 3</answer>", "chat") == "'a'*3"
    assert output.ballot(item, "", "chat") == ""
    assert CruxEval("i").ballot(item, "<answer>3</answer>", "chat") is None
    assert HumanEval().ballot(item, "```python\npass\n```", "chat") is None


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
    assert normal_form(one) == normal_form(other) != ""


def test_numbers_that_differ_in_their_last_digit_stay_apart_and_endless_answers_are_none() -> None:
    assert normal_form("1" * 60) != normal_form("1" * 59 + "2")
    assert normal_form("1" * 3000) == normal_form("") == ""
