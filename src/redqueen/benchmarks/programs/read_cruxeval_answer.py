"""Reads an answer to CRUXEval as a value. Answers are expressions of constants, containers,
arithmetic, methods of these and lambdas of their own arguments; `f` itself is no answer. They are
evaluated apart from the program, without builtins but for the types below."""

import ast
import builtins

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
METHODS = {name for kind in KNOWN.values() for name in dir(kind) if name[0] != "_"} - {
    "format",  # reaches attributes by their names in a text
    "format_map",
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
    names = constants(code)
    check(tree, names.keys())
    return repr(evaluate(tree, names))


def call(text, code):
    """What the program's `f` returns for the arguments of an answer: `1, 2`, `f(1, 2)` or
    `f(1, 2) == 3`."""
    arguments, keywords = read_arguments(text, constants(code))
    namespace = {"__name__": "program"}
    exec(compile(code, "<program>", "exec", dont_inherit=True), namespace)
    return namespace["f"](*arguments, **keywords)


def read_arguments(text, names):
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
        check(part, names.keys())
    return evaluate(tree, {**names, "f": lambda *arguments, **keywords: (arguments, keywords)})


def evaluate(tree, names):
    expression = ast.fix_missing_locations(ast.Expression(tree))
    return eval(compile(expression, "<answer>", "eval"), {"__builtins__": {}, **KNOWN, **names})


def parse_expression(text):
    text = text.strip()
    if text.startswith("assert "):
        text = text[7:].lstrip()
    return ast.parse("(" + text + "\n)", mode="eval").body


def is_call(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f"


def check(node, names):
    """Raises ValueError where the expression is more than a value made of these names."""
    if isinstance(node, ast.Lambda):
        names = names | check_parameters(node.args, names)
        check(node.body, names)
        return
    if not is_allowed(node, names):
        raise ValueError("not a value")
    for part in ast.iter_child_nodes(node):
        check(part, names)


def check_parameters(arguments, names):
    """The parameters of a lambda, which only its body may use. They hide no other name."""
    for default in [*arguments.defaults, *arguments.kw_defaults]:
        if default is not None:
            check(default, names)
    own = {part.arg for part in ast.walk(arguments) if isinstance(part, ast.arg)}
    if own & ({"f"} | names | KNOWN.keys() | set(dir(builtins))):
        raise ValueError("a parameter hides a name")
    return own


def is_allowed(node, names):
    if isinstance(node, ast.Name):
        return node.id in names or node.id in KNOWN
    if isinstance(node, ast.Attribute):
        return node.attr in METHODS
    if isinstance(node, ast.Call):
        return isinstance(node.func, (ast.Attribute, ast.Name))
    return isinstance(node, NODES)


def constants(code):
    """Literals that the program assigns to global names. `f` is none of them."""
    values = {}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                pass
    values.pop("f", None)
    return values
