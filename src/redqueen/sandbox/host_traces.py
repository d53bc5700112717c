"""What would tell a program about the machine: paths, arguments, environment. A value that holds a
path differs from machine to machine, and would tell students and readers where a run was made."""

import _imp
import contextlib
import ctypes
import gc
import importlib.machinery
import os
import sys
import types
import warnings

_SYS_PATHS = """
    executable _base_executable prefix base_prefix exec_prefix base_exec_prefix _stdlib_dir _home
""".split()


def remove() -> None:
    """Of all that is imported so far. Needs /proc."""
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType):  # None: blocked from being imported
            _remove_paths(module)
    # not only functions of modules: every code object that something can reach
    for item in gc.get_objects():
        if isinstance(item, types.FunctionType) and "/" in item.__code__.co_filename:
            _imp._fix_co_filename(item.__code__, "<library>")  # type: ignore[attr-defined]
    for name in _SYS_PATHS:
        setattr(sys, name, "")
    sys.argv, sys.orig_argv = [""], [""]
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
    os.environ.clear()
    warnings.simplefilter("ignore")
    _wipe_interpreter_paths()
    with contextlib.suppress(OSError):  # no /proc
        _wipe_initial_stack()


def _remove_paths(module: types.ModuleType) -> None:
    for name in ("__file__", "__cached__"):
        vars(module).pop(name, None)
    if hasattr(module, "__path__"):
        module.__path__ = []
    module.__loader__ = None
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)


def _wipe_interpreter_paths() -> None:
    """The texts that the interpreter's C functions return."""
    for name in ("Path", "Prefix", "ExecPrefix", "ProgramFullPath", "ProgramName", "PythonHome"):
        function = getattr(ctypes.pythonapi, f"Py_Get{name}", None)
        if function is not None:
            function.restype = ctypes.c_void_p
            if text := function():
                ctypes.memset(text, 0, ctypes.sizeof(ctypes.c_wchar))


def _wipe_initial_stack() -> None:
    """Arguments, environment and the path of the program, which the kernel has put at the far end
    of the stack."""
    with open("/proc/self/stat") as file:
        arguments = int(file.read().rpartition(")")[2].split()[45])
    with open("/proc/self/maps") as file:
        stack = next((line.split()[0] for line in file if line.endswith("[stack]\n")), None)
    if stack is not None and arguments:
        end = int(stack.partition("-")[2], 16)
        ctypes.memset(arguments, 0, end - arguments - 8)
