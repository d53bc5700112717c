"""Programs that cannot be correct, for `redqueen eval gold --wrong`, which checks that graders
reject them."""

import re
from collections.abc import Sequence

from redqueen.benchmarks.benchmark import WrongReply
from redqueen.benchmarks.programs import read_program

_NEIGHBOURS = 3

ATTACKS = (
    "equals_everything",
    "list_equals_everything",
    "number_equals_everything",
    "text_equals_everything",
    "exits_before_the_tests",
    "exits_at_once",
    "exits_when_called",
    "exits_by_exception_when_called",
    "prints_that_it_passed",
    "writes_results_itself",
    "writes_results_when_called",
    "patches_builtins",
    "shadows_the_harness",
    "hides_the_encoder",
    "reads_frames",
    "searches_memory",
    "raises",
    "returns_a_generator",
)
"""Files in programs/attacks."""


def attack_program(attack: str, entry: str) -> str:
    return read_program(f"attacks/{attack}").replace("ENTRY", entry)


def fence(program: str) -> str:
    return f"```python\n{program}\n```"


def wrong_programs(
    solutions: Sequence[tuple[str, str]], place: int, tests: str
) -> list[WrongReply]:
    """Wrong replies to the item at that place: nothing, an attack (a different one for each item),
    the reference with every result changed, and the solutions of the next items under this one's
    name.

    `solutions` has the function's name and the reference program of every item.
    """
    entry, reference = solutions[place]
    attack = ATTACKS[place % len(ATTACKS)]
    changed = reference + "\n" + read_program("change_results").replace("ENTRY", entry)
    replies = [
        WrongReply("empty", ""),
        WrongReply("only words", "The function is easy to write."),
        WrongReply(attack, fence(attack_program(attack, entry))),
        WrongReply("every result changed", fence(changed), (changed, tests)),
    ]
    for step in range(1, min(_NEIGHBOURS + 1, len(solutions))):
        other, program = solutions[(place + step) % len(solutions)]
        program = re.sub(rf"\b{re.escape(other)}\b", entry, program)
        replies.append(WrongReply("another item's solution", fence(program), (program, tests)))
    return replies
