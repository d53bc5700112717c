"""What a program's code reaches for that its result must not depend on: a cheap superset, read from
the names in its compiled code before it runs."""

import opcode
import sys
import types

from redqueen.config.modules import ALLOWED_MODULES

CHANCE = "c"
"""Hashes, addresses, machine code, or the means to get at them by another name."""
STATE = "s"
"""Modules, whose state outlives a call."""

_CHANCE_NAMES = frozenset(
    """
    hash id getattr vars dir globals locals eval exec compile open exit quit help breakpoint
    attrgetter methodcaller __import__ __builtins__
    __base__ __bases__ __closure__ __code__ __dict__ __getattribute__ __getstate__ __globals__
    __hash__ __loader__ __mro__ __reduce__ __reduce_ex__ __self__ __sizeof__ __spec__
    __subclasses__ __traceback__ __wrapped__
    f_back f_globals f_locals f_builtins gi_frame cr_frame ag_frame tb_frame tb_next _getframe
    """.split()
)
_CHANCE_MODULES = """
    ast atexit builtins codecs ctypes datetime dis gc importlib inspect io linecache locale marshal
    mmap opcode os pickle platform posix random resource secrets select signal socket sys threading
    time timeit tokenize traceback urandom uuid warnings weakref
    """.split()
"""Modules that allowed ones have imported, under their own name or with an underscore."""
_CHANCE = _CHANCE_NAMES.union(_CHANCE_MODULES, [f"_{name}" for name in _CHANCE_MODULES])
COPIES_SETS = sys.version_info >= (3, 13)
"""A list is made from a set in the order of its table, which cannot be arranged."""
if COPIES_SETS:
    _CHANCE = _CHANCE.union(["frozenset", "items", "keys", "set"])
_SETS = {opcode.opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE")}
_FOREIGN = frozenset(sys.stdlib_module_names) - ALLOWED_MODULES
_IMPORT = opcode.opmap["IMPORT_NAME"]


def find_touches(code: types.CodeType) -> str:
    """The letters of what is touched."""
    chance, state = False, False
    parts = [code]
    for part in parts:
        if not _CHANCE.isdisjoint(part.co_names):
            chance = True
        operations = part.co_code[::2]
        if COPIES_SETS and not _SETS.isdisjoint(operations):
            chance = True
        if _IMPORT in operations:
            state = True
            roots = [name.partition(".")[0] for name in part.co_names]
            chance = chance or not _FOREIGN.isdisjoint(roots)
        for constant in part.co_consts:
            if type(constant) is types.CodeType:
                parts.append(constant)
            elif type(constant) is str:
                # a format string names attributes, too
                chance = chance or ("__" in constant and constant != "__main__")
            elif type(constant) is tuple:  # so does a pattern
                chance = chance or "__" in repr(constant)
    return CHANCE * chance + STATE * (state or chance)
