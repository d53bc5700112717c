"""Values that come from a candidate: read with suspicion, compared by what they are."""

import math
import time

import pytest

from redqueen.benchmarks.comparison import MAX_CHARS, ResultPairs, Rule, agree
from redqueen.benchmarks.extraction import (
    extract_boxed,
    extract_maths_answer,
    extract_program,
    join_program,
)
from redqueen.benchmarks.mbpp.typed_inputs import find_calls, restore_types
from redqueen.benchmarks.value_codec import arguments_text, is_literal
from redqueen.sandbox.pool import SandboxPool

NEAR, ANY_ORDER = Rule("near"), Rule("any order")
SAME_HASH = "{" + ", ".join(str(number * (2**61 - 1)) for number in range(1, 60_000)) + "}"


def is_same(pool: SandboxPool, actual: str, expected: str, rule: Rule = NEAR) -> bool:
    return agree([ResultPairs(rule, [(actual, expected)])], pool)[0]


def find_different(pool: SandboxPool, rule: Rule, pairs: list[tuple[str, str]]) -> list[str]:
    agreed = agree([ResultPairs(rule, [pair]) for pair in pairs], pool)
    return [actual for (actual, _), same in zip(pairs, agreed, strict=True) if not same]


def test_tags_are_read_as_what_they_stand_for(pool: SandboxPool) -> None:
    pairs = [
        ("('\\x00float', 'nan')", "('\\x00float', 'nan')"),
        ("('\\x00fraction', 1, 2)", "0.5"),
        ("('\\x00complex', '0.0', '-0.0')", "0"),
        ("('\\x00decimal', '1.50')", "('\\x00decimal', '1.5')"),
        (f"('\\x00digest', '{'ab' * 32}')", f"('\\x00digest', '{'ab' * 32}')"),
        ("('\\x00tuple', ('\\x00float', 'nan'))", "('\\x00tuple', ('\\x00float', 'nan'))"),
    ]
    assert find_different(pool, NEAR, pairs) == []


@pytest.mark.parametrize("rule", [NEAR, ANY_ORDER, Rule("equal"), Rule("root", 1e9)])
def test_a_forged_tag_or_a_bomb_is_a_wrong_answer_and_no_crash(
    rule: Rule, pool: SandboxPool
) -> None:
    texts = [
        "('\\x00fraction', 1, 0)",
        "('\\x00fraction', '1e1000000000', None)",
        "('\\x00fraction', 1" + "0" * 4000 + ", 3)",
        "('\\x00float',)",
        "('\\x00float', 1" + "0" * 400 + ")",
        "('\\x00decimal', 'x')",
        "('\\x00decimal', 'sNaN')",
        "{('\\x00decimal', 'sNaN')}",
        "[('\\x00decimal', 'sNaN')]",
        "('\\x00digest', 'ab')",
        "('\\x00object', 'Yes')",
        "[[1]]",
        "{[1]}",
        "[" * 200_000,
        "1 +",
        "__import__('os')",
        "",
    ]
    expected = "[0.5]" if rule.name == "root" else "{0.5}"
    pairs = [(text, expected) for text in texts]
    assert find_different(pool, rule, pairs) == texts


def test_a_comparison_costs_its_own_process_time_and_not_ours(pool: SandboxPool) -> None:
    started = time.process_time()
    assert not is_same(pool, SAME_HASH, "{1}")  # quadratic: it ends by its limit
    assert not is_same(pool, "'" + "x" * MAX_CHARS + "'", "'x'")
    assert time.process_time() - started < 0.5


def test_an_object_equals_nothing_not_even_one_like_it(pool: SandboxPool) -> None:
    one = "('\\x00object', 'Yes')"
    assert not is_same(pool, one, one)
    assert is_same(pool, "True", one, Rule("presence"))
    assert is_same(pool, "False", "None", Rule("presence"))
    assert not is_same(pool, "None", one, Rule("presence"))


def test_floats_need_only_be_near_and_other_values_equal(pool: SandboxPool) -> None:
    infinity = "('\\x00float', 'inf')"
    same = [("0.30000000000000004", "0.3"), ("[0.30000000000000004, 1.0]", "[0.3, 1.0]")]
    assert find_different(pool, NEAR, [*same, (infinity, infinity), ("1.0", "True")]) == []
    other = [("0.3001", "0.3"), ("(0.3,)", "[0.3]"), ("'0.3'", "0.3"), ("3", "4"), ("1+1j", "'x'")]
    assert len(find_different(pool, NEAR, other)) == len(other)
    assert is_same(pool, "0.3001", "0.3", Rule("near", 1e-3))
    assert not is_same(pool, "1e308", infinity, Rule("near", 1.0))
    assert not is_same(pool, "0.30000000000000004", "0.3", Rule("equal"))


def test_what_has_no_order_is_compared_without_one(pool: SandboxPool) -> None:
    same = [("[2, 1]", "(1, 2)"), ("[[1], [2]]", "[[2], [1]]")]
    assert find_different(pool, ANY_ORDER, same) == []
    other = [("'ab'", "['a', 'b']"), ("[1]", "[1, 2]"), ("[[1]]", "{1, 2}")]
    assert len(find_different(pool, ANY_ORDER, other)) == len(other)


def test_any_zero_of_a_polynomial_will_do_and_nothing_else(pool: SandboxPool) -> None:
    root = Rule("root", 1e-4)
    texts = ["0", "None", "True", "'1'", "1" + "0" * 500, "('\\x00float', 'nan')", "[1]"]
    assert is_same(pool, "-1", "[-1, 0, 1]", root)
    assert find_different(pool, root, [(text, "[-1, 0, 1]") for text in texts]) == texts


def test_output_is_compared_by_lines_and_numbers_by_value(pool: SandboxPool) -> None:
    output = Rule("output")
    assert find_different(pool, output, [(r"'1.0 2 \n yes\n'", "1 2.0\nyes")]) == []
    other = [(r"'1\n2'", "1 2"), ("'sNaN'", "1"), ("12", "12"), ("'1 x'", "1 y")]
    assert len(find_different(pool, output, other)) == len(other)
    assert is_same(pool, "(1, 2)", "[1, 2]", Rule("json"))
    assert not is_same(pool, "[1, 2]", "[1, 2", Rule("json"))


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
