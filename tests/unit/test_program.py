"""Complexity agrees with radon; the canonical form ignores names; static checks give their
reason."""

import ast
from random import Random

import pytest
from radon.visitors import ComplexityVisitor
from radon.visitors import Function as RadonFunction

from redqueen.cli.bench.programs import PROGRAMS
from redqueen.pawn.programs import sample_program
from redqueen.records import content_key
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.sandbox.inspection.checks import check
from redqueen.sandbox.inspection.complexity import measure

SAMPLES = [
    *[program for program, _ in PROGRAMS],
    "def f(x):\n    return x\n",
    "def f(x):\n    try:\n        assert x > 0 and x < 9, 'no'\n    except (ValueError, KeyError) as e:\n        return str(e)\n    except Exception:\n        return 2\n    else:\n        return 3\n    finally:\n        x = 1\n",
    "def f(x):\n    def g(y):\n        return y if y else [z for z in x if z if not z > 2]\n    return sorted(x, key=lambda t: t or -t) and g(x)\n",
    "class A:\n    n = 3 if True else 4\n    def m(self):\n        for i in range(3):\n            if i: return i\n        else:\n            return 0\ndef f(x, y=1 if 2 else 3):\n    while x:\n        x -= 1\n    else:\n        x += 2\n    return A().m()\n",
    "def f(x):\n    match x:\n        case 1: return 2\n        case [a, *b]: return b\n        case {'k': v}: return v\n        case _: return 0\n",
    "def f(a, *b, c=2, **d):\n    global G\n    G = a if a else b\n    x = {k: v for k, v in d.items()}\n    y = {z for z in b}\n    return (w for w in y), x, ~c ** 2 // 3\n",
    "async def g(): pass\ndef f(x):\n    a, (b, c) = x\n    for i, j in enumerate(a): b += i * j - (c and i or j)\n    with open as h: pass\n    return not a, a is b, a in c, a < b <= c != 3\n",
]  # fmt: skip


def radon_cyclomatic(tree: ast.Module) -> int:
    """radon's count over the whole program, closures included (its own total leaves them out)."""

    def decisions(function: RadonFunction) -> int:
        return int(function.complexity) - 1 + sum(map(decisions, function.closures))

    visitor = ComplexityVisitor.from_ast(tree)
    total = visitor.complexity + sum(map(decisions, visitor.functions))
    for definition in visitor.classes:
        total += definition.real_complexity - 1 - len(definition.methods)
    return int(total)


@pytest.mark.parametrize("source", SAMPLES)
def test_cyclomatic_complexity_agrees_with_radon(source: str) -> None:
    tree = ast.parse(source)
    assert measure(tree, source).cyclomatic == radon_cyclomatic(tree)


def test_depth_lines_and_variables_are_counted() -> None:
    source = "def f(a, b):\n    # sum\n\n    total = a\n    for i in range(b):\n        total += i\n    return total\n"
    result = measure(ast.parse(source), source)
    assert (result.loc, result.variables) == (5, 4)
    assert result.ast_depth == 6  # Module > FunctionDef > For > Call > Name > Load


def form(source: str) -> str:
    return canonical_program(ast.parse(source))


def test_programs_that_differ_only_in_names_and_layout_have_one_form() -> None:
    a = "def f(numbers: list[int]) -> int:\n    '''Add.'''\n    total: int = 0\n    for n in numbers:  # each\n        total += helper(n)\n    return total\ndef helper(x):\n    return x * 2\n"
    b = "def f(xs):\n    s = 0\n    for y in xs:\n        s += double(y)\n    return s\n\n\ndef double(k): return k * 2"
    assert form(a) == form(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("def f(x): return x + 1", "def f(x): return 1 + x"),
        ("def f(x, y): return x - y", "def f(x, y): return y - x"),
        ("def f(x): return len(x)", "def f(x): return sum(x)"),
        ("def f(x): return x.upper()", "def f(x): return x.lower()"),
        ("import math\ndef f(x): return math.pi", "import math as m\ndef f(x): return m.pi"),
        ("def f(x):\n    y = x\n    return x", "def f(x):\n    y = x\n    return y"),
        (
            "class A:\n    def a(self): return 1\n    def b(self): return 2\ndef f(x): return A().a()",
            "class A:\n    def b(self): return 1\n    def a(self): return 2\ndef f(x): return A().a()",
        ),
        (
            "def g(a, b): return a - b\ndef f(x): return g(b=1, a=2)",
            "def g(b, a): return b - a\ndef f(x): return g(b=1, a=2)",
        ),
        (
            "class A:\n    x: int\n    y: str\ndef f(x): return 1",
            "class A:\n    y: str\n    x: int\ndef f(x): return 1",
        ),
        ("import math as v0\ndef f(x): return v0.pi", "import math as v0\ndef f(x): return x.pi"),
    ],
)
def test_programs_that_differ_in_more_have_two(a: str, b: str) -> None:
    assert form(a) != form(b)


@pytest.mark.parametrize("source", SAMPLES)
def test_the_form_of_a_form_is_itself(source: str) -> None:
    assert form(form(source)) == form(source)


def test_a_key_depends_on_every_part_and_where_it_ends() -> None:
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key("a", "\ud800") == content_key("a", "\ud800")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(x): return x", None),
        (
            "import math, re\nfrom collections import Counter\nfrom collections.abc import Iterable\ndef f(x): return x",
            None,
        ),
        ("def f(input, id): return input + id", None),
        ("def g(x): return x", "entry"),
        ("def f(x): return 1\ndef f(x): return 2", "entry"),
        ("if True:\n    def f(x): return 1", "entry"),
        ("def f(x): return 1\nf = len", "entry"),
        ("def f(x):\n    global f\n    return 1", "entry"),
        ("async def f(x): return 1", "entry"),
        ("import os\ndef f(x): return 1", "forbidden_import"),
        ("import os.path as p\ndef f(x): return 1", "forbidden_import"),
        ("from . import a\ndef f(x): return 1", "forbidden_import"),
        ("def f(x):\n    from random import random\n    return random()", "forbidden_import"),
        ("import mathematics\ndef f(x): return 1", "forbidden_import"),
        ("def f(x): return hash(x)", "forbidden_name"),
        ("def f(x): return eval('1')", "forbidden_name"),
        ("def f(x): return __import__('os')", "forbidden_name"),
        ("def f(x): return x.__class__.__subclasses__()", "forbidden_attribute"),
    ],
)
def test_static_checks_give_their_reason(source: str, reason: str | None) -> None:
    rejection = check(ast.parse(source))
    assert (rejection and rejection.partition(":")[0]) == reason


CLASSES = """
import enum, dataclasses, operator, functools
from collections import namedtuple
Point = namedtuple("Point", "x y")
class Color(enum.Enum):
    RED = 1
@dataclasses.dataclass(frozen=True)
class Box:
    size: int
    def __post_init__(self):
        object.__setattr__(self, "double", 2 * self.size)
class Stack(list):
    __slots__ = ("_items", "__secret")
    def __init__(self, items):
        super().__init__()
        self._items, self.__secret = list(items), 1
    def __eq__(self, other):
        return self._items == other._items
    __hash__ = None
    def __repr__(self):
        return f"{type(self).__name__}({self._items}, {self.__secret})"
    __str__ = __repr__
def kind_of(value: object, wanted: type | None = None, *more: dict[str, type]) -> type:
    if isinstance(value, type) or issubclass(bool, (int, type)) or value is type:
        return type(value)
    match value:
        case type():
            return type(type(value))
    return type(value) == type or type(value) is not type(1)
def f(x):
    a = getattr(Box(3), "size", 0) + Point(1, 2)._replace(x=4).x
    b = hasattr(x, "__iter__") and int.__add__(1, 2)
    c = sorted([Point(2, 1)], key=operator.attrgetter("x", "y"))[0]._asdict()
    d = "{:>8} {0.x} {}".format(a, b), [name for name in Color.__members__]
    return a, b, c, d, str(Stack([1])), functools.reduce(operator.add, [1, 2]), __name__
"""


def test_honest_programs_with_classes_pass_the_static_checks() -> None:
    assert check(ast.parse(CLASSES)) is None


A_VALUE = "forbidden_name: type as a value, which makes classes"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        # modules that modules import
        ("from dataclasses import sys\ndef f(x): return 1", "forbidden_import: dataclasses.sys"),
        ("from re import enum\ndef f(x): return enum.sys", "forbidden_attribute: enum.sys"),
        ("import re\ndef f(x): return re.enum.sys", "forbidden_attribute: enum.sys"),
        ("import enum as e\ndef f(x): return e.bltns.eval('1')", "forbidden_attribute: enum.bltns"),
        ("import statistics\ndef f(x): return statistics.random.random()", "forbidden_attribute: statistics.random"),
        ("import json.decoder as d\ndef f(x): return d.scanner.c_make_scanner", None),
        ("import collections.abc\ndef f(x): return isinstance(x, collections.abc.Iterable)", None),
        ("import collections\ndef f(x): return collections._sys", "forbidden_attribute: collections._sys"),
        ("import re._parser\ndef f(x): return 1", "forbidden_import: re._parser"),
        # a module as a value could be followed no further
        ("import re\ndef f(x): return getattr(re, 'enum')", "forbidden_name: the module re as a value"),
        ("import re\ndef f(x, m=re): return m.enum", "forbidden_name: the module re as a value"),
        ("import re\ndef f(x):\n    m = re.enum\n    return m.x", "forbidden_attribute: the module enum as a value"),
        ("import re\ndef f(re): return re", "forbidden_name: re is a module, and bound again"),
        # the error would name the module's file
        ("from json import nothing\ndef f(x): return 1", "forbidden_import: json.nothing"),
        ("import math\ndef f(x):\n    math.n = 1", "forbidden_attribute: n of what is imported is changed"),
        ("from collections import Counter\ndef f(x):\n    Counter.n = 1", "forbidden_attribute: n of what is imported is changed"),
        # attributes
        ("def f(x): return x._private", "forbidden_attribute: _private"),
        ("class A:\n    _getframe = 1\ndef f(x): return x._getframe", "forbidden_attribute: _getframe"),
        ("def f(x): return (i for i in x).gi_frame", "forbidden_attribute: gi_frame"),
        ("def f(x): return x.__hash__()", "forbidden_attribute: __hash__"),
        ("def f(x):\n    match x:\n        case object(__doc__=d): return d\n        case object(__class__=c): return c", "forbidden_attribute: __class__"),
        # attributes by name
        ("def f(x): return getattr(x, '_' + 'a')", "forbidden_name: getattr without the attribute's name"),
        ("def f(x): return getattr(x, '__code__')", "forbidden_attribute: __code__"),
        ("import string\nclass F(string.Formatter):\n    def format_field(self, v, s): self.got = v\ndef f(x): return 1", "forbidden_attribute: Formatter"),
        ("from string import Formatter\ndef f(x): return 1", "forbidden_attribute: Formatter"),
        ("u = '_'\ndef f(x): return type('T', (), {u + u + 'eq' + u + u: 1})", "forbidden_name: a class whose attributes are named at run time"),
        ("def f(x): return type(*x)", "forbidden_name: a class whose attributes are named at run time"),
        ("class M(type):\n    pass\ndef f(x): return M('P', (), {})", "forbidden_name: M is a metaclass"),
        ("class A:\n    def __instancecheck__(c, o): return True\ndef f(x): return 1", "forbidden_name: __instancecheck__"),
        ("import copy\nclass A:\n    def __reduce__(self): return A, (), (None, {'a': 1})\ndef f(x): return copy.copy(A()).a", "forbidden_name: __reduce__"),
        ("import copy\ndef g(): pass\nclass C:\n    __reduce_ex__ = lambda s, p: (g, (), (None, {'__co' + 'de__': 1}))\ndef f(x): return copy.copy(C())", "forbidden_name: __reduce_ex__"),
        ("class C:\n    for __setstate__ in [len]: pass\ndef f(x): return 1", "forbidden_name: __setstate__"),
        ("class C:\n    from math import sin as __reduce__\ndef f(x): return 1", "forbidden_name: __reduce__"),
        ("class C:\n    match {}:\n        case {**__getstate__}: pass\ndef f(x): return 1", "forbidden_name: __getstate__"),
        ("class C:\n    __class__ = int\ndef f(x): return 1", "forbidden_name: __class__"),
        ("import enum\ndef f(x): return enum.Enum('E', {'__reduce_ex__': 1})", "forbidden_attribute: __reduce_ex__"),
        # `type` where it would make classes
        ("t = type\ndef f(x): return t('X', (), {})", A_VALUE),
        ("def f(x): return [type][0]('X', (), {})", A_VALUE),
        ("T = type\nclass M(T): pass\ndef f(x): return 1", A_VALUE),
        ("def f(x, t=type): return t('X', (), {})", A_VALUE),
        ("import functools\ndef f(x): return functools.partial(type, 'X', ())({})", A_VALUE),
        ("def f(x): return type.__call__(type, 'X', (), {})", A_VALUE),
        ("def f(x): return list(map(type, x))", A_VALUE),
        ("class E:\n    def __eq__(self, other): return other\ndef f(x): return (E() == type)('X', (), {})", A_VALUE),
        ("class E:\n    def __eq__(self, other): return other\ndef f(x): return type(x) == E() == type", A_VALUE),
        ("class E:\n    def __contains__(self, other): return other('X', (), {})\ndef f(x): return type in E()", A_VALUE),
        ("def isinstance(a, b): return b\ndef f(x): return isinstance(x, type)('X', (), {})", A_VALUE),
        ("class E:\n    def __class_getitem__(c, t): return t('X', (), {})\ndef f(x: E[type]): return 1", A_VALUE),
        ("def f(x: [type][0]('X', (), {})): return 1", A_VALUE),
        ("import abc\nclass M(abc.ABCMeta): pass\ndef f(x): return M('X', (), {})", "forbidden_name: M is a metaclass"),
        ("import enum\ndef f(x): return enum.EnumMeta('X', (), {})", "forbidden_attribute: EnumMeta"),
        ("import types\ndef f(x): return types.prepare_class('X')[0]('X', (), {})", "forbidden_attribute: prepare_class"),
        # a variable of that name is not the builtin, where it is one
        ("def f(x, type=1): return [type, lambda: type]", None),
        ("def f(x):\n    for type in x:\n        x = type\n    return type", None),
        ("def f(x): return [type for type in x if type]", None),
        ("class T:\n    def __init__(self, type):\n        self.type = type\ndef f(x): return T(x).type", None),
        ("def f(x): return g(x), type\ndef g(type): return type", A_VALUE),
        ("t = type\ntype = 1\ndef f(x): return t", A_VALUE),
        ("def g(t=type, *, type=1): return t\ndef f(x): return g()", A_VALUE),
        ("def f(x): return [[0 for type in x], type]", A_VALUE),
        ("def f(x): return [type for type in [type]]", A_VALUE),
        ("def f(x):\n    class C:\n        t = type\n        type = 1\n    return C.t", A_VALUE),
        ("def g(type):\n    class C:\n        t = type\n        type = 1\n    return C.t\ndef f(x): return g(1)", A_VALUE),
        ("def f(x):\n    global type\n    t = type\n    type = 1\n    return t", A_VALUE),
        ("def f(x):\n    type = 1\n    def g():\n        global type\n        return type\n    return g()", A_VALUE),
        ("def g(y=lambda type: 1): return type\ndef f(x): return g()", A_VALUE),
        ("def f(x):\n    def g(): type = 1\n    return type", A_VALUE),
        ("__base__ = 1\ndef f(x): return bool.__base__", "forbidden_attribute: __base__"),
        ("class A:\n    def __base__(self): pass\ndef f(x): return bool.__base__", "forbidden_attribute: __base__"),
        ("import types\ndef f(x): return types.new_class('T')", "forbidden_attribute: new_class"),
        ("import dataclasses\ndef f(x): return dataclasses.make_dataclass('D', ['a'])", "forbidden_attribute: make_dataclass"),
        ("def f(x): return list(map(getattr, x, x))", "forbidden_name: getattr without the attribute's name"),
        ("import operator\ndef f(x): return operator.attrgetter('a._b')(x)", "forbidden_attribute: _b"),
        ("import operator\ndef f(x): return operator.attrgetter(x)(x)", "forbidden_attribute: attrgetter without the attribute's name"),
        ("from operator import methodcaller\ndef f(x): return methodcaller(x)(x)", "forbidden_name: methodcaller without the attribute's name"),
        ("def f(x): return '{0._a}'.format(x)", "forbidden_attribute: in the template '{0._a}'"),
        ("from operator import attrgetter as a\ndef f(x): return a(x)(x)", "forbidden_import: attrgetter under another name"),
        ("from functools import wraps\ndef f(x): return wraps(f, [x])(f)", "forbidden_name: wraps without the attribute's name"),
        ("from functools import wraps\ndef f(x): return wraps(f)(f)", None),
        ("def g(x: 'eval(1)'): return x\ndef f(x: 'int') -> 'list[int]': return g", "forbidden_name: a call in the annotation 'eval(1)'"),
        ("def f(x): return __spec__", "forbidden_name: __spec__"),
    ],
)  # fmt: skip
def test_no_module_and_no_private_attribute_is_reached(program: str, reason: str | None) -> None:
    assert check(ast.parse(program)) == reason


def test_random_programs_pass_the_static_checks() -> None:
    for number in range(100):
        program = sample_program(Random(number), 1 + number % 10).text
        assert check(ast.parse(program)) is None, program
