"""Literals are read without evaluating anything, and written in one canonical way."""

import ast
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.sandbox.literals import (
    MAX_DEPTH,
    NotLiteral,
    canonical,
    normal_arguments,
    ordered,
    parse_arguments,
    parse_literal,
)

_numbers = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.complex_numbers(allow_nan=False, allow_infinity=False)
)
_atoms = st.none() | st.booleans() | _numbers | st.text() | st.binary()
_hashable = st.recursive(_atoms, lambda inner: st.tuples(inner, inner), max_leaves=4)
values = st.recursive(
    _atoms,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(_hashable)
        | st.dictionaries(_hashable, inner)
    ),
    max_leaves=20,
)


def _writes(value: object) -> str | None:
    try:
        return canonical(value)
    except NotLiteral:
        return None


@pytest.mark.slow
@given(values)
def test_what_is_written_reads_back_as_the_same_value(value: object) -> None:
    text = _writes(value)
    if text is not None:  # a complex with a negative zero has no literal
        again = parse_literal(text)
        assert type(again) is type(value)
        assert canonical(again) == text
        assert ast.literal_eval(text) == value


@pytest.mark.slow
@given(values)
def test_python_reads_the_text_as_we_do(value: object) -> None:
    text = repr(value)
    try:
        ours = canonical(parse_literal(text))
    except NotLiteral:
        assert _writes(value) is None or "j" in text
    else:
        assert ours == canonical(ast.literal_eval(text))


@given(st.dictionaries(st.text(), st.integers()), st.randoms())
def test_equal_values_have_equal_text(value: dict[str, int], random: object) -> None:
    items = list(value.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert canonical(dict(items)) == canonical(value)
    assert canonical(set(dict(items))) == canonical(set(value))


def test_order_of_a_dict_is_kept_where_it_matters() -> None:
    assert ordered({"b": 1, "a": 2}) == "{'b': 1, 'a': 2}"
    assert normal_arguments("{'b':1,'a':2},  [1,2]") == "{'b': 1, 'a': 2}, [1, 2]"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1", "1.0"),
        ("1", "True"),
        ("0", "False"),
        ("(1,)", "[1]"),
        ("'1'", "1"),
        ("0.0", "-0.0"),
        ("b'a'", "'a'"),
    ],
)
def test_equal_but_different_values_differ_in_text(a: str, b: str) -> None:
    assert canonical(parse_literal(a)) != canonical(parse_literal(b))


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "f(1)", "eval('1')", "1 + 1", "2 ** 3", "'a' * 3", "[x for x in y]", "lambda: 1", "1 if 1 else 2", "f'{1}'", "...", "1; 2", "[1", "1]",
        "(1", "{1: }", "{:1}", "[,]", "1 2", "'a", "--1", "0777", "1__0", "1e999", "nan", "inf", "frozenset()", "set([1])", "{[]}", "{{}: 1}", "b'a' 'b'",
        "''''", '""""', "\u0e50", "1\u0e50", "\0", "'\0'", "\ud800", "'\ud800'", "*[1]", "**{}", "x=1", "a.b", "`1`", "1 # comment", r"'\N{LATIN SMALL LETTER R WITH TILDE}'",
    ],
)  # fmt: skip
def test_what_is_no_literal_is_refused(text: str) -> None:
    with pytest.raises(NotLiteral):
        parse_literal(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**5,
        "(" * 60_000,
        "-" * 60_000 + "1",
        "[[" * 20_000 + "]]" * 20_000,
        "{1:" * 20_000,
        "9" * 60_000,
        "'" * 60_001,
        "1," * 40_000,
    ],
)
def test_bombs_are_refused_without_harm(text: str) -> None:
    try:
        value = parse_literal(text)
    except NotLiteral:
        return
    assert isinstance(value, tuple | str)


def test_depth_and_size_are_bounded_both_ways() -> None:
    deep: list[object] = []
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    for value in (deep, "x" * 70_000, 1 << 14_001, list(range(40_000)), ["\0" * 20_000]):
        with pytest.raises(NotLiteral):
            canonical(value)
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(NotLiteral):
        canonical(cycle)


def test_integers_beyond_decimal_text_are_written_in_hexadecimal_where_large_results_were_asked_for() -> (
    None
):
    value = 1 << 30_000
    assert value.bit_length() * 0.30103 > sys.get_int_max_str_digits()
    text = canonical(value, max_text=1 << 20)
    assert text.startswith("0x1000")
    assert parse_literal(text, 1 << 20) == value


@pytest.mark.parametrize(
    "value",
    [
        frozenset(),
        float("nan"),
        float("inf"),
        range(3),
        object(),
        int,
        bytearray(b"a"),
        complex(-0.0, 1),
    ],
)
def test_values_without_a_literal_are_refused(value: object) -> None:
    with pytest.raises(NotLiteral):
        canonical(value)


def test_subclasses_are_refused_and_none_of_their_methods_is_called() -> None:
    class Evil(int):
        def __repr__(self) -> str:
            raise AssertionError

        __str__ = __eq__ = __hash__ = __index__ = __repr__  # type: ignore[assignment]

    class Pretender:
        __class__ = int  # type: ignore[assignment]

    for value in (Evil(3), [Evil(3)], {"a": Evil(3)}, Pretender()):
        with pytest.raises(NotLiteral):
            canonical(value)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", ()),
        ("1", (1,)),
        ("1, 2", (1, 2)),
        ("(1, 2)", ((1, 2),)),
        ("(1), 2", (1, 2)),
        ("[1, 2], 'a',", ([1, 2], "a")),
        (" \n 1,\n 2 \n", (1, 2)),
    ],
)
def test_arguments_are_read_as_between_the_parentheses_of_a_call(
    text: str, arguments: tuple[object, ...]
) -> None:
    assert parse_arguments(text) == arguments


@pytest.mark.parametrize(
    "text", ["0) or (True", "1) or True #", "1)\nimport os", "), (", "1)(2", ","]
)
def test_arguments_cannot_break_out_of_their_parentheses(text: str) -> None:
    with pytest.raises(NotLiteral):
        parse_arguments(text)
