"""One step of the method, from match to record. What a stage does is in the stage's own module.

Worlds in one call share engine calls, so they agree on what such a call is told, such as a
temperature. Nothing that comes of a step depends on how long anything took.
"""

from collections.abc import Sequence

from redqueen.core.pipeline import Ports
from redqueen.core.state import StepState
from redqueen.stages.evolve import evolve
from redqueen.stages.match import match
from redqueen.stages.propose import propose
from redqueen.stages.rate import rate
from redqueen.stages.record import record
from redqueen.stages.reward import reward
from redqueen.stages.solve import answer, solve
from redqueen.stages.update import update
from redqueen.stages.verify import start_verification, verify


def play_step(states: Sequence[StepState], ports: Ports) -> None:
    with ports.timed("match"):
        match(states)
    verification = start_verification(states, ports)  # runs while others are still being sampled
    with ports.timed("propose"):
        propose(states, ports, verification)
    with ports.timed("verify"):
        verify(states, ports, verification)
    with ports.timed("solve"):
        solve(states, ports)
    with ports.timed("reward"):
        reward(states)
    with ports.timed("rate"):
        rate(states)
    with ports.timed("update"):
        update(states, ports)
    with ports.timed("evolve"):
        evolve(states, ports, answer)  # students sit an exam before anybody is replaced
    with ports.timed("record"):
        record(states, ports)
