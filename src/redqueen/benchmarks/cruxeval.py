"""CRUXEval: say what a function returns for an input (-o), or find an input for which it returns
this (-i).

An answer is a value, not a program: it is read, in the sandbox, by a reader that knows constants,
containers, arithmetic, methods of these and small functions of their own arguments (some inputs are
functions). So an answer that calls `f`, or changes it, is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from redqueen.benchmarks.data import Source
from redqueen.benchmarks.evalplus import failure
from redqueen.benchmarks.suite import RIGHT, SYSTEM, Item, Judges, Style, Verdict, Wrong
from redqueen.benchmarks.value_codec import ENTRY, arrived, with_entry
from redqueen.evaluate.replies import after_thought, cut_at, fenced, tagged, unquoted
from redqueen.sandbox import Job, Limits, Outcome, Sandbox
from redqueen.sandbox.literals import NotLiteral, canonical, ordered, parse_literal
from redqueen.tasks.prompts import Prompt

LIMITS = Limits(cpu_s=5, memory_mb=512)

_READER = """
import ast

KNOWN = {"set": set, "frozenset": frozenset, "dict": dict, "list": list, "tuple": tuple, "range": range, "str": str, "int": int,
         "float": float, "bool": bool, "complex": complex, "bytes": bytes}
NODES = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Starred, ast.Load, ast.operator, ast.unaryop,
         ast.keyword, ast.Subscript, ast.Slice, ast.Lambda, ast.arguments, ast.arg, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop,
         ast.IfExp)

def constants(code):
    found = {}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                pass
    return found

def allowed(node, names):
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("_") and "format" not in node.attr
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) or isinstance(node.func, ast.Name)
    return isinstance(node, NODES)

def checked(node, code):
    own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    names = {**constants(code), **KNOWN}
    if not all(allowed(part, own | set(names)) for part in ast.walk(node)):
        raise ValueError("not a value")
    return names

def value_of(node, code):
    names = checked(node, code)
    return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<answer>", "eval"), {"__builtins__": names})

def is_call(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "f"

def parsed(text):
    text = text.strip()
    if text.startswith("assert "):
        text = text[7:].lstrip()
    return ast.parse("(" + text + chr(10) + ")", mode="eval").body

def output(text, code):
    tree = parsed(text)
    if isinstance(tree, ast.Compare) and is_call(tree.left) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Eq):
        tree = tree.comparators[0]
    return repr(value_of(tree, code))

def arguments(text, code):
    try:
        tree = parsed(text)
        if isinstance(tree, ast.Compare) and is_call(tree.left):
            tree = tree.left
    except SyntaxError:
        tree = None
    if tree is None or not is_call(tree):
        tree = ast.parse("f(" + text + chr(10) + ")", mode="eval").body
    if not is_call(tree):
        raise ValueError("no arguments")
    for part in [*tree.args, *(word.value for word in tree.keywords)]:
        checked(part, code)
    return ast.unparse(ast.fix_missing_locations(tree))[2:-1]
"""

_CHAT = {
    "o": (
        "```python\n{code}\n```\n\nWhat does `f({input})` return? Follow the code step by step. Then write the value, as a Python literal and "
        "nothing else, between <answer> and </answer>."
    ),
    "i": (
        "```python\n{code}\n```\n\nFind an input for which `f` returns `{output}`. There may be many; one is enough. Think step by step. Then "
        "write the arguments, as they would stand between the brackets of `f(...)` and nothing else, between <answer> and </answer>."
    ),
}


@dataclass(frozen=True, slots=True)
class _Shot:
    """A solved example, with what could be thought of it."""

    code: str
    input: str
    output: str
    forward: str
    backward: str


_SHOTS = (
    _Shot(
        "def f(text, n):\n    return text[:n] + text[n:].upper()",
        "'planet', 2",
        "'plANET'",
        "text[:2] is 'pl'. text[2:] is 'anet', in capitals 'ANET'. Together they are 'plANET'.",
        "The first n letters stay as they are and the others become capitals. Two letters of 'plANET' are small, so n is 2 and the text is 'planet'.",
    ),
    _Shot(
        "def f(values):\n    seen = []\n    for value in values:\n        if value not in seen:\n            seen.append(value)\n    return seen",
        "[3, 1, 3, 2, 1]",
        "[3, 1, 2]",
        "3 is new: seen is [3]. 1 is new: [3, 1]. 3 is there already. 2 is new: [3, 1, 2]. 1 is there already. So it is [3, 1, 2].",
        "Each value is kept where it comes up first. 3 comes before 1 and 1 before 2; what is repeated later changes nothing.",
    ),
)


class CruxEval:
    source = Source(
        "cruxeval.jsonl", ("id", "code", "input", "output"), hub="cruxeval-org/cruxeval"
    )
    max_tokens = 512
    note = ""

    def __init__(self, asks: Literal["i", "o"]) -> None:
        self.asks = asks
        self.name = f"cruxeval-{asks}"
        self.prompt_version = f"cruxeval-{asks}-3"

    def items(self, rows: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [Item(str(row["id"]), row) for row in rows]

    def prompt(self, item: Item, style: Style) -> Prompt:
        if style == "chat":
            return Prompt(
                _CHAT[self.asks].format(**item.fields),
                SYSTEM,
                before=tuple(self._turn(shot) for shot in _SHOTS),
            )
        row = item.fields
        shots = [self._shown(shot.code, shot.input, shot.output) for shot in _SHOTS]
        end = f"# f({row['input']}) ==" if self.asks == "o" else f"# {row['output']} == f("
        return Prompt("\n\n".join([*shots, row["code"] + "\n\n" + end]), None, ("\n",))

    def _turn(self, shot: _Shot) -> tuple[str, str]:
        thought, answer = (
            (shot.forward, shot.output) if self.asks == "o" else (shot.backward, shot.input)
        )
        return _CHAT[self.asks].format(
            code=shot.code, input=shot.input, output=shot.output
        ), f"{thought}\n\n<answer>{answer}</answer>"

    def _shown(self, code: str, given: str, out: str) -> str:
        return (
            f"{code}\n\n# f({given}) == {out}"
            if self.asks == "o"
            else f"{code}\n\n# {out} == f({given})"
        )

    def answer(self, reply: str, style: Style) -> str | None:
        """The text of the answer, to be read as a value."""
        if style == "base":
            line = cut_at(reply, ("\n",)).strip()
            return line if self.asks == "o" else line.removesuffix(")")
        said = tagged(reply, "answer")
        if not reply.strip():
            return None
        if said is None:  # without the tags that were asked for: a block, or the last line
            blocks, lines = fenced(after_thought(reply)), after_thought(reply).strip().split("\n")
            said = blocks[-1] if blocks else lines[-1].rpartition("nswer:")[2].strip().rstrip(".")
        return unquoted(said)

    def grade(
        self, items: Sequence[Item], replies: Sequence[str], style: Style, judges: Judges
    ) -> list[Verdict]:
        answers = [self.answer(reply, style) for reply in replies]
        read = _read(items, answers, "output" if self.asks == "o" else "arguments", judges.sandbox)
        if self.asks == "o":
            return [_equal(item, text) for item, text in zip(items, read, strict=True)]
        return _try_inputs(items, read, judges.sandbox)

    def ballot(self, item: Item, reply: str, style: Style) -> str | None:
        """The output as a literal in normal spelling, else as it was written. Of inputs many are
        right: a vote would split them."""
        if self.asks == "i":
            return None
        text = self.answer(reply, style) or ""
        try:
            return canonical(parse_literal(text))
        except NotLiteral:
            return "".join(text.split())

    def gold(self, item: Item) -> str | None:
        return f"Let me follow the code.\n\n<answer>{item.fields['output' if self.asks == 'o' else 'input']}</answer>"

    def wrong(self, items: Sequence[Item], place: int) -> list[Wrong]:
        row, other = items[place].fields, items[(place + 1) % len(items)].fields
        answers = {"a comparison": "0) == f(0) or (True", "a program": "__import__('sys').exit(0)"}
        if self.asks == "o":
            answers |= {
                "the call itself": f"f({row['input']})",
                "read from the frame": "eval('out')",
                "changed": _changed(row["output"]),
            }
            checked = {"another problem's output": other["output"]}
        else:
            lie = f"f.__setattr__('__code__', (lambda *a: {row['output']}).__code__)"
            answers |= {
                "changes the function": lie,
                "a class of its own": "type('Yes', (), {'__eq__': lambda a, b: True})()",
            }
            checked = {
                "another problem's input": other["input"],
                "no arguments that fit": "1, 2, 3, 4, 5, 6, 7, 8, 9",
            }
        found = [
            Wrong("empty", ""),
            *(Wrong(name, f"<answer>{text}</answer>") for name, text in answers.items()),
        ]
        for name, text in checked.items():
            call = (
                f"assert f({row['input']}) == {text}"
                if self.asks == "o"
                else f"assert f({text}) == {row['output']}"
            )
            found.append(Wrong(name, f"<answer>{text}</answer>", (row["code"], call)))
        return found


def _changed(output: str) -> str:
    """Another value than this one, which is a literal."""
    value: Any = parse_literal(output)
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, (int, float)):
        return repr(value + 1)
    if isinstance(value, (str, list, tuple)):
        extra: Any = "x" if isinstance(value, str) else type(value)([None])
        return repr(value + extra)
    if isinstance(value, dict):
        return ordered({**value, "another key": 0})
    return "'none of these'"


def _read(
    items: Sequence[Item], answers: Sequence[str | None], what: str, sandbox: Sandbox
) -> list[str | None]:
    """Each answer as the text of a literal; None where it is no value."""
    texts = [
        f"{ordered(answer)}, {ordered(item.fields['code'])}"
        if answer is not None and _is_text(answer)
        else "no answer"
        for item, answer in zip(items, answers, strict=True)
    ]
    jobs = [Job(_READER, (text,), entry=what, limits=LIMITS) for text in texts]
    return [_text(outcome) for outcome in sandbox.run(jobs)]


def _is_text(answer: str) -> bool:
    try:
        ordered(answer)
    except NotLiteral:
        return False
    return len(answer) < 50_000


def _text(outcome: Outcome) -> str | None:
    return str(parse_literal(outcome.values[0])) if outcome.kind == "value" else None


def _equal(item: Item, text: str | None) -> Verdict:
    if text is None:
        return Verdict(False, "no answer")
    try:
        given = parse_literal(text)
    except NotLiteral:
        return Verdict(False, "not a literal")
    return RIGHT if given == parse_literal(item.fields["output"]) else Verdict(False, "wrong")


def _try_inputs(
    items: Sequence[Item], read: Sequence[str | None], sandbox: Sandbox
) -> list[Verdict]:
    jobs = [
        Job(
            with_entry(item.fields["code"], "f"),
            (text or "",),
            entry=ENTRY,
            input_as="expression",
            limits=LIMITS,
        )
        for item, text in zip(items, read, strict=True)
    ]
    verdicts = []
    for item, text, outcome in zip(items, read, sandbox.run(jobs), strict=True):
        if text is None:
            verdicts.append(Verdict(False, "no answer"))
        elif outcome.kind != "value":
            verdicts.append(Verdict(False, failure(outcome)))
        else:
            right = arrived(outcome.values[0]) == parse_literal(item.fields["output"])
            verdicts.append(RIGHT if right else Verdict(False, "wrong"))
    return verdicts
