"""The replicas of a zygote, and how they differ: in all that a deterministic program must not
depend on.

Where it can be arranged, two replicas hold the opposite of each other (ascending and descending,
zeros and ones, early and late), so that a program that looks sees a difference for certain and not
by luck. The first replica is left as CPython made it.

- `0`, `1`, `2` run every job whose results must be stable.
- The rest, the jury, have hash seeds and addresses of their own, and run only programs that touch
  what cannot be arranged: hashes, addresses, machine code.
"""

import builtins
import ctypes
import decimal
import fractions
import gc
import random
import re
import sys
import types
import weakref
from builtins import (  # bound here: a program may patch them
    Exception,
    RuntimeError,
    all,
    bool,
    bytes,
    complex,
    dict,
    float,
    frozenset,
    id,
    int,
    issubclass,
    iter,
    len,
    map,
    next,
    object,
    range,
    repr,
    slice,
    sorted,
    str,
    tuple,
    type,
)
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

from redqueen.sandbox.frozen_libc import Constants
from redqueen.sandbox.inspection.touches import COPIES_SETS

REPLICAS = 3
JURY = range(REPLICAS, 12)
ASCENDING, DESCENDING = 1, 2
HASH_SEEDS = (1, 20_011, 20_011, *(1 + 75_011 * replica for replica in JURY))
"""The same for these two: the opposite of a hash is certain to be another only there."""

_CLOCKS = (1_000_000_003.125, 1_800_012_347.375, 4_200_345_678.625)
"""2001, 2027 and 2103, so that most time bombs go off in one of them."""
_ENTROPY = (0x5A, 0x00, 0xFF)
_PROCESSES = (30_001, 0x5555, 0xAAAA)
_RECURSION = (1000, 1400, 2000)


def constants(replica: int) -> Constants:
    if replica < REPLICAS:
        return Constants(_CLOCKS[replica], _ENTROPY[replica], _PROCESSES[replica])
    return Constants(1.1e9 + 97_531_123.5 * replica, 29 * replica % 256, 1000 + 7919 * replica)


def layout(replica: int) -> int:
    """Replicas with the same number have their objects in the same order of addresses: the opposite
    of an order is certain to be another one only there."""
    return ASCENDING if replica == DESCENDING else replica


def differ(replica: int) -> None:
    """Make this process the given replica, in all that Python code can see."""
    _seed_random(replica)
    if replica in (ASCENDING, DESCENDING):
        sys.setrecursionlimit(_RECURSION[replica])
        _order_sets(descending=replica == DESCENDING)
        _hide_addresses("0x555555555550" if replica == ASCENDING else "0xaaaaaaaaaaa0")
        _change_sizes(8 * replica)
        _change_version(replica)
    if replica == DESCENDING:
        _reverse_identities()


_SLOTS = {"__repr__": 88, "__iter__": 216, "__init__": 296, "__call__": 400}
"""Offsets in the struct of a type. The last one is for types that are called without `__init__`."""


_Python = type("_Python", (), dict.fromkeys(_SLOTS, lambda self: None))
"""Its slots call methods that are written in Python."""


def patch(kind: type, methods: dict[str, Any]) -> None:
    """Set attributes of a type that is written in C, and of its heirs. Not by `setattr`, which has
    no effect on such types from Python 3.12 on."""
    gc.get_referents(kind.__dict__)[0].update(methods)
    for name in _SLOTS.keys() & methods:
        natural, method = _slot(kind, name).value, _slot(_Python, name).value
        heirs = [kind]
        for heir in heirs:
            if _slot(heir, name).value == natural:
                _slot(heir, name).value = method
                heirs += type.__subclasses__(heir)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _slot(kind: type, name: str) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(kind) + _SLOTS[name])


def _seed_random(replica: int) -> None:
    """The generator of the `random` module, as nobody has seeded it. Its first 623 words are all
    zeros in one replica and all ones in another."""
    random.seed(constants(replica).clock)
    if replica in (ASCENDING, DESCENDING):
        # words of the generator's state, and what it makes of them
        word = {ASCENDING: 0, DESCENDING: 0x12DD_9BB3}[replica]
        version, words, gauss = random.getstate()
        random.setstate((version, (words[0], *[word] * 623, 1), gauss))


# sets

_NUMBERS = frozenset((int, bool, float, complex, decimal.Decimal, fractions.Fraction))


def _has_fixed_hash(item: Any) -> bool:
    """Numbers, and tuples of them, hash alike in every process."""
    kind = type(item)
    if kind is tuple:
        return all(map(_has_fixed_hash, item))
    return kind in _NUMBERS


_PARTS = 64  # of an item, at most, are looked at
_NAMED = frozenset((types.FunctionType, types.BuiltinFunctionType, types.ModuleType))
# as properties, a program's metaclass could have others
_type_name = type.__dict__["__qualname__"].__get__
_bases = type.__dict__["__mro__"].__get__
_contents = type.__dict__["__dict__"].__get__


def _rank(item: Any) -> Any:
    """A key to sort by, the same in every process as far as that is possible without a call into
    the program: by value, by what an object consists of, and last by its address."""
    if type(item) is str:
        return [(1, item)], 0
    key: list[tuple[int, Any]] = []
    parts = [item]
    for part in parts:
        kind = type(part)
        if issubclass(kind, str):
            key.append((1, str.__str__(part)))
        elif issubclass(kind, bytes):
            key.append((2, bytes.__bytes__(part)))
        elif kind is int or kind is bool or kind is float:
            key.append((3, part))
        elif kind in _NUMBERS or kind is range:
            key.append((4, repr(part)))
        elif issubclass(kind, type):
            # listed in the order in which they were made
            siblings = type.__subclasses__(_bases(part)[1]) if part is not object else []
            key.append((5, (_type_name(part), [s is part for s in siblings])))
        else:
            key.append((6, _type_name(kind)))
            parts += _take_apart(part, kind)
        if len(key) == _PARTS:
            break
    return key, id(item)


def _take_apart(item: Any, kind: type) -> list[Any]:
    if issubclass(kind, tuple):
        return [*tuple.__getitem__(item, slice(_PARTS))]
    if kind is frozenset:
        return sorted(item, key=_rank)
    if kind is list:
        return item[:_PARTS]  # type: ignore[no-any-return]
    if kind is dict:
        return [*item.values()]
    if kind in _NAMED:
        return [item.__name__]
    if kind is types.MethodType:
        return [item.__self__, item.__func__]
    if kind is weakref.ref:
        return [item()]
    slots = [name for base in _bases(kind) for name in _contents(base).get("__slots__", ())]
    return [_attribute(item, name) for name in (*slots, "__dict__")]


def _attribute(item: Any, name: Any) -> Any:
    try:
        return object.__getattribute__(item, name)
    except Exception:
        return ()


def _arrange(items: list[Any], descending: bool) -> None:
    items.sort(key=_rank)
    if descending:
        items.reverse()
        if len(items) % 2:  # no item stays in its place
            middle = len(items) // 2
            items[middle], items[-1] = items[-1], items[middle]


_LARGE = 1000  # a natural order of so many items is not twice the same by chance


def _order_sets(descending: bool) -> None:
    """Iterate over sets in the order of their items wherever the natural order depends on hash seed
    or addresses."""
    for kind in (set, frozenset):
        natural, length = kind.__iter__, kind.__len__

        def walk(self: Any, items: list[Any], length: Any = length) -> Iterator[Any]:
            size = length(self)
            for item in items:
                if length(self) != size:
                    break
                yield item
            if length(self) != size:
                raise RuntimeError("Set changed size during iteration")

        def iterate(self: Any, natural: Any = natural, walk: Any = walk) -> Iterator[Any]:
            items = [*natural(self)]
            if len(items) < 2 or all(map(_has_fixed_hash, items)):
                return natural(self)  # type: ignore[no-any-return]
            _arrange(items, descending)
            return walk(self, items)  # type: ignore[no-any-return]

        patch(kind, {"__iter__": iterate})
    natural_pop, discard, natural_fromkeys = set.pop, set.discard, dict.__dict__["fromkeys"]

    def pop(self: set[Any]) -> Any:
        if not 1 < set.__len__(self) < _LARGE:
            return natural_pop(self)
        item = next(iter(self))
        discard(self, item)
        return item

    def fromkeys(cls: Any, iterable: Any, value: Any = None) -> Any:
        return natural_fromkeys.__get__(None, cls)(iter(iterable), value)

    patch(set, {"pop": pop})
    patch(dict, {"fromkeys": classmethod(fromkeys)})
    if COPIES_SETS:
        _order_copies()


def _order_copies() -> None:
    """Where a list is made from a set without iteration over it."""
    natural_init, natural_extend, natural_join = list.__init__, list.extend, str.join
    natural_sorted = builtins.sorted

    def walk(items: Any) -> Any:
        return iter(items) if type(items) is set or type(items) is frozenset else items

    def init(self: list[Any], items: Any = (), /) -> None:
        natural_init(self, walk(items))

    def extend(self: list[Any], items: Any, /) -> None:
        natural_extend(self, walk(items))

    def join(self: str, items: Any, /) -> str:
        return natural_join(self, walk(items))

    def arranged(items: Any, /, *, key: Any = None, reverse: bool = False) -> list[Any]:
        return natural_sorted(walk(items), key=key, reverse=reverse)

    patch(list, {"__init__": init, "extend": extend})
    _slot(list, "__call__").value = None
    patch(str, {"join": join})
    builtins.sorted = arranged


# identity, sizes, version


def _reverse_identities() -> None:
    """Objects made one after the other have ascending addresses, in every process; here they
    descend."""
    natural_hash = builtins.hash

    def reversed_id(item: object) -> int:
        return (1 << 47) - 16 - id(item)  # no bit is the same but those that are always zero

    def reversed_hash(item: object) -> int:
        return natural_hash(item) if _has_fixed_hash(item) else ~natural_hash(item)

    builtins.id, builtins.hash = reversed_id, reversed_hash
    for kind in (str, bytes, tuple, frozenset):

        def method(self: Any, kind: type = kind, natural: Any = kind.__hash__) -> int:
            return reversed_hash(self) if type(self) is kind else natural(self)

        patch(kind, {"__hash__": method})  # not the slot, which dictionaries use


def _hide_addresses(address: str) -> None:
    """In the texts that objects have by default."""
    kinds: tuple[type, ...] = object, types.FunctionType, types.BuiltinFunctionType
    kinds += types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.CellType
    kinds += memoryview, weakref.ref
    for kind in (*kinds, types.MethodWrapperType, types.CodeType, types.FrameType):
        natural = kind.__repr__

        def show(
            self: Any, natural: Any = natural, sub: Any = re.compile("0x[0-9a-f]+").sub
        ) -> str:
            return sub(address, natural(self))  # type: ignore[no-any-return]

        patch(kind, {"__repr__": show})


def _change_sizes(by: int) -> None:
    """Objects have the sizes, and reference counts, that this build of Python gives them."""
    count = sys.getrefcount
    sys.getrefcount = lambda item: count(item) + by
    kinds: list[type] = [object]
    for kind in kinds:
        kinds += type.__subclasses__(kind)
    for kind in {*kinds}:
        size = kind.__dict__.get("__sizeof__")
        if type(size) is types.MethodDescriptorType:

            def sizeof(self: Any, size: Any = size) -> int:
                return size(self) + by  # type: ignore[no-any-return]

            patch(kind, {"__sizeof__": sizeof})


def _change_version(by: int) -> None:
    version_info = namedtuple("version_info", "major minor micro releaselevel serial")
    major, minor, *rest = sys.version_info
    sys.version_info = version_info(major, minor + by, *rest)  # type: ignore[assignment]
    sys.hexversion += by << 16
    sys.version = f"{major}.{minor + by} {sys.version}"
