"""Mode `tests`, behind the walls: the program in one child, the tests in another, and between them
lines of literals."""

import os
from builtins import BaseException, Exception, isinstance, issubclass, type
from collections.abc import Callable, Iterator
from typing import Any

from redqueen.sandbox import wire
from redqueen.sandbox.child import (
    BUILTINS,
    END,
    Call,
    Gone,
    Unsupported,
    Write,
    compile_text,
    describe,
    encode_name,
    find_entry,
    load,
    make_writer,
)
from redqueen.sandbox.literals import NotLiteral, ordered, parse_arguments, parse_literal

_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__


def answer_calls(
    order: wire.Order, program: str, max_text: int, calls_fd: int, write: Write
) -> Iterator[Call]:
    """The program's side of mode `tests`: answer calls, one line each way, until the pipe
    closes."""
    namespace: dict[str, Any] | None = None
    for text in _read_lines(calls_fd):
        try:
            if namespace is None:
                loaded, call = load(compile_text(program))
                yield call
                call.result()
                namespace = loaded
            function = find_entry(namespace, order.entry)
            call = Call(function, parse_arguments(text, wire.MAX_BODY))
            yield call
            line = b"V" + ordered(call.result(), max_text).encode()
        except Exception as error:
            line = describe(error)
            if line[:1] == b"E":  # the nearest builtin exception, which the tests can raise
                line = b"E" + next(
                    encode_name(kind)
                    for kind in _bases(type(error))
                    if BUILTINS.get(encode_name(kind).decode()) is kind
                )
        except BaseException as error:
            line = describe(error)
        write(line)
    os._exit(0)


def _read_lines(fd: int) -> Iterator[str]:
    pending = b""
    while chunk := os.read(fd, 1 << 16):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line.decode()


def run_tests(tests: str, max_text: int, write: Write, calls_fd: int, answers_fd: int) -> None:
    """The tests' side of mode `tests`: trusted code that sees the program as `candidate`. Exits the
    process."""
    ask, answers = make_writer(calls_fd), _read_lines(answers_fd)

    def candidate(*arguments: Any, **keywords: Any) -> Any:
        try:
            if keywords:
                raise NotLiteral("keyword arguments do not cross over")
            ask(", ".join([ordered(argument, max_text) for argument in arguments]).encode())
        except NotLiteral as error:
            raise Unsupported(str(error)) from error
        except BrokenPipeError as error:
            raise Gone from error
        answer = next(answers, None)
        if answer is None:
            raise Gone
        return _read_answer(answer, max_text)

    try:
        exec(
            compile(tests, "<tests>", "exec", dont_inherit=True),
            {"__name__": "tests", "candidate": candidate},
        )
        write(b"VTrue" + END)
    except BaseException as error:
        write(describe(error) + END)
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
    known = BUILTINS.get(text)
    if isinstance(known, type) and issubclass(known, Exception):
        raise known.__new__(known)  # without its arguments, which were not sent
    raise RuntimeError(text)
