"""What happens inside a child, behind the walls: decode the request, run the program, write the
results as lines.

From the moment the program runs nothing here can be trusted any more: it may patch whatever it
finds. That only lets it lie about its own results, which it may do by returning them. What is
written before that moment (the inspection) can be believed.
"""

import ast
import atexit
import builtins
import gc
import os
import sys
import types
from builtins import (  # what follows the program must not meet its patches
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
OUTPUT_FD = 20  # a script's output once more: it may close descriptor 1
_BUILTINS: dict[str, Any] = {}
_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_type_name = type.__dict__[
    "__name__"
].__get__  # type(e).__name__ could be a property of the program's metaclass


def run(head: wire.Head, body: memoryview, result_fd: int) -> None:
    """Run a request of mode `call` or `script` and write its results. Ends the process."""
    write = _writer(result_fd)
    try:
        order = wire.read_order(body)
        program, _, *inputs = _texts(order, body)
        code = compile_program(order, program, write)
        if code is not None:
            if head.mode == wire.SCRIPT:
                write(_script(code, head.output))
            else:
                calls(order, code, inputs, head.output, write)
    except BaseException as error:
        write(_failure(error))
    write(b".")
    os._exit(0)


def _texts(order: wire.Order, body: memoryview) -> list[str]:
    texts, at = [], order.start
    for size in order.sizes:
        texts.append(str(body[at : at + size], "utf-8"))
        at += size
    return texts


def _writer(fd: int, os_write: Callable[[int, bytes], int] = os.write) -> Write:
    def write(line: bytes) -> None:
        data = line + b"\n"
        while data:
            data = data[os_write(fd, data) :]

    return write


def compile_program(order: wire.Order, program: str, write: Write) -> types.CodeType | None:
    """The program's code; None where it was inspected and turned away."""
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


def calls(
    order: wire.Order, code: types.CodeType, inputs: list[str], max_text: int, write: Write
) -> None:
    steps = [0]
    for index, text in enumerate(inputs):
        if index:  # each input sees clean builtins; the first does anyway
            _restore_builtins()
        try:
            arguments: Any = (
                () if order.expression else parse_arguments(text, max(max_text, MAX_TEXT))
            )
            keywords: dict[str, Any] = {}
            namespace = fresh_namespace(code)
            function = namespace[order.entry] if order.entry in namespace else _missing(order.entry)
            if order.expression:
                arguments, keywords = eval(f"(lambda *a, **k: (a, k))({text}\n)", namespace)
            value = (
                _traced(function, arguments, keywords, steps)
                if order.count_steps
                else function(*arguments, **keywords)
            )
            line = b"V" + canonical(value, max_text).encode()
        except BaseException as error:
            line = _failure(error)
        write(line)
    if order.count_steps:
        write(b"S%d" % steps[0])


def fresh_namespace(code: types.CodeType, name: str = "program") -> dict[str, Any]:
    """A module of its own, which classes, dataclasses and typing can find by name."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module.__dict__


def _missing(entry: str) -> Any:
    raise NameError(f"no {entry}")


def _traced(function: Any, arguments: Any, keywords: Any, steps: list[int]) -> Any:
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


def _script(code: types.CodeType, max_text: int) -> bytes:
    """Run the program as a script; its standard output (a file in memory on descriptor 1) is the
    value."""
    try:
        fresh_namespace(code, "__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0, False):
            raise
    finally:
        _end_script()
    os.lseek(OUTPUT_FD, 0, os.SEEK_SET)
    output = b"".join(iter(lambda: os.read(OUTPUT_FD, 1 << 20), b""))
    return b"V" + canonical(output.decode("utf-8", "replace"), max_text).encode()


def _end_script() -> None:
    """What the interpreter does at its end and a script may count on: exit functions run, and what
    was written is flushed."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.__stdout__):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or no stream at all
            pass
    vars(sys.modules["__main__"]).clear()  # files that the script left open are closed with it
    gc.collect()


def _failure(error: BaseException) -> bytes:
    if isinstance(error, (NotLiteral, Unsupported)):
        return b"U" + str(error).encode()
    if isinstance(error, Gone):
        return b"Cthe program ended before it answered"
    if isinstance(error, MemoryError):
        return b"M"
    return b"E" + _name(type(error))


def _name(kind: type) -> bytes:
    name: str = _type_name(kind)
    return name[:100].encode("ascii", "backslashreplace")


def snapshot_builtins() -> None:
    _BUILTINS.update(vars(builtins))


def _restore_builtins() -> None:
    """Undo a program's patches. Not done where it can be avoided: touching every builtin copies 79
    pages, a tenth of a run."""
    builtins.__dict__.clear()
    builtins.__dict__.update(_BUILTINS)


# --------------------------------------------------------------------------------------------------
# --- mode `tests`: two processes


def serve(head: wire.Head, body: memoryview, calls_fd: int, answers_fd: int) -> None:
    """The program's side of mode `tests`: answer calls, one line each way, until the pipe closes.
    Ends the process."""
    # The tests hold the expected answers: they are wiped from this copy of the request before
    # anything of the program is touched.
    order = wire.read_order(body)
    tests_at = order.start + order.sizes[0]
    body[tests_at : tests_at + order.sizes[1]] = bytes(order.sizes[1])
    write = _writer(answers_fd)
    namespace: dict[str, Any] | None = None
    for text in _lines(calls_fd):
        try:
            if namespace is None:
                namespace = fresh_namespace(
                    compile(_texts(order, body)[0], "<program>", "exec", dont_inherit=True)
                )
            function = namespace[order.entry] if order.entry in namespace else _missing(order.entry)
            line = (
                b"V"
                + ordered(function(*parse_arguments(text, wire.MAX_BODY)), head.output).encode()
            )
        except Exception as error:
            line = _failure(error)
            if line[:1] == b"E":
                line = b"E" + next(
                    _name(kind)
                    for kind in _bases(type(error))
                    if _BUILTINS.get(_name(kind).decode()) is kind
                )
        except BaseException as error:
            line = _failure(error)
        write(line)
    os._exit(0)


def _lines(fd: int) -> Iterator[str]:
    pending = b""
    while chunk := os.read(fd, 1 << 16):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line.decode()


class Gone(BaseException):
    """The program's process ended before it answered. Not an Exception, so that no test can take it
    for an error it expects."""


class Unsupported(BaseException):
    """A value that does not cross over as a literal. Not an Exception, for the same reason."""


def run_tests(
    head: wire.Head, body: memoryview, result_fd: int, calls_fd: int, answers_fd: int
) -> None:
    """The tests' side of mode `tests`: trusted code that sees the program as `candidate`. Ends the
    process."""
    write, ask = _writer(result_fd), _writer(calls_fd)
    answers = _lines(answers_fd)

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
        return _answer(answer, head.output)

    try:
        tests = _texts(wire.read_order(body), body)[1]
        exec(
            compile(tests, "<tests>", "exec", dont_inherit=True),
            {"__name__": "tests", "candidate": candidate},
        )
        write(b"VTrue")
    except BaseException as error:
        write(_failure(error))
    write(b".")
    os._exit(0)


def _answer(line: str, max_text: int) -> Any:
    """The value that the program's side sent, or the exception it met, by name."""
    letter, text = line[:1], line[1:]
    if letter == "V":
        return parse_literal(text, max_text)
    if letter == "M":
        raise MemoryError
    if letter == "U":
        raise Unsupported("the program's result is not a literal")
    known = _BUILTINS.get(text)
    if isinstance(known, type) and issubclass(known, Exception):
        raise known.__new__(known)  # without its arguments, which did not come along
    raise RuntimeError(text)
