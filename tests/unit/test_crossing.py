"""Values that come from a candidate: read with suspicion, compared by what they are."""

import math
from fractions import Fraction

import pytest

from redqueen.benchmarks.evalplus import found_or_not, root_of_polynomial
from redqueen.benchmarks.typed_inputs import calls_in, typed
from redqueen.benchmarks.value_codec import (
    Digest,
    Foreign,
    arguments_text,
    arrived,
    is_literal,
    same,
    same_elements,
)
from redqueen.evaluate.replies import assemble, last_box, maths_answer, program_in


def test_marks_are_read_as_what_they_stand_for() -> None:
    assert math.isnan(arrived("('\\x00float', 'nan')"))
    assert arrived("[('\\x00fraction', 1, 3), ('\\x00complex', '0.0', '-0.0')]") == [
        Fraction(1, 3),
        0j,
    ]
    assert arrived("('\\x00digest', 'ab')") == Digest("ab")
    assert isinstance(arrived("('\\x00object', 'Match')"), Foreign)


@pytest.mark.parametrize(
    "text",
    [
        "('\\x00fraction', 1, 0)",
        "('\\x00float',)",
        "('\\x00decimal', 'x')",
        "{('\\x00decimal', 'sNaN')}",
        "('\\x00float', 1" + "0" * 400 + ")",
        "('\\x00fraction', 'a', [])",
    ],
)
def test_a_forged_mark_is_an_object_and_no_crash(text: str) -> None:
    value = arrived(text)
    assert not same(value, 1.0, 0.0)
    assert not same([value], [0.5], 1e9)


def test_an_object_equals_nothing_not_even_one_like_it() -> None:
    assert not same(arrived("('\\x00object', 'Yes')"), arrived("('\\x00object', 'Yes')"), 0.0)


def test_floats_need_only_be_near_and_other_values_equal() -> None:
    assert same(0.1 + 0.2, 0.3, 0.0)
    assert same([0.1 + 0.2, 1.0], [0.3, 1.0], 0.0)
    assert same(math.nan, math.nan, 0.0)
    assert same(math.inf, math.inf, 0.0)
    assert not same(1e308, math.inf, 1.0)
    assert not same(0.3001, 0.3, 0.0)
    assert same(0.3001, 0.3, 1e-3)
    assert not same((0.3,), [0.3], 1e-3)
    assert not same("0.3", 0.3, 1e-3)
    assert not same(1 + 1j, "x", 1e-3)
    assert not same(3, 4, 0.0)


def test_what_has_no_order_is_compared_without_one() -> None:
    assert same_elements([2, 1], (1, 2))
    assert same_elements([[1], [2]], [[2], [1]])
    assert not same_elements("ab", ["a", "b"])
    assert not same_elements([1], [1, 2])


def test_any_zero_of_a_polynomial_will_do_and_nothing_else() -> None:
    is_root = root_of_polynomial(1e-4)
    assert is_root([[-1, 0, 1]], -1, 1.0)
    assert not is_root([[-1, 0, 1]], 0, 1.0)
    assert not any(
        is_root([[-1, 0, 1]], given, 1.0) for given in (None, True, "1", 10**500, math.nan, [1])
    )


def test_yes_and_no_may_be_objects() -> None:
    assert found_or_not((), True, Foreign("Match"))
    assert found_or_not((), None, None)
    assert found_or_not((), False, None)
    assert not found_or_not((), None, Foreign("Match"))


def test_inputs_get_the_types_of_the_calls() -> None:
    calls = calls_in("assert f((1, 2), {3: 'x'}) == 1\nassert f((), {}) == 0", "f")
    assert typed([[[4, [5]], {"6": [7]}]], calls) == [[(4, (5,)), {6: [7]}]]
    assert typed([["1j"], ["(2-1j)"]], [[1]]) == [[1j], [2 - 1j]]
    assert typed([["1j"]], [["a"]]) == [["1j"]]
    assert typed([["0", "1j"]], [[0, 1j]]) == [[0j, 1j]]
    assert typed([["1j"], ["x"]], [[1]]) == [["1j"], ["x"]]


def test_arguments_are_literals_where_they_can_be() -> None:
    assert arguments_text([[1, "a"], {"b": (2,)}]) == "[1, 'a'], {'b': (2,)}"
    assert eval(arguments_text([(math.inf,), {1: -0.0j}])) == ((math.inf,), {1: 0j})
    assert not is_literal([math.nan])


def test_the_program_is_the_last_block_that_defines_what_was_asked_for() -> None:
    reply = "<think>```python\ndef f(): return 0\n```</think>\n```python\ndef f(): return 1\n```\nor\n```\ndef f(): return 2\n```\nUse:\n```\nf()\n```"
    assert program_in(reply, "def f") == "def f(): return 2"
    assert program_in("def f(): return 1", "def f") == "def f(): return 1"
    assert program_in("```python\ndef f():\n    return 1", "def f") == "def f():\n    return 1"
    assert assemble("import re", "from __future__ import annotations\nx = 1").startswith(
        "from __future__"
    )


def test_the_answer_is_what_stands_in_the_last_box() -> None:
    assert last_box("\\boxed{1} then \\boxed{\\frac{1}{2}}") == "\\frac{1}{2}"
    assert last_box("\\boxed{\\{1\\}}") == "\\{1\\}"
    assert last_box("\\boxed{1") is None
    assert maths_answer("so 3 + 4 = 7.\n#### 1,007") == "1,007"
    assert maths_answer("The answer is $\\frac{3}{4}$ of it.") == "\\frac{3}{4}"
    assert maths_answer("**Answer:** she has 18 eggs and 3 left") is not None
    assert maths_answer("In the end there are 12 of them, not 11, I mean 13.") == "13"
    assert maths_answer("I do not know.") is None
