"""Which worlds of a run share engine calls."""

from collections.abc import Sequence

from redqueen.core.state import StepState

_OWN = {
    "attempts",
    "estimator",
    "learning_rate",
    "teacher_learning_rate",
    "warmup_steps",
    "target_pass_rate",
    "target_gain",
    "target_bounds",
}
"""Settings of the update that worlds in one engine call may differ in."""


def group_worlds(states: Sequence[StepState], mixed: bool) -> list[list[StepState]]:
    """Which worlds share engine calls: those that agree in what a call is told, or each alone."""
    if not mixed:
        return [[state] for state in states]
    groups: dict[str, list[StepState]] = {}
    for state in states:
        config = state.world.config
        told = (
            config.propose.temperature,
            config.solve.temperature,
            config.update.model_dump(exclude=_OWN),
        )
        groups.setdefault(repr(told), []).append(state)
    return list(groups.values())
