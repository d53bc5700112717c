"""Reads an answer to CRUXEval as a value. Answers are expressions of constants, containers,
arithmetic, methods of these and lambdas of their own arguments; `f` itself is no answer."""

import ast

KNOWN = {
    kind.__name__: kind
    for kind in (
        set,
        frozenset,
        dict,
        list,
        tuple,
        range,
        str,
        int,
        float,
        bool,
        complex,
        bytes,
    )
}
NODES = (
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.UnaryOp,
    ast.BinOp,
    ast.Starred,
    ast.Load,
    ast.operator,
    ast.unaryop,
    ast.keyword,
    ast.Subscript,
    ast.Slice,
    ast.Lambda,
    ast.arguments,
    ast.arg,
    ast.Compare,
    ast.cmpop,
    ast.BoolOp,
    ast.boolop,
    ast.IfExp,
)


def read_output(text, code):
    """The repr of the value that an answer stands for: `3`, or `f(1) == 3`."""
    tree = parse_expression(text)
    if (
        isinstance(tree, ast.Compare)
        and is_call(tree.left)
        and len(tree.ops) == 1
        and isinstance(tree.ops[0], ast.Eq)
    ):
        tree = tree.comparators[0]
    names = check(tree, code)
    expression = ast.fix_missing_locations(ast.Expression(tree))
    return repr(eval(compile(expression, "<answer>", "eval"), {"__builtins__": names}))


def read_arguments(text, code):
    """The arguments of an answer as source: from `1, 2`, `f(1, 2)` or `f(1, 2) == 3`."""
    try:
        tree = parse_expression(text)
        if isinstance(tree, ast.Compare) and is_call(tree.left):
            tree = tree.left
    except SyntaxError:
        tree = None
    if tree is None or not is_call(tree):
        tree = ast.parse("f(" + text + "\n)", mode="eval").body
    if not is_call(tree):
        raise ValueError("no arguments")
    for part in [*tree.args, *(keyword.value for keyword in tree.keywords)]:
        check(part, code)
    return ast.unparse(ast.fix_missing_locations(tree))[2:-1]


def parse_expression(text):
    text = text.strip()
    if text.startswith("assert "):
        text = text[7:].lstrip()
    return ast.parse("(" + text + "\n)", mode="eval").body


def is_call(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f"


def check(node, code):
    """The names that the expression may use; raises ValueError where it does anything else."""
    own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    names = {**constants(code), **KNOWN}
    if not all(is_allowed(part, own | set(names)) for part in ast.walk(node)):
        raise ValueError("not a value")
    return names


def is_allowed(node, names):
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("_") and "format" not in node.attr
    if isinstance(node, ast.Call):
        return isinstance(node.func, (ast.Attribute, ast.Name))
    return isinstance(node, NODES)


def constants(code):
    """Literals that the program assigns to global names."""
    values = {}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                pass
    return values
