"""Python literals as data: read from hostile text, and written as one canonical text per value.

Neither direction evaluates anything. The reader is a depth-bounded recursive descent over regex
tokens, because the interpreter's own parser recurses in C: a deep or huge literal can crash the
process that parses it, and this module also runs in the trainer. The writer compares types by
identity, so that no method of a program's class is ever called; equal values of equal types have
equal text.

Not literals, in either direction: frozenset, nan, inf, negative zero inside a complex, subclasses
of the types below.
"""

import re
from builtins import (  # a program may patch them
    bool,
    bytes,
    complex,
    dict,
    float,
    int,
    len,
    list,
    set,
    sorted,
    str,
    tuple,
    type,
)
from typing import Any

from redqueen.sandbox.literal_tokens import NotLiteral as NotLiteral
from redqueen.sandbox.literal_tokens import parse_number, parse_string

MAX_TEXT = 64 * 1024
MAX_DEPTH = 40
MAX_INT_BITS = 14_000  # 4,215 decimal digits: below CPython's own limit of 4,300 for int <-> str

Literal = (
    None
    | bool
    | int
    | float
    | complex
    | str
    | bytes
    | list["Literal"]
    | tuple["Literal", ...]
    | set["Literal"]
    | dict["Literal", "Literal"]
)


# value -> text


def canonical(value: object, max_text: int = MAX_TEXT) -> str:
    """The canonical text of a value of exact literal types; raises NotLiteral for anything else."""
    return _Writer(max_text, sort_dicts=True).text(value)


def ordered(value: object, max_text: int = MAX_TEXT) -> str:
    """The same, with dicts in their own order: for inputs, where the order is part of the input."""
    return _Writer(max_text, sort_dicts=False).text(value)


class _Writer:
    def __init__(self, max_text: int, sort_dicts: bool) -> None:
        self.max_text = self.room = max_text
        # Integers beyond CPython's limit for decimal text are written in hexadecimal, and only if
        # large results were requested.
        self.max_int_bits = MAX_INT_BITS if max_text <= MAX_TEXT else 4 * max_text
        self.sort_dicts = sort_dicts

    def text(self, value: Any) -> str:
        text = self.write(value, MAX_DEPTH)
        if len(text) > self.max_text:
            raise NotLiteral("too large")
        return text

    def write(self, value: Any, depth: int) -> str:
        kind = type(value)
        self.room -= 1
        if depth < 0:
            raise NotLiteral("too deep")
        if self.room < 0:
            raise NotLiteral("too large")
        if value is None:
            return "None"
        if kind is bool:
            return "True" if value else "False"
        if kind is int:
            text = self.write_int(value)
        elif kind is float:
            text = _write_float(value)
        elif kind is complex:
            text = _write_complex(value)
        elif kind is str or kind is bytes:
            if len(value) > self.room:
                raise NotLiteral("too large")
            text = str.__repr__(value) if kind is str else bytes.__repr__(value)
        else:
            return self.write_container(value, kind, depth - 1)
        self.room -= len(text)
        return text

    def write_int(self, value: int) -> str:
        bits = int.bit_length(value)
        if bits > self.max_int_bits:
            raise NotLiteral("integer too large")
        return int.__repr__(value) if bits <= MAX_INT_BITS else int.__format__(value, "#x")

    def write_container(self, value: Any, kind: type, depth: int) -> str:
        if kind is list:
            return "[" + ", ".join([self.write(item, depth) for item in value]) + "]"
        if kind is tuple:
            items = [self.write(item, depth) for item in value]
            return "(" + ", ".join(items) + (",)" if len(items) == 1 else ")")
        if kind is set:
            items = sorted([self.write(item, depth) for item in value])
            return "{" + ", ".join(items) + "}" if items else "set()"
        if kind is dict:
            pairs = [
                (self.write(key, depth), self.write(item, depth)) for key, item in dict.items(value)
            ]
            pairs = sorted(pairs) if self.sort_dicts else pairs
            return "{" + ", ".join([key + ": " + item for key, item in pairs]) + "}"
        raise NotLiteral("not a literal type")


def _write_float(value: float) -> str:
    text = float.__repr__(value)
    if text in ("nan", "inf", "-inf"):
        raise NotLiteral("nan or infinity")
    return text


def _write_complex(value: complex) -> str:
    # complex.__repr__ of a negative zero part does not read back as the same number
    for part in (value.real, value.imag):
        if _write_float(part) == "-0.0":
            raise NotLiteral("negative zero in a complex")
    text = complex.__repr__(value)
    # `-1j` alone reads back with a real part of -0.0
    return "(0" + text + ")" if text[0] == "-" else text


# text -> value

_TOKEN = re.compile(
    r"""[ \t\r\n\f]*(?:
      (?P<string>(?:[rRuUbB]|[rR][bB]|[bB][rR])?(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?!'')(?:[^'\\\r\n]|\\.)*'|"(?!"")(?:[^"\\\r\n]|\\.)*"))
    | (?P<number>(?:0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+
        |(?:(?:[0-9](?:_?[0-9])*)?\.[0-9](?:_?[0-9])*|[0-9](?:_?[0-9])*\.?)(?:[eE][+-]?[0-9](?:_?[0-9])*)?[jJ]?)(?![\w.]))
    | (?P<word>None|True|False|set(?=[ \t]*\([ \t]*\)))(?!\w)
    | (?P<mark>[\[\](){},:+-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: dict[str, Literal] = {"None": None, "True": True, "False": False}


def parse_literal(text: str, max_text: int = MAX_TEXT) -> Literal:
    """The value of one literal, read as if in parentheses, where a newline is white space; raises
    NotLiteral."""
    reader = _Reader(text, max_text)
    value = reader.value(MAX_DEPTH)
    if reader.kind != "end":  # `1, 2` without parentheses is a tuple, as in Python
        value = reader.bare_tuple(value)
    return value


def parse_arguments(text: str, max_text: int = MAX_TEXT) -> tuple[Literal, ...]:
    """The arguments of a call, as written between its parentheses: `3, [1, 2]` is two, `(3, 4)` is
    one, the empty text is none."""
    reader = _Reader(text, max_text)
    return tuple(reader.items(MAX_DEPTH, "end"))


def normal_arguments(text: str) -> str:
    """The arguments of a call in a normal form, which `parse_arguments` reads back as the same
    values."""
    return ", ".join([ordered(argument) for argument in parse_arguments(text)])


class _Reader:
    """Reads with one token of lookahead; every method leaves the lookahead after what it has
    read."""

    def __init__(self, text: str, max_text: int) -> None:
        if len(text) > max_text:
            raise NotLiteral("too large")
        if "\0" in text or (
            not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)
        ):
            raise NotLiteral("not valid text")
        self.text = text
        self.at = 0
        self.kind = self.token = ""
        self.advance()

    def advance(self) -> str:
        taken, match = self.token, _TOKEN.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            raise NotLiteral("not a literal")
        self.at, self.kind, self.token = match.end(), match.lastgroup, match[match.lastgroup]
        return taken

    def expect(self, mark: str) -> None:
        if self.kind != "mark" or self.token != mark:
            raise NotLiteral("not a literal")
        self.advance()

    def value(self, depth: int) -> Literal:
        if depth < 0:
            raise NotLiteral("too deep")
        if self.kind == "string":
            return self.strings()
        if self.kind == "number" or self.token in ("-", "+"):
            return self.signed_number()
        if self.kind == "word":
            return self.word()
        if self.token == "[":
            self.advance()
            return self.items(depth - 1, "]")
        if self.token == "(":
            return self.parenthesis(depth - 1)
        if self.token == "{":
            return self.braces(depth - 1)
        raise NotLiteral("not a literal")

    def word(self) -> Literal:
        word = self.advance()
        if word != "set":
            return _WORDS[word]
        self.expect("(")
        self.expect(")")
        return set()

    def strings(self) -> str | bytes:
        parts: list[str | bytes] = []
        while self.kind == "string":
            parts.append(parse_string(self.advance()))
        if len({type(part) for part in parts}) > 1:
            raise NotLiteral("bytes beside text")
        return b"".join(parts) if type(parts[0]) is bytes else "".join(parts)  # type: ignore[arg-type]

    def signed_number(self) -> int | float | complex:
        sign = self.advance() if self.kind == "mark" else "+"
        left = self.number()
        left = -left if sign == "-" else left
        if self.token not in ("+", "-") or self.kind != "mark":
            return left
        sign, right = self.advance(), self.number()
        if type(right) is not complex or type(left) is complex:
            raise NotLiteral("arithmetic is not a literal")
        try:
            return left - right if sign == "-" else left + right
        except OverflowError as error:  # an integer that no float can hold
            raise NotLiteral("number too large") from error

    def number(self) -> int | float | complex:
        if self.kind != "number":
            raise NotLiteral("not a literal")
        return parse_number(self.advance())

    def items(self, depth: int, close: str) -> list[Literal]:
        """Values up to the closing mark (or the end of the text), and the mark itself."""
        values: list[Literal] = []
        while not self.at_close(close):
            values.append(self.value(depth))
            if not self.at_close(close):
                self.expect(",")
        if close != "end":
            self.advance()
        return values

    def at_close(self, close: str) -> bool:
        return self.kind == "end" if close == "end" else self.kind == "mark" and self.token == close

    def parenthesis(self, depth: int) -> Literal:
        self.advance()
        if self.at_close(")"):
            self.advance()
            return ()
        first = self.value(depth)
        if self.at_close(")"):
            self.advance()
            return first
        self.expect(",")
        return (first, *self.items(depth, ")"))

    def bare_tuple(self, first: Literal) -> tuple[Literal, ...]:
        self.expect(",")
        return (first, *self.items(MAX_DEPTH - 1, "end"))

    def braces(self, depth: int) -> Literal:
        self.advance()
        if self.at_close("}"):
            self.advance()
            return {}
        try:
            first = self.value(depth)
            if not self.at_close(":"):
                return {first, *self.more_items(depth)}
            result = {first: self.after_colon(depth)}
            while not self.at_close("}"):
                self.expect(",")
                if not self.at_close("}"):
                    key = self.value(depth)
                    result[key] = self.after_colon(depth)
            self.advance()
            return result
        except TypeError as error:  # an unhashable key or element
            raise NotLiteral("unhashable") from error

    def more_items(self, depth: int) -> list[Literal]:
        if not self.at_close("}"):
            self.expect(",")
        return self.items(depth, "}")

    def after_colon(self, depth: int) -> Literal:
        self.expect(":")
        return self.value(depth)
