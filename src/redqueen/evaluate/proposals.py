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
from redqueen.stages.propose import proposal_prompt
from redqueen.stages.verify import verify
from redqueen.tasks import KINDS, TaskKind
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
            proposal_prompt(
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
            name, verify(proposals, {name: kind}, prompt_format, sandbox, VerifyConfig())
        )
    return found


def _references(items: Sequence[Item], kind: TaskKind, draw: Random) -> list[Problem]:
    tier = draw.choice(sorted({item.tier for item in items}))
    near = [item.problem for item in items if item.tier == tier and item.problem.kind == "code_o"]
    return draw.sample(near, min(len(near), draw.randint(1, kind.reference_count)))


def _summary(kind: str, verdicts: Sequence[Problem | Rejection]) -> Proposed:
    problems = [verdict for verdict in verdicts if isinstance(verdict, Problem)]
    rejected = Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Rejection))
    valid = len(problems) + rejected.pop("duplicate", 0)
    different = {problem.key if kind == "code_f" else problem.canonical for problem in problems}
    return Proposed(
        Accuracy(valid, len(verdicts)),
        Accuracy(len(different), valid),
        dict(rejected.most_common()),
    )
