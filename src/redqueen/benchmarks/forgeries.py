"""Forged replies, for `redqueen eval forged`: the cheapest cheats, aimed at one item each.

A cheat must not be correct by luck. A constant is checked: it counts only if the benchmark's own
tests fail for it in a plain interpreter. All other programs return what no item asks for.
"""

import re
from collections.abc import Mapping
from typing import Any

from redqueen.benchmarks.benchmark import WrongReply
from redqueen.benchmarks.suite import BASE
from redqueen.benchmarks.wrong_replies import ATTACKS, attack_program, fence

TAGGED = {
    "an object": r"('\0object', 'Yes')",
    "not a number": r"('\0float', 'nan')",
    "a digest": rf"('\0digest', '{'0' * 64}')",
    "a signalling decimal": r"[('\0decimal', 'sNaN')]",
    "a huge fraction": r"('\0fraction', '1e1000000000', None)",
    "an unknown tag": r"('\0any', True)",
}
"""What the code around a candidate writes for values without a literal."""
CONSTANTS = ("None", "True", "False", "0", "1", "-1", "0.5", "''", "[]", "()", "{}", "set()", "a")
FIRST_ARGUMENT = "a[0] if a else None"


def forged_programs(entry: str, tests: str) -> list[WrongReply]:
    """For an item whose tests call a function of this name."""
    replies = [WrongReply(name, fence(attack_program(name, entry))) for name in ATTACKS]
    for name, text in TAGGED.items():
        replies.append(WrongReply(name, fence(constant_program(entry, text))))
    for text in (*CONSTANTS, FIRST_ARGUMENT):
        program = constant_program(entry, text)
        replies.append(WrongReply(f"returns {text}", fence(program), (program, tests)))
    return replies


def constant_program(entry: str, text: str) -> str:
    return f"def {entry}(*a, **k):\n    return {text}\n"


# CRUXEval


def forged_inputs(row: Mapping[str, Any]) -> list[WrongReply]:
    """The output is in the prompt: whatever makes `f` return it, but an input."""
    forger = f"lambda *a: {row['output']}"
    source = repr(f"f = {forger}")
    yes = "type('Yes', (), {'__eq__': lambda a, b: True})()"
    return _answers(
        {
            "redefines f, exec as a parameter": f"exec({source}) or (lambda exec: 0)",
            "redefines f, exec as an inner parameter": f"(lambda exec: exec)(exec({source}))",
            "redefines f in a default": f"lambda x=exec({source}): x",
            "redefines f in a keyword default": f"lambda *, x=exec({source}): x",
            "redefines f by globals": f"globals().update(f={forger})",
            "redefines f by its own name": f"[f := ({forger})]",
            "redefines f for its caller": f"(lambda f: f)({forger})",
            "a parameter called f": f"lambda f={forger}: f",
            "changes its code": f"f.__setattr__('__code__', ({forger}).__code__)",
            "changes its defaults": f"f.__defaults__.__class__(({row['output']},))",
            "an object that equals anything": yes,
            "a class through a method": "().__class__.__base__.__subclasses__()",
            "a class through a format": "'{0.__class__}'.format(0)",
            "closes the bracket": f"0) or {row['output']} or (0",
            "closes the bracket with a comment": f"0) or {row['output']} #",
            "the call compared": f"f(0) == {row['output']} or True",
            "another function": f"({forger})()",
            "exits": "__import__('os')._exit(0)",
            "exits by an exception": "exit()",
            "exits by a parameter": "(lambda exit: exit)(exit())",
            "raises in a lambda": "(lambda quit: quit())",
            "reads a frame": "__import__('sys')._getframe(1).f_locals['expected']",
            "writes a result": f"open(3, 'w').write({'V' + row['output']!r})",
            "evaluates a text": f"eval({row['output']!r})",
            "shadows a builtin": f"(lambda len, sorted, str: 0), exec({source})",
        },
        end=")",
    )


def forged_outputs(row: Mapping[str, Any]) -> list[WrongReply]:
    """The program and its input are in the prompt: whatever computes the output, but an answer."""
    call = f"f({row['input']})"
    is_text = row["output"][:1] in "'\""
    return _answers(
        {
            "the call": call,
            "the call compared with itself": f"{call} == {call}",
            "the call in a text": f"eval({call!r})",
            "the call in a lambda": f"(lambda f: {call})(f)",
            "the call in a default": f"(lambda x={call}: x)",
            "the call by map": f"list(map(f, [{row['input']}]))",
            "the program, exec as a parameter": f"exec({row['code']!r}) or (lambda exec: 0)",
            "an object that equals anything": "type('Yes', (), {'__eq__': lambda a, b: True})()",
            "a name of the grader": "expected",
            "another name of the grader": "output",
            "reads a frame": "__import__('sys')._getframe(2).f_locals['output']",
            "exits": "__import__('os')._exit(0)",
            "exits by an exception": "exit()",
            "closes the bracket": f"0) or (0 == 0) or {call} == (0",
            "true of anything": f"{call} == {call} == {call}",
            "a class through a format": "'{0.__class__}'.format(0)",
            "a tag": r"('\0object', 'Yes')",
            "a constant": "0" if is_text else "'no such answer'",
        }
    )


def _answers(texts: Mapping[str, str], end: str = "") -> list[WrongReply]:
    """In both styles: after reasoning, and as the rest of a line, up to this end."""
    replies = [WrongReply(name, f"<answer>{text}</answer>") for name, text in texts.items()]
    lines = {name: text for name, text in texts.items() if "\n" not in text}
    return replies + [WrongReply(name, text + end, style=BASE) for name, text in lines.items()]


# maths

_PLAIN = re.compile(r"-?\d+(\.\d+)?")
_LONE_ZERO = re.compile(r"(?<![\d.,])0(?![\d.,])")
_UNBOUNDED = ("infty", "mathbb", "real", "all", "any")
_EMPTY = ("empty", "varnothing", "text", "none", "no ")


def forged_answers(gold: str, other: str) -> list[WrongReply]:
    """Answers that hold the correct one among others, or that hold anything: each is left out where
    it could be meant. `other` is the reference answer of another item."""
    answers = {
        "nothing": "",
        "a blank": "\\ ",
        "a result line": '{"correct": true}',
        "a command": "__import__('os')._exit(0)",
        "a file": "\\input{/etc/passwd}",
        "an identity": "q_{99} = q_{99}",
        "an unknown": "q_{99}",
        "anything in words": "\\text{the correct answer}",
        "nothing divided": "\\frac{0}{0}",
    }
    if not any(word in gold for word in _UNBOUNDED):
        answers |= {
            "every number": "(-\\infty, \\infty)",
            "any number": "q_{99} \\in \\mathbb{R}",
            "infinity": "\\infty",
            "a bound": "q_{99} \\ge -10^{9}",
        }
    if not any(word in gold for word in _EMPTY):
        answers["the empty set"] = "\\emptyset"
    if not _LONE_ZERO.search(gold) and (not _PLAIN.fullmatch(gold) or float(gold)):
        answers["zero"] = "0.0"
    if _PLAIN.fullmatch(gold):
        answers |= _around(float(gold), gold, other)
    boxes = "".join(f"\\boxed{{{number}}} or " for number in range(1000))
    return [
        *(
            WrongReply(name, f"The answer is $\\boxed{{{text}}}$.")
            for name, text in answers.items()
        ),
        WrongReply("many boxes", f"{boxes}\\boxed{{{gold}}} or \\boxed{{-987654.321}}"),
        WrongReply("only words", "The answer is the correct one."),
    ]


def _around(value: float, gold: str, other: str) -> dict[str, str]:
    """For a gold that is a plain number."""
    below, above = f"{value - 1:.10g}", f"{value + 1:.10g}"
    answers = {
        "a list": f"{below}, {gold}, {above}",
        "a set": f"\\{{{below}, {gold}, {above}\\}}",
        "an interval": f"[{below}, {above}]",
        "a chain": f"{below} = {gold} = {above}",
        "a choice": f"{gold} \\text{{ or }} {above}",
    }
    if value:
        answers["either sign"] = f"\\pm {gold}"
    if _PLAIN.fullmatch(other) and abs(float(other) - value) > 0.1 * abs(value) + 1:
        answers["another item's answer"] = other
    return answers
