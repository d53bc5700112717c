"""What runs in the sandbox to learn how a program comes to its answer: its own text with a note
after everything that sets a variable.

Its text is the program of a job; the traced program is an argument of it. The standard library
only. A note is a line number, a name and a value: of the function `f` and of what is nested in it,
in the order of execution; arguments come first, with the line 0. Loops note their variables, and a
call of a method such as `x.append(1)` notes `x`, as an item that is set does.

A note can also change history: the variable of one note gets another value, and the program goes on
from there. What it then returns is what the reasoning leads to if that one line is wrong.
"""

import ast
from typing import Any

MAX_NOTES, MAX_CHARS, MAX_TOTAL = 400, 300, 30_000
"""More notes are not made. A value that is longer is an empty text: not known."""
_NOTE = "__note__"
_CHANGES = frozenset(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort "
    "update".split()
)


def f(
    program: str, arguments: tuple[Any, ...], changed: int = -1, other: object = None
) -> tuple[str, list[tuple[int, str, str]], bool]:
    """What the program returns, the notes, and whether they are all. The variable of the note
    `changed` gets the value `other`."""
    notes: list[tuple[int, str, str]] = []
    room = MAX_TOTAL

    def note(line: int, name: str, value: object) -> object:
        nonlocal room
        value = other if len(notes) == changed else value
        if room > 0:
            text = repr(value)
            text = text if len(text) <= MAX_CHARS else ""
            notes.append((line, name, text))
            room = 0 if len(notes) >= MAX_NOTES else room - len(name) - len(text)
        return value

    tree = ast.parse(program)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        if function.name == "f":
            given = [
                _note(0, ast.Name(argument.arg))
                for argument in [*function.args.posonlyargs, *function.args.args]
            ]
            function.body = [*given, *_noted(function.body)]
    ast.fix_missing_locations(tree)
    space: dict[str, Any] = {_NOTE: note}
    exec(compile(tree, "program", "exec"), space)
    return repr(space["f"](*arguments)), notes, room > 0


def _noted(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements, each followed by notes of what it sets."""
    statements: list[ast.stmt] = []
    for statement in body:
        statements.append(statement)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list) and not isinstance(statement, ast.ClassDef):
                setattr(statement, name, _noted(inner))
        for handler in getattr(statement, "handlers", []):
            handler.body = _noted(handler.body)
        for case in getattr(statement, "cases", []):
            case.body = _noted(case.body)
        if isinstance(statement, ast.For):
            turn = [_note(statement.lineno, name) for name in _names(statement.target)]
            statement.body = [*turn, *statement.body]
        else:
            statements += [
                _note(statement.lineno, name, _binds(statement)) for name in _set_by(statement)
            ]
    return statements


def _set_by(statement: ast.stmt) -> list[ast.Name]:
    if isinstance(statement, ast.Assign):
        return [name for target in statement.targets for name in _names(target)]
    if isinstance(statement, ast.AugAssign) or (
        isinstance(statement, ast.AnnAssign) and statement.value is not None
    ):
        return _names(statement.target)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and called.attr in _CHANGES:
            return _names(called.value)
    return []


def _binds(statement: ast.stmt) -> bool:
    """Whether it binds plain names only."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return all(isinstance(target, ast.Name | ast.Tuple) for target in targets) and not any(
        isinstance(part, ast.Subscript | ast.Attribute)
        for target in targets
        for part in getattr(target, "elts", [])
    )


def _names(target: ast.expr) -> list[ast.Name]:
    """The variables that a target sets; `x[i] = 1` sets x."""
    if isinstance(target, ast.Name):
        return [target]
    if isinstance(target, ast.Tuple | ast.List):
        return [name for part in target.elts for name in _names(part)]
    if isinstance(target, ast.Starred | ast.Subscript):
        return _names(target.value)
    return []


def _note(line: int, name: ast.Name, binds: bool = True) -> ast.stmt:
    """Bound again where the statement itself binds the name: elsewhere that would make a variable
    of an outer function a local one."""
    arguments = [ast.Constant(line), ast.Constant(name.id), ast.Name(name.id, ast.Load())]
    call = ast.Call(ast.Name(_NOTE, ast.Load()), arguments, [])
    return ast.Assign([ast.Name(name.id, ast.Store())], call) if binds else ast.Expr(call)
