"""The verify stage: a proposal becomes a Problem, with gold answers computed in the sandbox, or a
Rejection with its reason.

Proposals are verified while others are still being sampled: `start_verification` before the propose
stage, `verify` after it.

Covered: form, literals, static checks, limits, determinism, outputs without a literal, outputs too
long, duplicates, what people have vetoed. Not covered: whether a problem is any good, which is what
students are for, and whether it stays what it is when answers are graded: the solve stage voids
those that do not.
"""

from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Any

from redqueen.config.stages import VerifyConfig
from redqueen.core.pipeline import Check, Ports, check_once
from redqueen.core.state import ProposalResult, StepState
from redqueen.records import Author, Problem, Proposal, Rejection
from redqueen.sandbox import Job, Sandbox
from redqueen.tasks import Reject, RunRules, TaskKind
from redqueen.tasks.prompts import PromptFormat

Verdict = Problem | Rejection


def start_verification(states: Sequence[StepState], ports: Ports) -> Check[ProposalResult]:
    """Verifies proposals as they come. A text that was sampled twice from one prompt is verified
    once."""
    config, step = states[0].world.config.verify, states[0].step
    known: dict[Hashable, Verdict] = {}

    def judge(results: list[ProposalResult]) -> list[Verdict]:
        payloads = [
            (
                result.proposal.kind,
                _read(result.proposal, ports.kinds[result.proposal.kind], ports.prompt_format)
                if result.payload is None
                else result.payload,
                result.proposal.author,
            )
            for result in results
        ]
        return verify_payloads(payloads, ports.kinds, ports.sandbox, config, step)

    def check(results: list[ProposalResult]) -> None:
        verdicts = check_once(results, _same_text, judge, known)
        for result, verdict in zip(results, verdicts, strict=True):
            result.verdict = verdict

    return Check(ports.background, check)


def verify(states: Sequence[StepState], ports: Ports, verification: Check[ProposalResult]) -> None:
    """Wait for the verdicts, and reject duplicates: problems that the world has had before, or that
    came earlier in this step."""
    during_sampling = verification.blocked_s
    verification.finish()
    ports.add_time("propose", -during_sampling)
    ports.add_time("verify", during_sampling, waited=verification.blocked_s)
    for state in states:
        _reject_vetoed(state, ports.kinds)
        if state.world.config.is_fixed:
            # fixed problems may come again in a later step, and to other students, but not twice to
            # one
            for match in state.pairings:
                _reject_duplicates([r for r in state.results if r.match is match], ())
            _reject_duplicates(state.posed, state.world.known)
        else:
            _reject_duplicates([*state.results, *state.posed], state.world.known)


def verify_proposals(
    proposals: Sequence[Proposal],
    kinds: Mapping[str, TaskKind],
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    config: VerifyConfig,
    known: Container[str] = (),
) -> list[Verdict]:
    """One problem or rejection for each proposal, in order. A problem is a duplicate if its key is
    known or came earlier in the list."""
    payloads = [
        (proposal.kind, _read(proposal, kinds[proposal.kind], prompt_format), proposal.author)
        for proposal in proposals
    ]
    return without_duplicates(verify_payloads(payloads, kinds, sandbox, config), known)


def verify_payloads(
    payloads: Sequence[tuple[str, Any, Author | None]],
    kinds: Mapping[str, TaskKind],
    sandbox: Sandbox,
    config: VerifyConfig,
    step: int = 0,
) -> list[Verdict]:
    """Payloads with their kind and author, as problems; what is rejected already stays so. All that
    must be executed goes to the sandbox at once."""
    rules = RunRules.of(config)
    jobs = [_job(payload, kinds[kind], rules) for kind, payload, _ in payloads]
    outcomes = iter(sandbox.run([job for job in jobs if isinstance(job, Job)]))
    verdicts: list[Verdict] = []
    for (kind, payload, author), job in zip(payloads, jobs, strict=True):
        if isinstance(job, Rejection):
            verdicts.append(job)
            continue
        outcome = None if job is None else next(outcomes)
        try:
            verified = kinds[kind].verified(payload, outcome, rules)
            verdicts.append(verified.problem(kind, author, step))
        except Reject as reject:
            verdicts.append(Rejection(reject.reason, str(reject)))
    return verdicts


def without_duplicates(verdicts: Sequence[Verdict], known: Container[str]) -> list[Verdict]:
    """The verdicts in order, with problems rejected whose key is known or came earlier in the
    list."""
    seen: set[str] = set()
    kept: list[Verdict] = []
    for verdict in verdicts:
        if isinstance(verdict, Problem) and (verdict.key in seen or verdict.key in known):
            kept.append(Rejection("duplicate", verdict.key))
            continue
        if isinstance(verdict, Problem):
            seen.add(verdict.key)
        kept.append(verdict)
    return kept


def _reject_vetoed(state: StepState, kinds: Mapping[str, TaskKind]) -> None:
    """What people do not want to see again, by itself or with other values."""
    vetoed = state.world.vetoed
    for result, problem in [*state.solvable, *state.posed_problems] if vetoed else ():
        structure = kinds[problem.kind].structure(problem)
        if problem.key in vetoed or structure in vetoed:
            result.verdict = Rejection("vetoed", structure)


def _reject_duplicates(results: Sequence[ProposalResult], known: Container[str]) -> None:
    verdicts = without_duplicates([result.verdict for result in results], known)
    for result, verdict in zip(results, verdicts, strict=True):
        result.verdict = verdict


def _same_text(result: ProposalResult) -> Hashable:
    return result.match, result.prompt, result.proposal.text


def _read(proposal: Proposal, kind: TaskKind, prompt_format: PromptFormat) -> Any:
    """The payload in a teacher's text, or a Rejection."""
    try:
        blocks = prompt_format.parse(proposal.text, kind.proposal_blocks)
        return kind.read_proposal(blocks, proposal.references)
    except Reject as reject:
        return Rejection(reject.reason, str(reject))


def _job(payload: Any, kind: TaskKind, rules: RunRules) -> Job | Rejection | None:
    if isinstance(payload, Rejection):
        return payload
    try:
        return kind.verification(payload, rules)
    except Reject as reject:
        return Rejection(reject.reason, str(reject))
