"""Pawn's tokenizer: byte-level BPE with a small vocabulary. Words of the grammar are single tokens;
digits and the letters of texts are tokens of their own.

Separate digits and letters let a small model calculate and spell; whole words keep sequences short.
Any other text becomes bytes.
"""

import re
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from redqueen.pawn.grammar import CHANGES, EXPRESSIONS, NAMES

PAD, END = "<pad>", ">>end"
PAD_ID, END_ID = 0, 1
VOCABULARY = 768
"""Size of the embedding; the grammar's words, all bytes and the marks take a little less."""
MARKS = tuple(
    f">>{word}" for word in "teacher student program input output message think new answer".split()
)
_KEYWORDS = """
    def return if else for in while break continue and or not True False None range enumerate items
    code_o code_i code_f both shrink
"""


def train_tokenizer(documents: Iterable[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_pattern()), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS),
        min_frequency=20,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[PAD, END],
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    return tokenizer


def _pattern() -> str:
    """What may become one token: a newline with its indentation, a word of the grammar, an operator
    with its spaces; else one character."""
    words = "|".join(
        sorted((word for word in _words() if len(word) > 1), key=lambda word: (-len(word), word))
    )
    return rf"\n *|, | (?:[-+*/%=<>!]+) | ?(?<![A-Za-z0-9_'])(?:{words})(?![A-Za-z0-9_'])|[\s\S]"


def _words() -> set[str]:
    templates = [
        template for table in (EXPRESSIONS, CHANGES) for rows in table.values() for template in rows
    ]
    texts = [part for template in templates for kind, part in template.parts if kind == "text"]
    return {
        *_KEYWORDS.split(),
        *NAMES,
        *(template.word for template in templates),
        *re.findall(r"[A-Za-z_]+", " ".join(texts)),
    }
