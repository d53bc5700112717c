"""What teachers are asked: every pairing, kind and prompt has its own stream, and its references
come from the archive."""

from collections.abc import Sequence
from typing import Any

import pytest

from redqueen.config.toml import load_config
from redqueen.core.state import PairingState, ProposalResult, StepState
from redqueen.core.world import new_world
from redqueen.engine.text_sampler import TextRequest
from redqueen.errors import ConfigError
from redqueen.records import Pairing, Problem
from redqueen.stages.propose import request_proposals
from redqueen.tasks import TaskKind
from redqueen.tasks.code import KINDS
from redqueen.tasks.code.deduction import CodeO
from tests.problems import addition, scripted_ports

EVERY = [addition(number) for number in range(20)]


def ask(
    step: int = 1,
    seed: int = 0,
    archive: Sequence[Problem] = EVERY,
    pairings: int = 2,
    **kinds: Any,
) -> list[TextRequest]:
    sizes = ("population.teachers=2", "population.students=2")
    settings = ("propose.prompts=2", "propose.samples=3", f"seed={seed}")
    state = StepState(new_world(0, "run", load_config(None, [*sizes, *settings]), 0, archive), step)
    members = state.world.members
    state.pairings = [
        PairingState(number, Pairing(members[number], members[2 + number], 0.5))
        for number in range(pairings)
    ]
    return list(request_proposals(state, scripted_ports(kinds or None)))


def results(requests: Sequence[TextRequest]) -> list[ProposalResult]:
    return [request.item for request in requests]


def test_every_teacher_writes_every_kind_from_several_prompts_and_several_times_from_each() -> None:
    requests = ask()
    assert len(requests) == 2 * 3 * 2 * 3
    assert len({request.seed for request in requests}) == len(requests)
    prompts = {request.item.prompt: request.prompt for request in requests}
    assert sorted(prompts) == list(range(12))
    assert all(request.prompt == prompts[request.item.prompt] for request in requests)
    authors = {(request.item.teacher.member, request.slot) for request in requests}
    assert authors == {("T0", 0), ("T1", 1)}


def test_equal_seeds_and_steps_ask_the_same_and_others_do_not() -> None:
    assert ask() == ask()
    assert [result.proposal for result in results(ask())] == [
        result.proposal for result in results(ask())
    ]
    assert not {request.seed for request in ask()} & {request.seed for request in ask(step=2)}
    assert not {request.seed for request in ask()} & {request.seed for request in ask(seed=1)}


def test_what_one_pairing_is_asked_does_not_depend_on_the_others() -> None:
    assert ask(pairings=1) == [request for request in ask() if request.item.match.number == 0]


def test_references_are_of_the_kinds_that_a_kind_understands() -> None:
    archive = [addition(1, "code_o"), addition(2, "code_f"), addition(3, "other")]
    for result in results(ask(archive=archive)):
        kind, references = KINDS[result.proposal.kind], result.proposal.references
        assert 1 <= len(references) <= kind.reference_count
        assert {problem.kind for problem in references} <= {
            result.proposal.kind,
            *kind.reference_kinds,
        }


def test_a_kind_that_wants_no_references_gets_none() -> None:
    class Unprompted(CodeO):
        reference_count = 0

    requests = ask(unprompted=Unprompted())
    assert requests and all(result.proposal.references == () for result in results(requests))


def test_an_empty_archive_stops_no_kind_that_can_do_without() -> None:
    requests = ask(archive=[], code_o=CodeO())
    assert requests and all(result.proposal.references == () for result in results(requests))


def test_induction_without_a_program_to_begin_from_says_what_to_do() -> None:
    induction: TaskKind = KINDS["code_f"]
    with pytest.raises(
        ConfigError,
        match=r"code_f takes its programs from the archive, which has none.*archive\.seeds",
    ):
        ask(archive=[addition(1, "other")], code_f=induction)


def test_a_members_own_temperature_goes_with_its_requests() -> None:
    state = StepState(new_world(0, "run", load_config(), 0, EVERY), 1)
    state.world.change("T0", temperature=0.7)
    teacher, student = state.world.by_id("T0"), state.world.by_id("S0")
    state.pairings = [PairingState(0, Pairing(teacher, student, 0.5))]
    requests = list(request_proposals(state, scripted_ports()))
    assert {request.temperature for request in requests} == {0.7}
    assert {request.temperature for request in ask()} == {None}
