"""What people did since the last step, taken up before the next one is played: vetoes leave the
archive, ratings are kept, and posed problems wait for the propose stage."""

from collections.abc import Sequence

from redqueen.core.state import PersonResult, StepState
from redqueen.core.world import World
from redqueen.records import PersonAction
from redqueen.tasks import load_kind


def take_up(state: StepState, actions: Sequence[PersonAction]) -> None:
    """Those that concern the world of this state."""
    for number, action in enumerate(actions):
        if action.world == state.world.number:
            person = PersonResult(number, action)
            _TAKE_UP[action.action](state.world, person)
            state.people.append(person)


def leave_to_nobody(
    states: Sequence[StepState], actions: Sequence[PersonAction]
) -> list[PersonResult]:
    """The actions that concern none of the worlds that play."""
    playing = {state.world.number for state in states}
    return [
        PersonResult(number, action, "ignored", "there is no such world, or it plays no further")
        for number, action in enumerate(actions)
        if action.world not in playing
    ]


def _pose(world: World, person: PersonResult) -> None:
    kind = person.action.content["kind"]
    if kind not in world.config.tasks.kinds:
        person.outcome, person.detail = "rejected", f"the run does not play the kind {kind}"


def _veto(world: World, person: PersonResult) -> None:
    key, structure = (person.action.content[name] for name in ("problem", "structure"))
    world.vetoed.add(structure or key)
    leaving = [
        problem.key
        for problem in world.archive
        if (load_kind(problem.kind).structure(problem) if structure else problem.key)
        == (structure or key)
    ]
    for problem in leaving:
        world.archive.remove(problem)
    person.outcome, person.problem = "vetoed", key
    person.detail = f"{len(leaving)} left the archive"


def _rate(world: World, person: PersonResult) -> None:
    better, worse = (person.action.content[name] for name in ("better", "worse"))
    person.problem = better["problem"]
    if better["problem"] == worse["problem"]:
        person.outcome, person.detail = "ignored", "a problem was compared with itself"
        return
    world.comparisons.append(
        ((better["teacher"], better["structure"]), (worse["teacher"], worse["structure"]))
    )
    person.outcome = "counted"


def _answer(world: World, person: PersonResult) -> None:
    """It was graded when it was given; nothing is learned from it."""
    content = person.action.content
    person.outcome, person.detail = content["verdict"], content["detail"]
    person.problem = content["problem"]


_TAKE_UP = {"pose": _pose, "veto": _veto, "rate": _rate, "answer": _answer}
