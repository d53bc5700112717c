"""What happens inside a child, behind the walls: decode the request, run the program, write the results as lines.

From the moment the program runs nothing here can be trusted any more: it may patch whatever it finds. That only lets it lie about its
own results, which it may do by returning them. What is written before that moment (the inspection) can be believed.
"""

import ast
import builtins
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from redqueen.program.canonical import canonical_program
from redqueen.program.checks import check
from redqueen.program.complexity import measure
from redqueen.sandbox import wire
from redqueen.sandbox.literals import NotLiteral, canonical, parse_arguments

Header = dict[str, Any]
MAX_STEPS = 10_000  # counting stops here: a trace costs about 0.3 us a line
_BUILTINS: dict[str, Any] = {}
_type_name = type.__dict__["__name__"].__get__  # type(e).__name__ could be a property of the program's metaclass


def run(header: Header, body: memoryview, result_fd: int) -> None:
    """Run a request of mode `call` or `script` and write its results. Ends the process."""
    write = _writer(result_fd)
    program, _, inputs = _texts(header, body)
    try:
        code = compile_program(header, program, write)
        if code is not None:
            if header["mode"] == "script":
                write(_script(header, code))
            else:
                calls(header, code, inputs, write)
    except BaseException as error:
        write(_failure(error))
    write(b".")
    os._exit(0)


def _texts(header: Header, body: memoryview) -> tuple[str, str, list[str]]:
    texts, at = [], 0
    for size in header["sizes"]:
        texts.append(str(body[at : at + size], "utf-8"))
        at += size
    return texts[0], texts[1], texts[2:]


def _writer(fd: int, os_write: Callable[[int, bytes], int] = os.write) -> Callable[[bytes], None]:
    def write(line: bytes) -> None:
        data = line + b"\n"
        while data:
            data = data[os_write(fd, data) :]

    return write


def compile_program(header: Header, program: str, write: Callable[[bytes], None]) -> types.CodeType | None:
    """The program's code; None where it was inspected and turned away."""
    if header["allowed_modules"] is None:
        return compile(program, "<program>", "exec", dont_inherit=True)
    tree = ast.parse(program)
    reason = check(tree, header["allowed_modules"], header["entry"])
    if reason is not None:
        write(b"R" + reason.encode("ascii", "backslashreplace"))
        return None
    write(b"I" + wire.write_inspection(canonical_program(tree, header["entry"]), measure(tree, program)).encode())
    return compile(tree, "<program>", "exec", dont_inherit=True)


def calls(header: Header, code: types.CodeType, inputs: list[str], write: Callable[[bytes], None]) -> None:
    steps = [0]
    for text in inputs:
        _restore_builtins()
        try:
            arguments = () if header["input_as"] == "expression" else parse_arguments(text, header["output"])
            namespace = fresh_namespace(code)
            function = namespace[header["entry"]] if header["entry"] in namespace else _missing(header["entry"])
            keywords: dict[str, Any] = {}
            if header["input_as"] == "expression":
                arguments, keywords = eval(f"(lambda *a, **k: (a, k))({text}\n)", namespace)
            value = _traced(function, arguments, keywords, steps) if header["count_steps"] else function(*arguments, **keywords)
            _restore_builtins()
            line = b"V" + canonical(value, header["output"]).encode()
        except BaseException as error:
            _restore_builtins()
            line = _failure(error)
        write(line)
    if header["count_steps"]:
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
            if steps[0] >= MAX_STEPS:
                sys.settrace(None)
                return None
        return on_line

    def on_call(frame: types.FrameType, event: str, argument: Any) -> Any:
        return on_line if frame.f_code.co_filename == "<program>" else None

    sys.settrace(on_call if steps[0] < MAX_STEPS else None)
    try:
        return function(*arguments, **keywords)
    finally:
        sys.settrace(None)


def _script(header: Header, code: types.CodeType) -> bytes:
    """Run the program as a script; its standard output (a file in memory on descriptor 1) is the value."""
    try:
        fresh_namespace(code, "__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0, False):
            raise
    finally:
        _restore_builtins()
        for stream in (sys.stdout, sys.__stdout__):
            if type(stream) is type(sys.__stdin__) and not stream.closed:
                stream.flush()
    os.lseek(1, 0, os.SEEK_SET)
    output = b"".join(iter(lambda: os.read(1, 1 << 20), b""))
    return b"V" + canonical(output.decode("utf-8", "replace"), header["output"]).encode()


def _failure(error: BaseException) -> bytes:
    if isinstance(error, NotLiteral):
        return b"U" + str(error).encode()
    if isinstance(error, MemoryError):
        return b"M"
    return b"E" + _type_name(type(error))[:100].encode("ascii", "backslashreplace")


def snapshot_builtins() -> None:
    _BUILTINS.update(vars(builtins))


def _restore_builtins() -> None:
    """Each input sees clean builtins, and so does the code that writes the result."""
    builtins.__dict__.clear()
    builtins.__dict__.update(_BUILTINS)


# ----------------------------------------------------------------------------------------------------- mode `tests`: two processes


def serve(header: Header, body: memoryview, calls_fd: int, answers_fd: int) -> None:
    """The program's side of mode `tests`: answer calls, one line each way, until the pipe closes. Ends the process."""
    # The tests hold the expected answers: they are wiped from this copy of the request before anything of the program is touched.
    program_size, tests_size = header["sizes"][:2]
    body[program_size : program_size + tests_size] = bytes(tests_size)
    write = _writer(answers_fd)
    namespace: dict[str, Any] | None = None
    for text in _lines(calls_fd):
        try:
            if namespace is None:
                namespace = fresh_namespace(compile(str(body[:program_size], "utf-8"), "<program>", "exec", dont_inherit=True))
            function = namespace[header["entry"]] if header["entry"] in namespace else _missing(header["entry"])
            value = function(*parse_arguments(text, header["output"]))
            _restore_builtins()
            line = b"V" + canonical(value, header["output"]).encode()
        except BaseException as error:
            _restore_builtins()
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
    """The program's process ended before it answered; not an Exception, so that no test can take it for the program's error."""


def run_tests(header: Header, body: memoryview, result_fd: int, calls_fd: int, answers_fd: int) -> None:
    """The tests' side of mode `tests`: trusted code that sees the program as `candidate`. Ends the process."""
    write, ask = _writer(result_fd), _writer(calls_fd)
    answers = _lines(answers_fd)

    def candidate(*arguments: Any) -> Any:
        ask(", ".join([canonical(argument, header["output"]) for argument in arguments]).encode())
        answer = next(answers, None)
        if answer is None:
            raise Gone
        return _answer(answer, header["output"])

    _, tests, _ = _texts(header, body)
    try:
        exec(compile(tests, "<tests>", "exec", dont_inherit=True), {"__name__": "tests", "candidate": candidate})
        write(b"VTrue")
    except BaseException as error:
        write(_failure(error))
    write(b".")
    os._exit(0)


def _answer(line: str, max_text: int) -> Any:
    """The value that the program's side sent, or the exception it met, by name."""
    letter, text = line[:1], line[1:]
    if letter == "V":
        return parse_arguments(text, 4 * max_text)[0]
    if letter == "M":
        raise MemoryError
    if letter == "U":
        raise NotLiteral("the program's result is not a literal")
    known = _BUILTINS.get(text)
    raise known() if isinstance(known, type) and issubclass(known, Exception) else RuntimeError(text)
