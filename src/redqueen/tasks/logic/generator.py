"""Random puzzles with one solution, by tier: for students without teachers, and for suites.

A solution is drawn first. Constraints that it satisfies are added until it is the only one left,
and those that are not needed are dropped.
"""

from collections.abc import Sequence
from random import Random

from redqueen.tasks.logic.language import Expression, Puzzle, Value, read_puzzle
from redqueen.tasks.logic.solver import OverBudget, compile_test, solve

_WORDS = "red green blue white black yellow pink brown gray orange".split()
_TRIES, _BUDGET = 400, 100_000


def random_puzzles(
    rng: Random, count: int, tiers: range, kinds: Sequence[str]
) -> list[tuple[str, Puzzle]]:
    """Random logic puzzles, each of a random tier, which says how many variables and values there
    are."""
    if kinds and "logic" not in kinds:
        return []
    return [("logic", random_puzzle(rng, rng.choice(tiers))) for _ in range(count)]


def random_puzzle(rng: Random, tier: int) -> Puzzle:
    while True:
        puzzle = _try_puzzle(rng, tier)
        if puzzle is not None:
            return puzzle


def _try_puzzle(rng: Random, tier: int) -> Puzzle | None:
    names = [chr(ord("a") + place) for place in range(2 + (tier + 1) // 2)]
    values: tuple[Value, ...] = tuple(range(1, 4 + tier // 2))
    if rng.random() < 0.2:
        values = tuple(_WORDS[: len(values)])
    domains = dict.fromkeys(names, values)
    solution = [rng.choice(values) for _ in names]
    if len(values) >= len(names) and rng.random() < 0.5:
        solution = rng.sample(values, len(names))
    places = {name: place for place, name in enumerate(names)}
    constraints: list[Expression] = []
    if len(set(solution)) == len(names) > 2:
        constraints.append(("all_different", *names))
    other = [value if rng.random() < 0.5 else values[-1] for value in solution]
    for _ in range(_TRIES):
        constraint = _random_constraint(rng, names, values)
        test = compile_test(constraint, places)
        if not test(solution) or (other != solution and test(other)):
            continue  # only what rules out a second solution is added
        constraints.append(constraint)
        others = _solutions(domains, constraints)
        if others is None:
            return None
        if len(others) == 1:
            return _reduce(rng, domains, constraints)
        other = next(one for one in others if one != solution)
    return None


def _random_constraint(rng: Random, names: Sequence[str], values: tuple[Value, ...]) -> Expression:
    x, y = rng.sample(names, 2)
    z, value = rng.choice(names), rng.choice(values)
    first, other = (rng.choice(("=", "!=")), x, y), (rng.choice(("=", "!=")), z, value)
    if isinstance(value, str):
        each = [("=", name, value) for name in names]
        return rng.choice(
            [
                first,
                other,
                ("=>", first, other),
                ("or", first, other),
                ("=", ("count", *each), rng.randint(1, 2)),
            ]
        )
    return rng.choice(
        [
            (rng.choice(("<", "<=", ">")), x, y),
            ("!=", z, value),
            (rng.choice(("=", "<", ">")), ("+", x, y), rng.randint(3, 2 * len(values))),
            (rng.choice(("=", "!=")), ("abs", ("-", x, y)), rng.randint(1, len(values) - 1)),
            ("=", ("+", x, y), ("+", z, rng.randint(0, 3))),
            ("=", ("%", ("+", x, z), 3), rng.randint(0, 2)),
            ("=>", (rng.choice(("<", ">")), x, y), other),
            ("=", ("count", *((">", name, value) for name in names)), rng.randint(1, len(names))),
            ("<", ("*", x, y), ("+", z, rng.randint(2, 9))),
        ]
    )


def _reduce(
    rng: Random, domains: dict[str, tuple[Value, ...]], constraints: list[Expression]
) -> Puzzle:
    """Without the constraints that the others imply."""
    for constraint in rng.sample(constraints, len(constraints)):
        fewer = [one for one in constraints if one is not constraint]
        if fewer and _is_unique(domains, fewer):
            constraints = fewer
    return read_puzzle({"variables": domains, "constraints": constraints})


def _is_unique(domains: dict[str, tuple[Value, ...]], constraints: list[Expression]) -> bool:
    return len(_solutions(domains, constraints) or ()) == 1


def _solutions(
    domains: dict[str, tuple[Value, ...]], constraints: list[Expression]
) -> list[list[Value]] | None:
    """One, or two of many; None where that is too much work."""
    try:
        found = solve(Puzzle(domains, tuple(constraints)), _BUDGET)
    except OverBudget:
        return None
    return [list(one.values()) for one in found.solutions]
