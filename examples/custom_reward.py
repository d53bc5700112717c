"""A reward of your own: teachers are paid for problems that split their student's attempts in half.

    python examples/custom_reward.py

A setting names it by import path, with whatever settings it takes. Here the module is this file.
"""

import tempfile

import redqueen as rq
from redqueen.config.registry import Choice
from redqueen.core.state import Judged
from redqueen.records import Rejection


class NearHalf(Choice):
    """Settings of the reward: checked, documented and stored like any other."""

    invalid: float = -1.0
    """A proposal that is not a problem."""


def near_half(judged: Judged, settings: NearHalf) -> float:
    """1 where half of the attempts are correct, 0 where none or all are, linear in between."""
    if isinstance(judged.verdict, Rejection):
        return settings.invalid
    return 1 - abs(2 * judged.solve_rate - 1)


near_half.settings = NearHalf  # type: ignore[attr-defined]


def main() -> None:
    config = rq.load_config(
        "pawn-cpu",
        steps=2,
        population={"teachers": 1, "students": 1},
        reward={"teacher": {"type": "custom_reward:near_half", "invalid": -0.5}},
    )
    with tempfile.TemporaryDirectory() as folder, rq.Run.create(config, f"{folder}/run") as run:
        for step in run:
            reward, solved = step.metrics["reward/teacher"], step.metrics["solve/pass_rate"]
            print(f"step {step.number}: {solved:.0%} solved, teachers earn {reward:+.2f}")


if __name__ == "__main__":
    main()
