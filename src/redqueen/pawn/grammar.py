"""The grammar of Pawn's programs as tables: types and names, expressions, changes to a variable,
difficulty tiers.

A row of EXPRESSIONS or CHANGES is a word (what the operation does, for the hint of an induction
problem), the lowest tier that uses it, and a template. In a template, `{int}` is an expression of
that type, in parentheses if it needs them; `{int!}` never takes parentheses; `{=}` repeats the
first expression; `{v}` is the variable that is changed; capital letters are constants.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from redqueen.pawn.tree import Action

TYPES = ("int", "bool", "str", "ints", "strs", "pair", "counts")
INT, BOOL, STR, INTS, STRS, PAIR, COUNTS = TYPES
"""PAIR is a tuple of two ints; COUNTS maps one-letter texts to ints."""

LETTERS = "abcdefgh"


def _split(names: dict[str, str]) -> dict[str, list[str]]:
    return {kind: text.split() for kind, text in names.items()}


ARGUMENT_NAMES = _split(
    {
        INT: "n m k",
        STR: "s t u",
        INTS: "xs ys zs",
        STRS: "ws vs us",
        PAIR: "p q r",
        COUNTS: "d g z",
        BOOL: "a b c",
    }
)
LOCAL_NAMES = _split(
    {
        INT: "total count best a b i0 i1 i2 i3 i4 i5 i6 i7",
        BOOL: "ok flag b0 b1 b2 b3 b4 b5",
        STR: "out text s0 s1 s2 s3 s4 s5 s6 s7",
        INTS: "nums vals l0 l1 l2 l3 l4 l5 l6 l7",
        STRS: "words parts w0 w1 w2 w3 w4 w5",
        PAIR: "pair t0 t1 t2 t3 t4 t5",
        COUNTS: "seen freq d0 d1 d2 d3 d4",
    }
)
LOOP_NAMES = _split({INT: "x y i j h", STR: "c v l o"})
COMPREHENSION_NAMES = ("e", "w")
NAMES = frozenset(
    chain(
        *ARGUMENT_NAMES.values(), *LOCAL_NAMES.values(), *LOOP_NAMES.values(), COMPREHENSION_NAMES
    )
)
"""Every name a function may bind."""


@dataclass(frozen=True, slots=True)
class Tier:
    """How difficult a function is."""

    statements: tuple[int, int]
    """Minimum and maximum number of statements before the last return."""
    depth: int
    """Operations nested in one expression."""
    blocks: int
    """Maximum number of ifs and loops."""
    nesting: int
    """Maximum depth of nested blocks."""
    arguments: int
    longest: int
    """Maximum length of lists and texts in inputs."""
    largest: int
    """Largest int of an input."""
    trace: tuple[int, int]
    """Minimum and maximum number of steps in the execution trace."""


TIERS = {
    1: Tier((0, 1), 1, 0, 0, 1, 4, 12, (0, 1)),
    2: Tier((1, 2), 1, 1, 1, 1, 4, 14, (1, 3)),
    3: Tier((2, 2), 1, 1, 1, 1, 4, 16, (2, 6)),
    4: Tier((2, 3), 1, 1, 1, 2, 4, 20, (2, 10)),
    5: Tier((3, 4), 1, 1, 1, 2, 5, 25, (3, 14)),
    6: Tier((4, 5), 1, 2, 2, 2, 5, 25, (4, 18)),
    7: Tier((5, 6), 2, 2, 2, 2, 5, 30, (5, 22)),
    8: Tier((6, 8), 2, 3, 2, 3, 6, 30, (7, 28)),
    9: Tier((8, 10), 2, 3, 3, 3, 6, 40, (9, 32)),
    10: Tier((10, 12), 2, 4, 3, 3, 6, 50, (12, 38)),
}

_EXPRESSIONS = {
    INT: """
        add 1 {int} + {int}
        add 1 {int} + C
        sub 1 {int} - {int}
        sub 1 {int} - C
        mul 1 {int} * F
        mod 1 {int} % M
        div 1 {int} // F
        len 1 len({str!})
        len 1 len({ints!})
        len 2 len({strs!})
        len 3 len({counts!})
        sum 1 sum({ints!})
        max 1 max({ints!})
        min 1 min({ints!})
        first 1 {ints}[0]
        last 1 {ints}[-1]
        second 2 {ints}[1]
        count 1 {str}.count(L)
        count 2 {ints}.count(C)
        find 2 {str}.find(L)
        max 2 max({int!}, {int!})
        min 2 min({int!}, {int!})
        abs 2 abs({int!})
        left 1 {pair}[0]
        right 1 {pair}[1]
        sum 2 sum({pair!})
        get 2 {counts}.get(L, 0)
        sum 4 sum({counts}.values())
        mul 4 {int} * {int}
        square 4 {int} ** 2
        choose 4 {int} if {bool} else {int}
        sum 4 sum([e * F for e in {ints}])
        sum 4 sum([len(w) for w in {strs}])
    """,
    BOOL: """
        greater 1 {int} > C
        less 1 {int} < {int}
        even 1 {int} % M == R
        has 1 L in {str}
        has 2 C in {ints}
        starts 2 {str}.startswith(L)
        has 3 L in {counts}
        equal 2 {int} == {int}
        longer 2 len({str!}) > S
        longer 2 len({ints!}) > S
        not 4 not {bool}
        and 5 {bool} and {bool}
        or 5 {bool} or {bool}
    """,
    STR: """
        join 1 {str} + {str}
        join 1 {str} + L
        join 1 L + {str}
        reverse 1 {str}[::-1]
        upper 1 {str}.upper()
        cut 1 {str}[S:]
        cut 1 {str}[:S]
        head 1 {str}[0]
        last 1 {str}[-1]
        replace 1 {str}.replace(L, L)
        double 2 {str} * 2
        first 1 {strs}[0]
        last 2 {strs}[-1]
        every 3 {str}[::2]
        str 2 str({int!})
        glue 2 ''.join({strs!})
        glue 3 '-'.join({strs!})
        sort 3 ''.join(sorted({str!}))
        choose 4 {str} if {bool} else {str}
        filter 4 ''.join([w for w in {str} if w != L])
    """,
    INTS: """
        reverse 1 {ints}[::-1]
        sort 1 sorted({ints!})
        cut 1 {ints}[S:]
        cut 1 {ints}[:S]
        append 1 {ints} + [{int!}]
        prepend 2 [{int!}] + {ints}
        join 2 {ints} + {ints}
        map 2 [e + C for e in {ints}]
        map 2 [e * F for e in {ints}]
        map 3 [e % M for e in {ints}]
        map 4 [e - {int} for e in {ints}]
        filter 2 [e for e in {ints} if e > C]
        filter 3 [e for e in {ints} if e % 2 == R]
        filter 3 [e for e in {ints} if e != C]
        every 3 {ints}[::2]
        lens 2 [len(w) for w in {strs}]
        range 2 list(range(S, S + 3))
        pair 2 [{int!}, {int!}]
        values 4 sorted({counts}.values())
        counts 4 [{str}.count(w) for w in {str}]
        down 4 sorted({ints!}, reverse=True)
    """,
    STRS: """
        letters 2 list({str!})
        reverse 2 {strs}[::-1]
        sort 2 sorted({strs!})
        cut 2 {strs}[S:]
        append 2 {strs} + [{str!}]
        map 3 [w + L for w in {strs}]
        map 3 [w.upper() for w in {strs}]
        map 3 [w[::-1] for w in {strs}]
        filter 4 [w for w in {strs} if L in w]
        filter 4 [w for w in {strs} if len(w) > S]
        keys 4 sorted({counts!})
        split 4 {str}.split(L)
    """,
    PAIR: """
        pair 1 ({int!}, {int!})
        swap 1 ({pair}[1], {pair}[0])
        ends 3 (min({ints!}), max({ints!}))
        divmod 4 divmod({int!}, M)
    """,
    COUNTS: """
        tally 3 {w: {str}.count(w) for w in {str}}
        lens 4 {w[0]: len(w) for w in {strs}}
        map 5 {w: {counts}[w] + C for w in {counts}}
    """,
}

_CHANGES = {
    INT: """
        add 2 {v} += {int!}
        sub 2 {v} -= {int!}
        mul 2 {v} *= F
        mod 3 {v} = ({v} + {int}) % M
        max 3 {v} = max({v}, {int!})
        min 3 {v} = min({v}, {int!})
        mix 4 {v} = {v} * F - {int}
        flip 4 {v} = {int} - {v}
    """,
    BOOL: """
        not 3 {v} = not {v}
        and 4 {v} = {v} and {bool}
        or 4 {v} = {v} or {bool}
    """,
    STR: """
        join 2 {v} += {str!}
        prepend 2 {v} = {str} + {v}
        reverse 3 {v} = {v}[::-1]
        replace 3 {v} = {v}.replace(L, L)
        cut 4 {v} = {v}[1:] + {v}[:1]
    """,
    INTS: """
        append 2 {v}.append({int!})
        prepend 3 {v} = [{int!}] + {v}
        join 4 {v} += {ints!}
        reverse 4 {v}.reverse()
        sort 4 {v}.sort()
        rotate 4 {v} = {v}[1:] + {v}[:1]
        map 5 {v} = [e + {int} for e in {v}]
        filter 5 {v} = [e for e in {v} if e != {int}]
    """,
    STRS: """
        append 2 {v}.append({str!})
        prepend 4 {v} = [{str!}] + {v}
        reverse 4 {v}.reverse()
    """,
    PAIR: """
        swap 3 {v} = ({v}[1], {v}[0])
        shift 4 {v} = ({v}[1], {v}[0] + {int})
    """,
    COUNTS: """
        tally 3 {v}[{str!}] = {v}.get({=}, 0) + 1
        set 3 {v}[{str!}] = {int!}
        gather 4 {v}[{str!}] = {v}.get({=}, 0) + {int}
    """,
}

_SLOT = re.compile(r"\{(\w+!?|=)\}|\b([CFMRSL])\b")
_BINARY = re.compile(r"^\S+ (\+|-|\*|%|//|\*\*|>|<|==|in|and|or|if) |^not ")


@dataclass(frozen=True, slots=True)
class Template:
    word: str
    tier: int
    parts: tuple[tuple[str, str], ...]
    """In order: ("text", literal text), ("expr" or "open", type), ("constant", letter), ("same",
    ""), ("variable", "")."""
    needs: tuple[str, ...]
    """The types of its expressions."""
    simple: bool
    """Needs no parentheses inside a larger expression."""
    action: Callable[..., Action]
    """Makes the action, from the name of the variable that is changed and the expressions' actions
    and constants, in order."""


def _parse_template(row: str, changes: bool) -> Template:
    word, tier, text = row.split(maxsplit=2)
    parts: list[tuple[str, str]] = []
    end = 0
    for match in _SLOT.finditer(text):
        parts.append(("text", text[end : match.start()]))
        slot, constant = match.groups()
        if constant:
            parts.append(("constant", constant))
        elif slot in ("=", "v"):
            parts.append(({"=": "same", "v": "variable"}[slot], ""))
        elif slot.removesuffix("!") in TYPES:
            parts.append(("open" if slot.endswith("!") else "expr", slot.removesuffix("!")))
        else:
            parts.append(("text", match.group()))  # the braces of a dict
        end = match.end()
    parts.append(("text", text[end:]))
    needs = tuple(value for kind, value in parts if kind in ("expr", "open"))
    return Template(
        word,
        int(tier),
        tuple(part for part in parts if part != ("text", "")),
        needs,
        simple=not _BINARY.match(text),
        action=_compile(parts, changes),
    )


def _compile(parts: Sequence[tuple[str, str]], changes: bool) -> Callable[..., Action]:
    """Compile a template once, as a function of what fills it: compiling every statement that is
    written would take too long."""
    text, slots, first = "" if changes else "return ", ["_name"], ""
    for part, value in parts:
        if part == "text":
            text += value
        elif part == "variable":
            text += "_variables[_name]"
        elif part == "same":
            text += first
        else:
            slots.append(f"_{len(slots)}")
            slot = slots[-1]
            if part != "constant":
                slot += "(_variables)"
                first = first or slot
            text += slot
    namespace: dict[str, Callable[..., Action]] = {}
    exec(
        f"def action({', '.join(slots)}):\n def run(_variables):\n  {text}\n return run", namespace
    )
    return namespace["action"]


def _parse_table(rows: dict[str, str], changes: bool) -> dict[str, tuple[Template, ...]]:
    return {
        kind: tuple(_parse_template(row, changes) for row in text.strip().splitlines())
        for kind, text in rows.items()
    }


EXPRESSIONS = _parse_table(_EXPRESSIONS, changes=False)
CHANGES = _parse_table(_CHANGES, changes=True)
