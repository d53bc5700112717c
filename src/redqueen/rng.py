"""Named random streams. Each use of randomness has a generator of its own, seeded from the run's
seed and a path of names, so that one more sample in one place changes no other.

    rng = stream(config.seed, "world", 0, step, "match")

A generator is called `rng` everywhere. Changing a path, or how it is hashed, changes every recorded
run.
"""

import hashlib
import random


def seed_for(seed: int, *path: str | int) -> int:
    """A 64-bit seed from the run's seed and a path. Names and numbers differ: 1 is not "1"."""
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def stream(seed: int, *path: str | int) -> random.Random:
    """The generator of this path."""
    return random.Random(seed_for(seed, *path))
