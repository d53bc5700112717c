"""When a world plays no further although steps are left."""

import math

from redqueen.config.schema import Config
from redqueen.core.state import StepState
from redqueen.errors import ConfigError, plural, unknown
from redqueen.tasks.surface import WATCHED


def check_drift(config: Config) -> None:
    """Raise where `stop.drift` watches a metric that there will never be. Kinds of one's own may
    have others."""
    if any(":" in kind for kind in config.tasks.kinds):
        return
    for name in config.stop.drift:
        what, _, where = name.partition("/")
        if what not in WATCHED:
            raise ConfigError(f"stop.drift: {unknown('metric', what, WATCHED)}")
        role = what == "foreign"
        places = ("student", "teacher") if role else config.tasks.kinds
        if where and where not in places:
            what_is = "role" if role else "task kind of this run"
            raise ConfigError(f"stop.drift: {name}: {unknown(what_is, where, places)}")


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
