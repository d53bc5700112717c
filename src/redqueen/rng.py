"""Named random streams: each draw comes from a generator seeded by a path of names, so that a new
draw in one place shifts no other."""

import hashlib
import random


def seed_for(seed: int, *path: str | int) -> int:
    """A 64-bit seed from a run's seed and a path such as `("world 0", step, "match")`. Names and
    numbers are kept apart: 1 is not "1"."""
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def stream(seed: int, *path: str | int) -> random.Random:
    """A generator of its own for this path."""
    return random.Random(seed_for(seed, *path))
