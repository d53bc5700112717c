"""Careful reasoning: a trace in which some steps are worked out before their result.

    : (7 + 81) % 4
    : 88 % 4
    m = 0
    : 3 > 2
    : True

A step that is worked out shows its expression with values in place of variables, then reduces it,
innermost operations first; a condition ends with what it comes to. Each step is worked out or not
by a coin of its own, so that no beginning of an answer makes the rest of it careful: where care
pays is left to be learned.

Only programs of our own grammar are evaluated here; what a model writes never is.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from types import CodeType
from typing import Any

from redqueen.pawn.runs import write_bounded
from redqueen.pawn.tree import DeadEnd

MARK = ": "
"""Begins a line of working."""
_LONGEST = 100
"""Characters of such a line; a step with a longer one is not worked out."""
_MOST_STAGES = 6
_RAISED = (IndexError, ValueError, KeyError, ZeroDivisionError, TypeError, SyntaxError)

Variables = dict[str, Any]


class _Jump(Exception):
    """A break or a continue."""

    def __init__(self, again: bool) -> None:
        self.again = again


class _Returned(Exception):
    pass


def careful_trace(program: str, arguments: str, is_careful: Callable[[], bool]) -> list[str]:
    """The lines of a run, `name = value` for each variable that is set, as in `Program.traces`;
    before those for which `is_careful` says so, how the value comes about."""
    run = CarefulRun(is_careful)
    run.play(program, arguments)
    return run.lines


@lru_cache(64)
def _parse(program: str) -> tuple[list[ast.stmt], list[str]]:
    function = ast.parse(program).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.body, [argument.arg for argument in function.args.args]


class CarefulRun:
    """The run of a program, and what is written about it. Whoever makes mistakes overrides what a
    step comes to."""

    def __init__(self, is_careful: Callable[[], bool]) -> None:
        self.is_careful = is_careful
        self.variables: Variables = {}
        self.lines: list[str] = []

    def play(self, program: str, arguments: str) -> None:
        body, names = _parse(program)
        values = ast.literal_eval(f"({arguments},)")
        self.variables = dict(zip(names, values, strict=True))
        with suppress(_Returned):
            self.execute(body)

    def execute(self, body: list[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.If():
                    self.execute(statement.body if self.test(statement.test) else statement.orelse)
                case ast.For():
                    self.loop(statement)
                case ast.While():
                    while self.test(statement.test):
                        if self.stops(statement.body):
                            break
                case ast.Break() | ast.Continue():
                    raise _Jump(isinstance(statement, ast.Continue))
                case ast.Return():
                    assert statement.value is not None
                    self.answer(statement.value)
                    raise _Returned
                case _:
                    self.change(statement)

    def loop(self, loop: ast.For) -> None:
        targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        for value in self.turns(loop.iter):
            for name, own in zip(names, value if len(names) > 1 else (value,), strict=True):
                self.set(name, own)
            if self.stops(loop.body):
                break

    def stops(self, body: list[ast.stmt]) -> bool:
        """Executes a turn of a loop; whether it is the last."""
        try:
            self.execute(body)
        except _Jump as jump:
            return not jump.again
        return False

    def test(self, test: ast.expr) -> bool:
        value = self.holds(test)
        if self.work_out(test):
            self.lines.append(f"{MARK}{value}")
        return value

    def holds(self, test: ast.expr) -> bool:
        return bool(self.evaluate(test))

    def turns(self, over: ast.expr) -> Iterable[Any]:
        found: Iterable[Any] = self.evaluate(over)
        return found

    def answer(self, returned: ast.expr) -> None:
        self.work_out(returned)

    def change(self, statement: ast.stmt) -> None:
        name, expression = _target(statement)
        self.work_out(expression)
        exec(_compile_statement(statement), self.variables)
        self.note(name)

    def set(self, name: str, value: object) -> None:
        self.variables[name] = value
        self.note(name)

    def note(self, name: str) -> None:
        self.lines.append(f"{name} = {write_bounded(self.variables[name])}")

    def evaluate(self, expression: ast.expr) -> Any:
        # as globals, where a comprehension looks names up
        return eval(_compile_once(expression), self.variables)

    def work_out(self, expression: ast.expr) -> bool:
        """Write the working of an expression; False where there is none."""
        if isinstance(expression, ast.Name | ast.Constant) or not self.is_careful():
            return False
        try:
            stages = list(_reduce(_substitute(expression, self.variables)))
        except (*_RAISED, DeadEnd):  # such as an operation that the program itself skips
            return False
        if not stages or max(map(len, stages)) > _LONGEST:
            return False
        self.lines += [MARK + stage for stage in stages]
        return True


def _target(statement: ast.stmt) -> tuple[str, ast.expr]:
    """The variable that a statement sets or changes, and the expression that it computes."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value):
            return name, value
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return name, ast.BinOp(ast.Name(name, ast.Load()), op, value)
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name)) as place, value=value):
            return name, ast.BinOp(
                ast.Subscript(place.value, place.slice, ast.Load()), statement.op, value
            )
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name))) as call):
            return name, call
    raise DeadEnd  # the grammar has no other


def _compile(expression: ast.expr) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Expression(expression)), "<working>", "eval")


_compile_once = lru_cache(1024)(_compile)
"""For parts of programs, which are evaluated in every turn of a loop."""


@lru_cache(1024)
def _compile_statement(statement: ast.stmt) -> CodeType:
    return compile(ast.Module([statement], []), "<working>", "exec")


class _Substitution(ast.NodeTransformer):
    """Values in place of variables."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _literal(self.variables[node.id]) if node.id in self.variables else node


def _substitute(expression: ast.expr, variables: Variables) -> ast.expr:
    changed = _Substitution(variables).visit(_copy(expression))
    assert isinstance(changed, ast.expr)
    return changed


def _literal(value: object) -> ast.expr:
    return ast.parse(write_bounded(value), mode="eval").body


def _copy(node: Any) -> Any:
    """A deep copy, several times faster than `copy.deepcopy`."""
    if isinstance(node, ast.AST):
        return type(node)(**{name: _copy(value) for name, value in ast.iter_fields(node)})
    return [_copy(one) for one in node] if isinstance(node, list) else node


def _is_literal(node: ast.AST) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(map(_is_literal, parts))
        case ast.Dict(keys=keys, values=values):
            return all(key is not None and _is_literal(key) for key in keys) and all(
                map(_is_literal, values)
            )
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
        case ast.Slice():
            return all(map(_is_literal, ast.iter_child_nodes(node)))
    return False


def _reduce(expression: ast.expr) -> Iterator[str]:
    """The expression and what it becomes, one stage of operations after another; the last value
    is left out."""
    for _ in range(_MOST_STAGES):
        if _is_literal(expression):
            return
        yield ast.unparse(expression)
        expression = _Reduction().visit(expression)
    raise DeadEnd


class _Reduction(ast.NodeTransformer):
    """Evaluates the operations whose operands are all literals."""

    def visit(self, node: ast.AST) -> Any:
        if _is_literal(node) or not isinstance(node, ast.expr):
            return node
        if isinstance(node, ast.ListComp) and (unrolled := _unroll(node)) is not None:
            return unrolled
        if _is_ready(node):
            # methods that change a list return nothing: the result is what the step sets
            value = eval(_compile(node), {})
            return ast.Constant(None) if value is None else _literal(_plain(value))
        return self.generic_visit(node)


def _plain(value: object) -> object:
    """What only a loop or a conversion looks at, as a list."""
    return list(value) if isinstance(value, range | enumerate | type({}.values())) else value


def _is_ready(node: ast.expr) -> bool:
    match node:
        case ast.Name() | ast.List() | ast.Tuple() | ast.Dict() | ast.Set():
            return False
        case ast.Call(func=ast.Attribute(value=owner), args=given):
            return _is_literal(owner) and all(map(_is_literal, given))
        case ast.Call(args=given):
            return all(map(_is_literal, given))
        case ast.ListComp() | ast.DictComp() | ast.SetComp() | ast.GeneratorExp():
            return all(_is_literal(part.iter) for part in node.generators) and _is_closed(node)
    return all(
        _is_literal(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)
    )


def _is_closed(node: ast.expr) -> bool:
    """Whether only its own variables are left."""
    bound = {part.id for part in ast.walk(node) if _is_stored(part)}  # type: ignore[attr-defined]
    free = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return free - bound <= {"len", "str", "sum", "max", "min", "abs"}


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _unroll(node: ast.ListComp) -> ast.expr | None:
    """A comprehension that computes its elements, as a list of these computations."""
    (generator,) = node.generators
    match generator:
        case ast.comprehension(target=ast.Name(id=name), iter=ast.List(elts=parts) as over, ifs=[]):
            if not parts or not _is_literal(over) or isinstance(node.elt, ast.Name):
                return None
            values = [ast.literal_eval(part) for part in parts]
            return ast.List([_substitute(node.elt, {name: value}) for value in values], ast.Load())
    return None
