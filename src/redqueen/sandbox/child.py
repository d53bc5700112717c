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
import resource
import sys
import types
from builtins import (  # bound here, so that code after the program does not use its patches
    AttributeError,
    BaseException,
    MemoryError,
    OSError,
    SystemExit,
    ValueError,
    isinstance,
    iter,
    len,
    str,
    type,
    vars,
)
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from redqueen.sandbox import wire
from redqueen.sandbox.inspection.canonical import canonical_program
from redqueen.sandbox.inspection.checks import check
from redqueen.sandbox.inspection.complexity import measure
from redqueen.sandbox.inspection.touches import find_touches
from redqueen.sandbox.literals import (
    MAX_TEXT,
    NotLiteral,
    canonical,
    parse_arguments,
)

Write = Callable[[bytes], None]
OUTPUT_FD = 20  # a duplicate of a script's output: it may close descriptor 1
END = b"\n."
_MANY = 1 << 16  # bytes: longer lines are not kept until the end, where all are written at once
BUILTINS: dict[str, Any] = {}
# type(error).__name__ could be a property of the program's metaclass
_type_name = type.__dict__["__name__"].__get__


class Call:
    """One call into the program: what is called, and what came of it."""

    __slots__ = ("arguments", "error", "function", "keywords", "value")

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Iterable[Any],
        keywords: dict[str, Any] | None = None,
    ) -> None:
        self.function, self.arguments, self.keywords = function, arguments, keywords or {}
        self.value: Any = None
        self.error: BaseException | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


Work = list[Iterator[Call]]
"""One iterator, which is taken out before the program runs."""


def run(work: Work, write: Write) -> None:
    """Carry out the work, which ends its results by itself. Exits the process."""
    try:
        carry_out(work, write)
    except BaseException as error:
        write(describe(error) + END)
    os._exit(0)


def carry_out(work: Work, write: Write) -> None:
    """The frame from which the program is called. Nothing of the job is among its locals or in the
    frames above it: the job is known to the iterator alone, which is suspended in the meantime, and
    the interpreter holds it where no frame shows it."""
    for call in work.pop():
        try:
            call.value = call.function(*call.arguments, **call.keywords)
        except BaseException as error:
            call.error = error


def read_request(body: memoryview, with_tests: bool = True) -> tuple[wire.Order, list[str]]:
    """The instructions, then the texts: program, tests, inputs."""
    order = wire.read_order(body)
    texts, at = [], order.start
    for index, size in enumerate(order.sizes):
        texts.append(str(body[at : at + size], "utf-8") if with_tests or index != 1 else "")
        at += size
    return order, texts


def make_writer(fd: int, os_write: Callable[[int, bytes], int] = os.write) -> Write:
    def write(line: bytes) -> None:
        data = line + b"\n"
        while data:
            data = data[os_write(fd, data) :]

    return write


def compile_program(order: wire.Order, program: str, write: Write) -> types.CodeType | None:
    """The program's code; None if the inspection rejected it."""
    lines = []
    if order.allowed_modules is None:
        code = compile_text(program)
    else:
        tree = ast.parse(program)
        reason = check(tree, order.allowed_modules, order.entry)
        if reason is not None:
            write(b"R" + reason.encode("ascii", "backslashreplace") + END)
            return None
        complexity, code = measure(tree, program), compile_text(tree)
        form = canonical_program(tree, order.entry)
        lines.append(b"I" + wire.write_inspection(form, complexity).encode())
    if order.report_touches:
        lines.append(b"T" + find_touches(code).encode())
    if lines:
        write(b"\n".join(lines))
    return code


def compile_text(program: str | ast.Module) -> types.CodeType:
    code: types.CodeType = compile(program, "<program>", "exec", dont_inherit=True)
    return code


def call_program(
    order: wire.Order, program: str, inputs: list[str], max_text: int, write: Write
) -> Iterator[Call]:
    """The calls of mode `call`: the program's own code, then its function, for every input."""
    code = compile_program(order, program, write)
    if code is None:
        return
    steps, lines = [0], list[bytes]()
    for index, text in enumerate(inputs):
        if index:  # every input sees clean builtins; the first one does anyway
            _restore_builtins()
        try:
            arguments: Any = (
                () if order.expression else parse_arguments(text, max(max_text, MAX_TEXT))
            )
            keywords: dict[str, Any] = {}
            namespace, call = load(code)
            yield call
            call.result()
            function = find_entry(namespace, order.entry)
            if order.expression:
                call = Call(eval, (f"(lambda *a, **k: (a, k))({text}\n)", namespace))
                yield call
                arguments, keywords = call.result()
            call = Call(function, arguments, keywords)
            if order.count_steps:
                _count_steps(steps)
            yield call
            if order.count_steps:
                sys.settrace(None)
            line = b"V" + canonical(call.result(), max_text).encode()
        except BaseException as error:
            line = describe(error)
        lines.append(line)
        if len(line) > _MANY:
            write(b"\n".join(lines))
            lines.clear()
    if order.count_steps:
        lines.append(b"S%d" % steps[0])
    write(b"\n".join(lines) + END)


def load(code: types.CodeType, name: str = "program") -> tuple[dict[str, Any], Call]:
    """The namespace of the program as a new module, which classes, dataclasses and typing can find
    by name, and the call that fills it."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    return module.__dict__, Call(exec, (code, module.__dict__))


def find_entry(namespace: dict[str, Any], entry: str) -> Any:
    if entry not in namespace:
        raise NameError(f"no {entry}")
    return namespace[entry]


def _count_steps(steps: list[int]) -> None:
    """From here on, until tracing is switched off."""

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


def run_script(
    order: wire.Order, program: str, inputs: list[str], max_text: int, write: Write
) -> Iterator[Call]:
    """Mode `script`: the value is the standard output (a file in memory on descriptor 1)."""
    code = compile_program(order, program, write)
    if code is None:
        return
    _, script = load(code, "__main__")
    yield script
    try:
        script.result()
    except SystemExit as stop:
        if stop.code not in (None, 0, False):
            raise
    finally:
        call = Call(_finish_script, ())
        yield call
    call.result()
    os.lseek(OUTPUT_FD, 0, os.SEEK_SET)
    output = b"".join(iter(lambda: os.read(OUTPUT_FD, 1 << 20), b""))
    write(b"V" + canonical(output.decode("utf-8", "replace"), max_text).encode() + END)


def replace_standard_streams(body: memoryview, max_bytes: int) -> None:
    """Make standard input and output of a script files in memory, so that every way to read and
    write them works."""
    order = wire.read_order(body)
    text = body[order.start + sum(order.sizes[:2]) :]
    for fd in (0, 1):
        memory = os.memfd_create("stream")
        os.dup2(memory, fd)
        os.close(memory)
    os.dup2(1, OUTPUT_FD)
    while text:
        text = text[os.write(0, text) :]
    os.lseek(0, 0, os.SEEK_SET)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))


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


class Gone(BaseException):
    """The program's process exited before it answered. Not an Exception, so that no test can
    mistake it for an error it expects."""


class Unsupported(BaseException):
    """A value that is not a literal and cannot be passed on. Not an Exception, for the same
    reason."""


def describe(error: BaseException) -> bytes:
    """The line that reports an error."""
    if isinstance(error, (NotLiteral, Unsupported)):
        return b"U" + str(error).encode()
    if isinstance(error, Gone):
        return b"Cthe program ended before it answered"
    if isinstance(error, MemoryError):
        return b"M"
    return b"E" + encode_name(type(error))


def encode_name(kind: type) -> bytes:
    name: str = _type_name(kind)
    return name[:100].encode("ascii", "backslashreplace")


def snapshot_builtins() -> None:
    BUILTINS.update(vars(builtins))


def _restore_builtins() -> None:
    """Undo a program's patches. Done only where needed: touching every builtin copies 79 pages, a
    tenth of a run."""
    builtins.__dict__.clear()
    builtins.__dict__.update(BUILTINS)
