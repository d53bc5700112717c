"""Pawn's tokenizer loses nothing; digits, marks and the grammar's words are one token each. Rows
hold whole documents."""

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from redqueen.models.base import PAWN
from redqueen.pawn.documents import make_shard
from redqueen.pawn.loader import pack_rows
from redqueen.pawn.tokenizer import END, END_ID, MARKS, PAD, PAD_ID, VOCABULARY, train_tokenizer

pytestmark = pytest.mark.slow

SHIPPED = Tokenizer.from_file(str(PAWN / "tokenizer.json"))


@pytest.fixture(scope="module")
def fresh() -> Tokenizer:
    return train_tokenizer(make_shard(0, -1, frozenset()))


def back(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert back(SHIPPED, text) == text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "def f(xs):",
                "\n    ",
                "total += ",
                "12",
                "'",
                "🐍",
                *MARKS,
                END,
                PAD,
                " for ",
                "_",
                ">>",
                "\t",
            ]
        )
    )
)
def test_texts_of_marks_and_code_come_back(parts: list[str]) -> None:
    assert back(SHIPPED, "".join(parts)) == "".join(parts)


def test_documents_come_back(fresh: Tokenizer) -> None:
    for document in make_shard(0, 7, frozenset())[:300]:
        assert back(SHIPPED, document) == back(fresh, document) == document


@pytest.mark.parametrize("number", ["0", "12", "-345", "9999", "1000000"])
def test_digits_are_tokens_of_their_own(number: str, fresh: Tokenizer) -> None:
    for tokenizer in (SHIPPED, fresh):
        assert [tokenizer.decode([token]) for token in tokenizer.encode(number).ids] == list(number)


def test_marks_are_single_tokens(fresh: Tokenizer) -> None:
    for tokenizer in (SHIPPED, fresh):
        assert (tokenizer.token_to_id(PAD), tokenizer.token_to_id(END)) == (PAD_ID, END_ID)
        assert all(len(tokenizer.encode(mark).ids) == 1 for mark in (*MARKS, END))
        assert tokenizer.encode(">>answer\n").tokens[0] == ">>answer"
        assert tokenizer.get_vocab_size() <= VOCABULARY


def test_words_of_the_grammar_are_single_tokens_and_texts_are_spelled() -> None:
    assert [SHIPPED.decode([token]) for token in SHIPPED.encode("\n    return total").ids] == [
        "\n    ",
        "return",
        " total",
    ]
    assert len(SHIPPED.encode("'total'").tokens) == len("'total'")


def test_the_same_documents_give_the_same_tokenizer(fresh: Tokenizer) -> None:
    assert train_tokenizer(make_shard(0, -1, frozenset())).to_str() == fresh.to_str()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 30), max_size=60), st.integers(5, 25))
def test_every_document_that_fits_a_row_is_in_one_row_whole_and_once(
    lengths: list[int], room: int
) -> None:
    documents = [[number] * length for number, length in enumerate(lengths, 1)]
    rows = pack_rows(documents, room, pad=0)
    runs = [
        (int(number), len(list(run)))
        for row in rows
        for number, run in groupby(row.tolist())
        if number
    ]
    assert sorted(runs) == [
        (number, length) for number, length in enumerate(lengths, 1) if length <= room
    ]
    assert all(row.any() for row in rows)
