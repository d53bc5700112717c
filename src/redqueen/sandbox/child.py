"""The code of a child, behind the walls: decode the request, run the program, write the results as
lines.

Once the program runs, nothing here can be trusted: it may patch whatever it finds. That only lets
it lie about its own results, which it could do by returning them. What is written before that (the
inspection) can be trusted.
"""

import ast
import atexit
import builtins
import gc
import os
import sys
import types
from builtins import (  # bound here, so that code after the program does not use its patches
    AttributeError,
    BaseException,
    Exception,
    MemoryError,
    OSError,
    SystemExit,
    ValueError,
    isinstance,
    iter,
    str,
    type,
    vars,
)
from collections.abc import Callable, Iterator
from typing import Any

from redqueen.sandbox import wire
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.sandbox.inspection.checks import check
from redqueen.sandbox.inspection.complexity import measure
from redqueen.sandbox.literals import (
    MAX_TEXT,
    NotLiteral,
    canonical,
    ordered,
    parse_arguments,
    parse_literal,
)

Write = Callable[[bytes], None]
OUTPUT_FD = 20  # a duplicate of a script's output: it may close descriptor 1
_BUILTINS: dict[str, Any] = {}
_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
# type(error).__name__ could be a property of the program's metaclass
_type_name = type.__dict__["__name__"].__get__


def run(head: wire.Head, body: memoryview, result_fd: int) -> None:
    """Run a request of mode `call` or `script` and write its results. Exits the process."""
    write = _make_writer(result_fd)
    try:
        order = wire.read_order(body)
        program, _, *inputs = _read_texts(order, body)
        code = compile_program(order, program, write)
        if code is not None:
            if head.mode == wire.SCRIPT:
                write(_run_script(code, head.output))
            else:
                run_calls(order, code, inputs, head.output, write)
    except BaseException as error:
        write(_describe(error))
    write(b".")
    os._exit(0)


def _read_texts(order: wire.Order, body: memoryview) -> list[str]:
    texts, at = [], order.start
    for size in order.sizes:
        texts.append(str(body[at : at + size], "utf-8"))
        at += size
    return texts


def _make_writer(fd: int, os_write: Callable[[int, bytes], int] = os.write) -> Write:
    def write(line: bytes) -> None:
        data = line + b"\n"
        while data:
            data = data[os_write(fd, data) :]

    return write


def compile_program(order: wire.Order, program: str, write: Write) -> types.CodeType | None:
    """The program's code; None if the inspection rejected it."""
    if order.allowed_modules is None:
        return compile(program, "<program>", "exec", dont_inherit=True)
    tree = ast.parse(program)
    reason = check(tree, order.allowed_modules, order.entry)
    if reason is not None:
        write(b"R" + reason.encode("ascii", "backslashreplace"))
        return None
    complexity, code = measure(tree, program), compile(tree, "<program>", "exec", dont_inherit=True)
    write(b"I" + wire.write_inspection(canonical_program(tree, order.entry), complexity).encode())
    return code


def run_calls(
    order: wire.Order, code: types.CodeType, inputs: list[str], max_text: int, write: Write
) -> None:
    steps = [0]
    for index, text in enumerate(inputs):
        if index:  # every input sees clean builtins; the first one does anyway
            _restore_builtins()
        try:
            arguments: Any = (
                () if order.expression else parse_arguments(text, max(max_text, MAX_TEXT))
            )
            keywords: dict[str, Any] = {}
            namespace = fresh_namespace(code)
            function = _find_entry(namespace, order.entry)
            if order.expression:
                arguments, keywords = eval(f"(lambda *a, **k: (a, k))({text}\n)", namespace)
            if order.count_steps:
                value = _call_traced(function, arguments, keywords, steps)
            else:
                value = function(*arguments, **keywords)
            line = b"V" + canonical(value, max_text).encode()
        except BaseException as error:
            line = _describe(error)
        write(line)
    if order.count_steps:
        write(b"S%d" % steps[0])


def fresh_namespace(code: types.CodeType, name: str = "program") -> dict[str, Any]:
    """Run the program as a new module, which classes, dataclasses and typing can find by name."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module.__dict__


def _find_entry(namespace: dict[str, Any], entry: str) -> Any:
    if entry not in namespace:
        raise NameError(f"no {entry}")
    return namespace[entry]


def _call_traced(function: Any, arguments: Any, keywords: Any, steps: list[int]) -> Any:
    def on_line(frame: types.FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            steps[0] += 1
            if steps[0] >= wire.MAX_STEPS:
                sys.settrace(None)
                return None
        return on_line

    def on_call(frame: types.FrameType, event: str, argument: Any) -> Any:
        return on_line if frame.f_code.co_filename == "<program>" else None

    sys.settrace(on_call if steps[0] < wire.MAX_STEPS else None)
    try:
        return function(*arguments, **keywords)
    finally:
        sys.settrace(None)


def _run_script(code: types.CodeType, max_text: int) -> bytes:
    """Run the program as a script; the value is its standard output (a file in memory on descriptor
    1)."""
    try:
        fresh_namespace(code, "__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0, False):
            raise
    finally:
        _finish_script()
    os.lseek(OUTPUT_FD, 0, os.SEEK_SET)
    output = b"".join(iter(lambda: os.read(OUTPUT_FD, 1 << 20), b""))
    return b"V" + canonical(output.decode("utf-8", "replace"), max_text).encode()


def _finish_script() -> None:
    """Do what the interpreter does at exit and a script may rely on: run exit functions, flush
    output."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.__stdout__):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or not a stream at all
            pass
    vars(sys.modules["__main__"]).clear()  # closes files that the script left open
    gc.collect()


def _describe(error: BaseException) -> bytes:
    """The line that reports an error."""
    if isinstance(error, (NotLiteral, Unsupported)):
        return b"U" + str(error).encode()
    if isinstance(error, Gone):
        return b"Cthe program ended before it answered"
    if isinstance(error, MemoryError):
        return b"M"
    return b"E" + _encode_name(type(error))


def _encode_name(kind: type) -> bytes:
    name: str = _type_name(kind)
    return name[:100].encode("ascii", "backslashreplace")


def snapshot_builtins() -> None:
    _BUILTINS.update(vars(builtins))


def _restore_builtins() -> None:
    """Undo a program's patches. Done only where needed: touching every builtin copies 79 pages, a
    tenth of a run."""
    builtins.__dict__.clear()
    builtins.__dict__.update(_BUILTINS)


# mode `tests`: two processes


def serve(head: wire.Head, body: memoryview, calls_fd: int, answers_fd: int) -> None:
    """The program's side of mode `tests`: answer calls, one line each way, until the pipe closes.
    Exits the process."""
    # The tests contain the expected answers: wipe them from this copy of the request before
    # touching anything of the program.
    order = wire.read_order(body)
    tests_at = order.start + order.sizes[0]
    body[tests_at : tests_at + order.sizes[1]] = bytes(order.sizes[1])
    write = _make_writer(answers_fd)
    namespace: dict[str, Any] | None = None
    for text in _read_lines(calls_fd):
        try:
            if namespace is None:
                program = _read_texts(order, body)[0]
                namespace = fresh_namespace(
                    compile(program, "<program>", "exec", dont_inherit=True)
                )
            function = _find_entry(namespace, order.entry)
            value = function(*parse_arguments(text, wire.MAX_BODY))
            line = b"V" + ordered(value, head.output).encode()
        except Exception as error:
            line = _describe(error)
            if line[:1] == b"E":  # the nearest builtin exception, which the tests can raise
                line = b"E" + next(
                    _encode_name(kind)
                    for kind in _bases(type(error))
                    if _BUILTINS.get(_encode_name(kind).decode()) is kind
                )
        except BaseException as error:
            line = _describe(error)
        write(line)
    os._exit(0)


def _read_lines(fd: int) -> Iterator[str]:
    pending = b""
    while chunk := os.read(fd, 1 << 16):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line.decode()


class Gone(BaseException):
    """The program's process exited before it answered. Not an Exception, so that no test can
    mistake it for an error it expects."""


class Unsupported(BaseException):
    """A value that is not a literal and cannot be passed on. Not an Exception, for the same
    reason."""


def run_tests(
    head: wire.Head, body: memoryview, result_fd: int, calls_fd: int, answers_fd: int
) -> None:
    """The tests' side of mode `tests`: trusted code that sees the program as `candidate`. Exits the
    process."""
    write, ask = _make_writer(result_fd), _make_writer(calls_fd)
    answers = _read_lines(answers_fd)

    def candidate(*arguments: Any, **keywords: Any) -> Any:
        try:
            if keywords:
                raise NotLiteral("keyword arguments do not cross over")
            ask(", ".join([ordered(argument, head.output) for argument in arguments]).encode())
        except NotLiteral as error:
            raise Unsupported(str(error)) from error
        except BrokenPipeError as error:
            raise Gone from error
        answer = next(answers, None)
        if answer is None:
            raise Gone
        return _read_answer(answer, head.output)

    try:
        tests = _read_texts(wire.read_order(body), body)[1]
        exec(
            compile(tests, "<tests>", "exec", dont_inherit=True),
            {"__name__": "tests", "candidate": candidate},
        )
        write(b"VTrue")
    except BaseException as error:
        write(_describe(error))
    write(b".")
    os._exit(0)


def _read_answer(line: str, max_text: int) -> Any:
    """The value that the program's side sent; raises the exception that it named instead."""
    letter, text = line[:1], line[1:]
    if letter == "V":
        return parse_literal(text, max_text)
    if letter == "M":
        raise MemoryError
    if letter == "U":
        raise Unsupported("the program's result is not a literal")
    known = _BUILTINS.get(text)
    if isinstance(known, type) and issubclass(known, Exception):
        raise known.__new__(known)  # without its arguments, which were not sent
    raise RuntimeError(text)
