"""Random inputs for the arguments of a function."""

from redqueen.pawn.choices import Choices
from redqueen.pawn.grammar import COUNTS, INT, INTS, LETTERS, PAIR, STR, STRS, Tier


def sample_input(choices: Choices, kind: str, tier: Tier) -> object:
    """A value of this type, within the bounds of the tier."""
    between = choices.between
    if kind == INT:
        return between(0, tier.largest)
    if kind == STR:
        return _sample_letters(choices, 2, tier.longest)
    if kind == INTS:
        # as `between(0, tier.largest // 2)`, without a call for each
        random, count = choices.random, tier.largest // 2 + 1
        return [int(random() * count) for _ in range(between(2, tier.longest))]
    if kind == STRS:
        return [_sample_letters(choices, 1, 3) for _ in range(between(2, tier.longest - 1))]
    if kind == PAIR:
        return (between(0, tier.largest), between(0, tier.largest))
    assert kind == COUNTS
    keys = {choices.pick(LETTERS) for _ in range(between(1, 3))}
    return {key: between(0, 9) for key in sorted(keys)}  # sorted as in its canonical literal


def _sample_letters(choices: Choices, low: int, high: int) -> str:
    random, count = choices.random, len(LETTERS)  # as `pick`, without a call for each
    return "".join([LETTERS[int(random() * count)] for _ in range(choices.between(low, high))])
