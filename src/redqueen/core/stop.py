"""When a world plays no further although steps are left."""

import math

from redqueen.core.state import StepState
from redqueen.errors import plural


def why_stop(state: StepState) -> str:
    """Why a world can learn nothing more; empty when it can."""
    world, stop, where = state.world, state.world.config.stop, f"stopped after step {state.step}"
    if state.diverged:
        return (
            f"{where}: {', '.join(state.diverged)} diverged: NaN in the gradient or in sampled "
            "log-probabilities. The rest of that update was discarded. Lower update.learning_rate "
            "in a new run; if it is the first step, the base's dtype may be too narrow "
            "(dtype=float32)."
        )
    if world.has_enough_tokens:
        return f"{where}: {world.trained_tokens:,} tokens trained (stop.tokens={stop.tokens:,})."
    if world.steps_without_problem >= stop.steps_without_problem:
        return (
            f"{where}: no proposal was a valid problem in "
            f"{plural(world.steps_without_problem, 'step')}. The base may not understand the "
            "prompts (look at `verify/rejected/...`), or the teachers have unlearned it (lower "
            "update.learning_rate)."
        )
    if world.steps_without_update >= stop.steps_without_update:
        return (
            f"{where}: in {plural(world.steps_without_update, 'step')} no member had anything to "
            "learn, because all rewards of every prompt were equal. More solve.attempts or "
            "propose.samples, or other problems, would make a difference."
        )
    for name, steps in world.steps_adrift.items():
        if steps >= stop.drift_steps:
            return (
                f"{where}: `drift/{name}` was above {stop.drift[name]:g} for {steps} steps "
                "(stop.drift): problems have changed their looks. The report shows examples."
            )
    for role in ("teacher", "student", "both"):
        # all begin as the base: who has not been trained yet does not count
        least = state.metrics.get(f"population/least_distance/{role}", math.inf)
        trained = all(member.version for member in world.members if member.role == role)
        if least < stop.least_distance and trained:
            return (
                f"{where}: two members of the role {role} have become one (distance {least:.3g}, "
                f"stop.least_distance={stop.least_distance})."
            )
    return ""
