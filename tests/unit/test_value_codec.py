"""Values that come from a candidate: read with suspicion, compared by what they are."""

import math
from fractions import Fraction

import pytest

from redqueen.benchmarks.evalplus import by_presence, root_of_polynomial
from redqueen.benchmarks.extraction import (
    extract_boxed,
    extract_maths_answer,
    extract_program,
    join_program,
)
from redqueen.benchmarks.mbpp.typed_inputs import find_calls, restore_types
from redqueen.benchmarks.value_codec import (
    Digest,
    Foreign,
    arguments_text,
    decode,
    has_same_elements,
    is_equal,
    is_literal,
)


def test_tags_are_read_as_what_they_stand_for() -> None:
    assert math.isnan(decode("('\\x00float', 'nan')"))
    assert decode("[('\\x00fraction', 1, 3), ('\\x00complex', '0.0', '-0.0')]") == [
        Fraction(1, 3),
        0j,
    ]
    assert decode("('\\x00digest', 'ab')") == Digest("ab")
    assert isinstance(decode("('\\x00object', 'Match')"), Foreign)


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
def test_a_forged_tag_is_an_object_and_no_crash(text: str) -> None:
    value = decode(text)
    assert not is_equal(value, 1.0, 0.0)
    assert not is_equal([value], [0.5], 1e9)


def test_an_object_equals_nothing_not_even_one_like_it() -> None:
    assert not is_equal(decode("('\\x00object', 'Yes')"), decode("('\\x00object', 'Yes')"), 0.0)


def test_floats_need_only_be_near_and_other_values_equal() -> None:
    assert is_equal(0.1 + 0.2, 0.3, 0.0)
    assert is_equal([0.1 + 0.2, 1.0], [0.3, 1.0], 0.0)
    assert is_equal(math.nan, math.nan, 0.0)
    assert is_equal(math.inf, math.inf, 0.0)
    assert not is_equal(1e308, math.inf, 1.0)
    assert not is_equal(0.3001, 0.3, 0.0)
    assert is_equal(0.3001, 0.3, 1e-3)
    assert not is_equal((0.3,), [0.3], 1e-3)
    assert not is_equal("0.3", 0.3, 1e-3)
    assert not is_equal(1 + 1j, "x", 1e-3)
    assert not is_equal(3, 4, 0.0)


def test_what_has_no_order_is_compared_without_one() -> None:
    assert has_same_elements([2, 1], (1, 2))
    assert has_same_elements([[1], [2]], [[2], [1]])
    assert not has_same_elements("ab", ["a", "b"])
    assert not has_same_elements([1], [1, 2])


def test_any_zero_of_a_polynomial_will_do_and_nothing_else() -> None:
    is_root = root_of_polynomial(1e-4)
    assert is_root([[-1, 0, 1]], -1, 1.0)
    assert not is_root([[-1, 0, 1]], 0, 1.0)
    assert not any(
        is_root([[-1, 0, 1]], given, 1.0) for given in (None, True, "1", 10**500, math.nan, [1])
    )


def test_yes_and_no_may_be_objects() -> None:
    assert by_presence((), True, Foreign("Match"))
    assert by_presence((), None, None)
    assert by_presence((), False, None)
    assert not by_presence((), None, Foreign("Match"))


def test_inputs_get_the_types_of_the_calls() -> None:
    calls = find_calls("assert f((1, 2), {3: 'x'}) == 1\nassert f((), {}) == 0", "f")
    assert restore_types([[[4, [5]], {"6": [7]}]], calls) == [[(4, (5,)), {6: [7]}]]
    assert restore_types([["1j"], ["(2-1j)"]], [[1]]) == [[1j], [2 - 1j]]
    assert restore_types([["1j"]], [["a"]]) == [["1j"]]
    assert restore_types([["0", "1j"]], [[0, 1j]]) == [[0j, 1j]]
    assert restore_types([["1j"], ["x"]], [[1]]) == [["1j"], ["x"]]


def test_arguments_are_literals_where_they_can_be() -> None:
    assert arguments_text([[1, "a"], {"b": (2,)}]) == "[1, 'a'], {'b': (2,)}"
    assert eval(arguments_text([(math.inf,), {1: -0.0j}])) == ((math.inf,), {1: 0j})
    assert not is_literal([math.nan])


def test_the_program_is_the_last_block_that_defines_what_was_asked_for() -> None:
    reply = "<think>```python\ndef f(): return 0\n```</think>\n```python\ndef f(): return 1\n```\nor\n```\ndef f(): return 2\n```\nUse:\n```\nf()\n```"
    assert extract_program(reply, "def f") == "def f(): return 2"
    assert extract_program("def f(): return 1", "def f") == "def f(): return 1"
    assert extract_program("```python\ndef f():\n    return 1", "def f") == "def f():\n    return 1"
    assert join_program("import re", "from __future__ import annotations\nx = 1").startswith(
        "from __future__"
    )


def test_the_answer_is_what_stands_in_the_extract_boxed() -> None:
    assert extract_boxed("\\boxed{1} then \\boxed{\\frac{1}{2}}") == "\\frac{1}{2}"
    assert extract_boxed("\\boxed{\\{1\\}}") == "\\{1\\}"
    assert extract_boxed("\\boxed{1") is None
    assert extract_maths_answer("so 3 + 4 = 7.\n#### 1,007") == "1,007"
    assert extract_maths_answer("The answer is $\\frac{3}{4}$ of it.") == "\\frac{3}{4}"
    assert extract_maths_answer("**Answer:** she has 18 eggs and 3 left") is not None
    assert extract_maths_answer("In the end there are 12 of them, not 11, I mean 13.") == "13"
    assert extract_maths_answer("I do not know.") is None
