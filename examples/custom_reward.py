"""A reward of your own: teachers are paid for problems that split their student's attempts in half.

    python examples/custom_reward.py

A setting names it by import path, with whatever settings it takes. Here the module is this file.
"""

import tempfile

import redqueen as rq
from redqueen.config.registry import Choice
from redqueen.records import Problem, Rejection


class Learnability(Choice):
    """Settings of the reward: checked, documented and stored like any other."""

    invalid: float = -1.0
    """A proposal that is not a problem."""


def learnability(
    verdict: Problem | Rejection, solve_rate: float, novel: bool, settings: Learnability
) -> float:
    """4 s (1 - s): 1 where half of the attempts are correct, 0 where none or all are."""
    if isinstance(verdict, Rejection):
        return settings.invalid
    return 4 * solve_rate * (1 - solve_rate)


learnability.settings = Learnability  # type: ignore[attr-defined]


def main() -> None:
    config = rq.load_config(
        "pawn-cpu",
        steps=2,
        population={"teachers": 2, "students": 2},
        reward={"teacher": {"type": "custom_reward:learnability", "invalid": -0.5}},
    )
    with tempfile.TemporaryDirectory() as folder, rq.Run.create(config, f"{folder}/run") as run:
        for step in run:
            reward, solved = step.metrics["reward/teacher"], step.metrics["solve/pass_rate"]
            print(f"step {step.number}: {solved:.0%} solved, teachers earn {reward:+.2f}")


if __name__ == "__main__":
    main()
