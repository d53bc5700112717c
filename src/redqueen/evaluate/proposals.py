"""How well a base proposes: the share of its sampled proposals that are valid problems, and how
different these are."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from redqueen.config.stages import ProposeConfig, VerifyConfig
from redqueen.engine.text_sampler import EngineTextSampler, TextRequest
from redqueen.evaluate.statistics import Accuracy
from redqueen.pawn.heldout import Item
from redqueen.records import Problem, Proposal, Rejection
from redqueen.rng import seed_for, stream
from redqueen.sandbox import Sandbox
from redqueen.stages.propose import render_proposal
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import KINDS, TaskKind, load_kind
from redqueen.tasks.prompts import PromptFormat

MAX_TOKENS = 400
_PROMPT_CHARS = 2400


@dataclass(frozen=True, slots=True)
class Proposed:
    """What came of the proposals of one kind."""

    valid: Accuracy
    """A proposal that an earlier one already made is valid too."""
    unique: Accuracy
    """Different canonical programs among the valid ones; for induction, where the program is given,
    different problems."""
    rejected: dict[str, int]


def propose_problems(
    items: Sequence[Item],
    sampler: EngineTextSampler,
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    each: int,
    done: Callable[[int], None],
) -> dict[str, Proposed]:
    """So many proposals of every kind by the base, at temperature 1. References come from the
    suite, of one tier for each prompt.

    `done` is told how many more have come, now and then.
    """
    found = {}
    for name, kind in KINDS.items():
        draw = stream(0, "evaluate", "proposals", name)
        asked = [
            render_proposal(
                kind,
                _references(items, kind, draw),
                prompt_format,
                ProposeConfig(max_prompt_chars=_PROMPT_CHARS),
            )
            for _ in range(each)
        ]
        seed = draw.getrandbits(32)
        asks = [
            TextRequest(0, prompt, MAX_TOKENS, seed_for(seed, "evaluate", number))
            for number, (prompt, _) in enumerate(asked)
        ]
        replies = sampler.sample(asks, 1.0, lambda some: done(len(some)))
        proposals = [
            Proposal(name, reply.text, shown)
            for reply, (_, shown) in zip(replies, asked, strict=True)
        ]
        found[name] = _summary(
            name, verify_proposals(proposals, {name: kind}, prompt_format, sandbox, VerifyConfig())
        )
    return found


def _references(items: Sequence[Item], kind: TaskKind, draw: Random) -> list[Problem]:
    tier = draw.choice(sorted({item.tier for item in items}))
    near = [
        item.problem
        for item in items
        if item.tier == tier and item.problem.kind in kind.reference_kinds[:1]
    ]
    return draw.sample(near, min(len(near), draw.randint(1, kind.reference_count)))


def _summary(kind: str, verdicts: Sequence[Problem | Rejection]) -> Proposed:
    problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    rejected = Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Rejection))
    valid = len(problems) + rejected.pop("duplicate", 0)
    task = load_kind(kind)
    different = {problem.key if task.derived else task.structure(problem) for problem in problems}
    return Proposed(
        Accuracy(valid, len(verdicts)),
        Accuracy(len(different), valid),
        dict(rejected.most_common()),
    )
