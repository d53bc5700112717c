"""The propose stage: teachers write problems, several for each prompt, so that they can be compared
with each other. What people have posed comes beside them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from redqueen.config.stages import ProposeConfig
from redqueen.core.pipeline import Check, Ports
from redqueen.core.state import PairingState, PersonResult, ProposalResult, StepState
from redqueen.engine.text_sampler import TextCompletion, TextRequest
from redqueen.records import Author, Member, Pairing, Problem, Proposal, Rejection
from redqueen.rng import seed_for, stream
from redqueen.tasks import Reject, TaskKind
from redqueen.tasks.prompts import Prompt, PromptFormat


def propose(states: Sequence[StepState], ports: Ports, verification: Check[ProposalResult]) -> None:
    """Sample a proposal for every request; each goes to verification as soon as it is finished."""
    requests: list[TextRequest] = []
    for state in states:
        if state.world.config.is_fixed:
            state.results = list(_fixed_problems(state))
            verification.add(state.results)
        else:
            asked = list(request_proposals(state, ports))
            state.results = [request.item for request in asked]
            requests += asked
        if state.people:
            state.posed = list(_posed_problems(state, ports.kinds))
            verification.add(state.posed)

    def receive(completions: Sequence[TextCompletion]) -> None:
        results: list[ProposalResult] = []
        for completion in completions:
            result: ProposalResult = completion.request.item
            result.proposal = replace(
                result.proposal, text=completion.text, rollout=completion.rollout
            )
            results.append(result)
        verification.add(results)

    ports.sample("propose", requests, states[0].world.config.propose.temperature, receive)


def request_proposals(state: StepState, ports: Ports) -> Iterator[TextRequest]:
    """What the teachers of a world are asked, each from a random stream of its own."""
    world, config = state.world, state.world.config.propose
    prompts = 0
    for match in state.pairings:
        if match.lead is not None:
            continue
        teacher, student = match.pairing.teacher, match.pairing.student
        author = Author(teacher.id, teacher.version)
        for name, kind in ports.kinds.items():
            for number in range(config.prompts):
                path = (state.step, "propose", teacher.id, student.id, name, number)
                rng = stream(world.seed, *path)
                count = rng.randint(min(1, kind.reference_count), kind.reference_count)
                references = world.archive.sample(
                    count, rng, (name, *kind.reference_kinds), world.config.archive.rarity
                )
                prompt, shown = render_proposal(kind, references, ports.prompt_format, config)
                for sample in range(config.samples):
                    yield TextRequest(
                        world.slot(teacher),
                        prompt,
                        config.max_tokens,
                        seed_for(world.seed, *path, sample),
                        teacher.temperature,
                        ProposalResult(match, prompts, Proposal(name, "", shown, author)),
                    )
                prompts += 1


def render_proposal(
    kind: TaskKind,
    references: Sequence[Problem],
    prompt_format: PromptFormat,
    config: ProposeConfig,
) -> tuple[Prompt, tuple[Problem, ...]]:
    """The prompt, and the references it shows: the longest ones are left out first where all do not
    fit."""
    shown = list(references[: kind.reference_count])
    while True:
        prompt = prompt_format.render(kind.ask_proposal(shown))
        if len(prompt.text) <= config.max_prompt_chars or len(shown) <= 1:
            return prompt, tuple(shown)
        shown.remove(max(shown, key=kind.length))


def _fixed_problems(state: StepState) -> Iterator[ProposalResult]:
    """Problems from the world's source, for each student."""
    world, prompt = state.world, 0
    assert world.source is not None
    for match in state.pairings:
        student, count = match.pairing.student.id, world.config.fixed.problems
        for kind, payload in world.source(world.seed, state.step, student, count):
            yield ProposalResult(match, prompt, Proposal(kind, ""), payload)
            prompt += 1


def _posed_problems(state: StepState, kinds: Mapping[str, TaskKind]) -> Iterator[ProposalResult]:
    for person in state.people:
        if person.action.action == "pose" and not person.outcome:
            yield _pose(state, person, kinds)


def _pose(state: StepState, person: PersonResult, kinds: Mapping[str, TaskKind]) -> ProposalResult:
    """A person's blocks are read as a teacher's are. Kinds that derive their problems from an
    archived one are told which."""
    world, action = state.world, person.action
    name, blocks = (
        action.content["kind"],
        [(label, text) for label, text in action.content["blocks"]],
    )
    references = tuple(p for p in world.archive if p.key == action.content["reference"])
    payload: object
    try:
        payload = kinds[name].read_proposal(blocks, references)
    except Reject as reject:
        payload = Rejection(reject.reason, str(reject))
    match = PairingState(-1, Pairing(Member(action.member, "teacher", -1), world.students[0], 0.5))
    text = "\n".join(f"{label}:\n{text}" for label, text in blocks)
    proposal = Proposal(name, text, references, Author(action.member, 0))
    return ProposalResult(match, -1, proposal, payload, person=person)
