"""The verify stage: a proposal becomes a Problem, with gold answers computed in the sandbox, or a
Rejection with its reason.

Covered: form, literals, static checks, limits, determinism, outputs without a literal, outputs too
long, duplicates. Not covered: whether a problem is any good. That is what students are for.
"""

from collections.abc import Container, Sequence

from redqueen.config.stages import VerifyConfig
from redqueen.records import Author, Problem, Proposal, Rejection
from redqueen.sandbox import Job, Outcome, Sandbox
from redqueen.tasks import Draft, Malformed, RunRules, TaskKind
from redqueen.tasks.prompts import PromptFormat


def verify(
    proposals: Sequence[Proposal],
    kinds: dict[str, TaskKind],
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    config: VerifyConfig,
    known: Container[str] = (),
) -> list[Problem | Rejection]:
    """One problem or rejection for each proposal, in order. A problem is a duplicate if its key is
    known or came earlier in the list."""
    return without_duplicates(judge(proposals, kinds, prompt_format, sandbox, config), known)


def judge(
    proposals: Sequence[Proposal],
    kinds: dict[str, TaskKind],
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    config: VerifyConfig,
) -> list[Problem | Rejection]:
    """Each proposal by itself: what comes of it depends on no other."""
    drafts = [_read(proposal, kinds[proposal.kind], prompt_format) for proposal in proposals]
    return judge_drafts(
        [
            (proposal.kind, draft, proposal.author)
            for proposal, draft in zip(proposals, drafts, strict=True)
        ],
        kinds,
        sandbox,
        config,
    )


def judge_drafts(
    drafts: Sequence[tuple[str, Draft | Rejection, Author | None]],
    kinds: dict[str, TaskKind],
    sandbox: Sandbox,
    config: VerifyConfig,
) -> list[Problem | Rejection]:
    """Drafts with their kind and author, as problems; what is rejected already stays so."""
    rules = RunRules.of(config)
    jobs = [
        draft if isinstance(draft, Rejection) else _job(draft, kinds[kind], rules, config)
        for kind, draft, _ in drafts
    ]
    outcomes = iter(sandbox.run([job for job in jobs if not isinstance(job, Rejection)]))
    found: list[Problem | Rejection] = []
    for (kind, draft, author), job in zip(drafts, jobs, strict=True):
        if isinstance(job, Rejection):
            found.append(job)
        else:
            assert isinstance(draft, Draft)
            found.append(_judge(kind, author, draft, next(outcomes), config))
    return found


def without_duplicates(
    verdicts: Sequence[Problem | Rejection], known: Container[str]
) -> list[Problem | Rejection]:
    """The verdicts in order, with problems rejected whose key is known or came earlier in the list."""
    seen: set[str] = set()
    found: list[Problem | Rejection] = []
    for verdict in verdicts:
        if isinstance(verdict, Problem) and (verdict.key in seen or verdict.key in known):
            found.append(Rejection("duplicate", verdict.key))
            continue
        if isinstance(verdict, Problem):
            seen.add(verdict.key)
        found.append(verdict)
    return found


def _read(proposal: Proposal, kind: TaskKind, prompt_format: PromptFormat) -> Draft | Rejection:
    try:
        return kind.read_proposal(
            prompt_format.parse(proposal.text, kind.proposal_blocks), proposal.references
        )
    except Malformed as error:
        return Rejection("malformed", str(error))


def _job(draft: Draft, kind: TaskKind, rules: RunRules, config: VerifyConfig) -> Job | Rejection:
    try:
        return _too_long(draft, config) or kind.verification(draft, rules)
    except Malformed as error:
        return Rejection("malformed", str(error))


def _too_long(draft: Draft, config: VerifyConfig) -> Rejection | None:
    if len(draft.program) > config.max_program_chars:
        return Rejection(
            "too_long",
            f"program of {len(draft.program)} characters, at most {config.max_program_chars}",
        )
    longest = max(map(len, draft.inputs), default=0)
    if longest > config.max_input_chars:
        return Rejection(
            "too_long", f"input of {longest} characters, at most {config.max_input_chars}"
        )
    return None


def _judge(
    kind: str, author: Author | None, draft: Draft, outcome: Outcome, config: VerifyConfig
) -> Problem | Rejection:
    if outcome.kind == "rejected":  # a static check, as `word: what`
        word, _, what = outcome.detail.partition(": ")
        return Rejection(word, what)
    if outcome.kind != "value":
        return Rejection(outcome.kind, outcome.detail)
    longest = max(map(len, outcome.values))
    if longest > config.max_output_chars:
        return Rejection(
            "too_long", f"output of {longest} characters, at most {config.max_output_chars}"
        )
    if (
        outcome.inspection is None or outcome.steps is None
    ):  # both were asked for: the program ended its process after it had answered
        return Rejection("crashed", "the program did not come to its end")
    return Problem(
        kind=kind,
        program=draft.program,
        inputs=draft.inputs,
        outputs=outcome.values,
        canonical=outcome.inspection.canonical,
        complexity=outcome.inspection.complexity,
        steps=outcome.steps,
        message=draft.message,
        author=author,
    )
