"""How well a base proposes: the share of sampled proposals that are valid problems, and of these
the share that is unique."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from redqueen.config.stages import ProposeConfig, VerifyConfig
from redqueen.engine.text_sampler import TextRequest, TextSampler
from redqueen.evaluate.statistics import Accuracy
from redqueen.pawn.heldout import Item
from redqueen.records import Problem, Proposal, Rejection
from redqueen.rng import seed_for, stream
from redqueen.sandbox import Sandbox
from redqueen.stages.propose import render_proposal
from redqueen.stages.verify import verify_proposals
from redqueen.tasks import TaskKind, load_kinds
from redqueen.tasks.prompts import PromptFormat

MAX_TOKENS = 400
_PROMPT_CHARS = 2400


@dataclass(frozen=True, slots=True)
class ProposalStats:
    """Of one task kind."""

    valid: Accuracy
    """Duplicates are valid, too."""
    unique: Accuracy
    """Distinct structures among the valid ones; distinct problems where they derive from archived
    ones."""
    rejected: dict[str, int]
    """By reason."""

    def to_json(self) -> dict[str, Any]:
        return {
            "valid": self.valid.to_json(),
            "unique": self.unique.to_json(),
            "rejected": self.rejected,
        }


def propose_problems(
    items: Sequence[Item],
    sampler: TextSampler,
    prompt_format: PromptFormat,
    sandbox: Sandbox,
    count: int,
    on_progress: Callable[[int], None],
) -> dict[str, ProposalStats]:
    """`count` proposals of each kind of the items, at temperature 1. The references of a prompt
    come from one tier of the suite. `on_progress` is told how many more were sampled."""
    stats = {}
    for name, kind in load_kinds(*dict.fromkeys(item.problem.kind for item in items)).items():
        rng = stream(0, "evaluate", "proposals", name)
        prompts = [
            render_proposal(
                kind,
                _references(items, kind, rng),
                prompt_format,
                ProposeConfig(max_prompt_chars=_PROMPT_CHARS),
            )
            for _ in range(count)
        ]
        seed = rng.getrandbits(32)
        requests = [
            TextRequest(0, prompt, MAX_TOKENS, seed_for(seed, "evaluate", number))
            for number, (prompt, _) in enumerate(prompts)
        ]
        replies = sampler.sample(requests, 1.0, lambda finished: on_progress(len(finished)))
        proposals = [
            Proposal(name, reply.text, shown)
            for reply, (_, shown) in zip(replies, prompts, strict=True)
        ]
        stats[name] = _summarize(
            kind, verify_proposals(proposals, {name: kind}, prompt_format, sandbox, VerifyConfig())
        )
    return stats


def _references(items: Sequence[Item], kind: TaskKind, rng: Random) -> list[Problem]:
    tier = rng.choice(sorted({item.tier for item in items}))
    kinds = kind.reference_kinds[:1]
    fitting = [item.problem for item in items if item.tier == tier and item.problem.kind in kinds]
    return rng.sample(fitting, min(len(fitting), rng.randint(1, kind.reference_count)))


def _summarize(kind: TaskKind, verdicts: Sequence[Problem | Rejection]) -> ProposalStats:
    problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    rejected = Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Rejection))
    valid = len(problems) + rejected.pop("duplicate", 0)
    distinct = {problem.key if kind.derived else kind.structure(problem) for problem in problems}
    return ProposalStats(
        Accuracy(valid, len(verdicts)),
        Accuracy(len(distinct), valid),
        dict(rejected.most_common()),
    )
