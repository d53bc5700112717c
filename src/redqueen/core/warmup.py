"""The warm-up before the first step: members learn the form of replies by supervised examples.

Examples are the archive's seeds and the few-shot examples of the kinds, in the prompts that will be
played. Only the marks of the prompt format are learned (tags, fences, labels). What stands between
them, reasoning and content, is there to be read, with a weight of zero: a member is to find out for
itself what to write, and no seed is learned by heart.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from redqueen.core.pipeline import Ports
from redqueen.core.world import World
from redqueen.engine.protocol import OptimizerSettings, Tokenizer, TrainSample
from redqueen.errors import ConfigError
from redqueen.records import Member, Problem
from redqueen.rng import stream
from redqueen.stages.update.losses import CrossEntropy, bind_loss
from redqueen.tasks import TaskKind
from redqueen.tasks.kind import Block, Reject, Request
from redqueen.tasks.prompts import Prompt, PromptFormat, Quote, WritesReplies

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Example:
    """A request, and a reply to it that has the right form."""

    role: str
    prompt: Prompt
    reply: tuple[str, ...]
    """In parts: quotes are not learned."""


def warm_up(world: World, ports: Ports) -> dict[str, float]:
    """Train the world's members, and leave clean optimizers behind. What came of it, by name."""
    config, engine = world.config.warmup, ports.engine
    if not config.steps:
        return {}
    examples = make_examples(world, ports)
    encoded = {example: _encode(example, engine.tokenizer) for example in examples}
    settings = OptimizerSettings(learning_rate=config.learning_rate)
    losses, tokens = list[float](), 0
    log.info("warm-up: %d steps on %d examples of form", config.steps, len(examples))
    for step in range(config.steps):
        samples = [
            replace(encoded[example], slot=world.slot(member))
            for member in world.members
            for example in _choose(world, member, step, examples)
        ]
        stats = engine.accumulate(samples, bind_loss(CrossEntropy()))
        engine.step(dict.fromkeys(sorted(stats.slots), settings))
        losses.append(_mean_loss([own.loss for own in stats.slots.values()]))
        tokens += sum(own.tokens for own in stats.slots.values())
    for member in world.members:
        slot = world.slot(member)
        engine.write(slot, engine.read(slot), reset_optimizer=True)
    log.info("warm-up: loss %.3g, at first %.3g", losses[-1], losses[0])
    return {
        "warmup/steps": config.steps,
        "warmup/examples": len(examples),
        "warmup/tokens": tokens,
        "warmup/first_loss": losses[0],
        "warmup/last_loss": losses[-1],
    }


def make_examples(world: World, ports: Ports) -> list[Example]:
    """Of all kinds that are played and all roles that learn, each read back by its kind."""
    prompt_format, roles = ports.prompt_format, world.config.warmup.roles
    if not isinstance(prompt_format, WritesReplies):
        raise ConfigError(
            f"the prompt format '{prompt_format.name}' cannot write replies (write_reply), which "
            "warmup.steps needs: set warmup.steps=0"
        )
    examples = [
        Example(draft.request.role, prompt_format.render(draft.request), tuple(reply))
        for name, kind in ports.kinds.items()
        for draft in _drafts(name, kind, world)
        for reply in [prompt_format.write_reply(draft.reasoning, draft.blocks)]
        if draft.request.role in roles and _reads(kind, draft, reply, prompt_format)
    ]
    played = {role for member in world.members for role in _roles(member)} & set(roles)
    if missing := sorted(played - {example.role for example in examples}):
        raise ConfigError(
            f"there is no example of what a {missing[0]} writes, which warmup.steps needs: set "
            "archive.seeds that have some, or warmup.steps=0"
        )
    return examples


@dataclass(frozen=True, slots=True)
class _Draft:
    request: Request
    blocks: tuple[Block, ...]
    """To reply."""
    references: Sequence[Problem] = ()
    """That a teacher is shown."""

    @property
    def reasoning(self) -> str:
        return self.request.few_shot.reasoning if self.request.few_shot else ""


def _drafts(name: str, kind: TaskKind, world: World) -> Iterator[_Draft]:
    """Of every seed of the kind, and of its few-shot examples."""
    rng = stream(world.seed, "warmup", name)
    fewest = min(1, kind.reference_count)

    def sample() -> list[Problem]:
        return world.archive.sample(kind.reference_count, rng, (name, *kind.reference_kinds))

    own = [problem for problem in world.archive if problem.kind == name]
    for problem in own:
        shown = kind.show(problem)
        yield _Draft(kind.ask_answer(problem), _pick(shown, kind.answer_blocks))
        others = [other for other in sample() if other.key != problem.key]
        if len(others) >= fewest:
            yield _Draft(kind.ask_proposal(others), _pick(shown, kind.proposal_blocks), others)
    references = sample()
    asked = [kind.ask_answer(problem) for problem in own[:1]]
    asked += [kind.ask_proposal(references)] if len(references) >= fewest else []
    for request in asked:
        if example := request.few_shot:
            alone = replace(request, examples=example.examples, given=example.given)
            yield _Draft(alone, example.reply, references)


def _pick(blocks: Sequence[Block], labels: Sequence[str]) -> tuple[Block, ...]:
    """A block for each label, in order; fewer where there are not as many."""
    left, picked = list(blocks), list[Block]()
    for label in labels:
        block = next((block for block in left if block[0] == label), None)
        if block is not None:
            left.remove(block)
            picked.append(block)
    return tuple(picked)


def _reads(
    kind: TaskKind, draft: _Draft, reply: Sequence[str], prompt_format: PromptFormat
) -> bool:
    """Whether the kind itself can read the reply."""
    try:
        written = prompt_format.parse("".join(reply), draft.request.wanted)
        if draft.request.role == "teacher":
            kind.read_proposal(written, draft.references)
        else:
            kind.read_answer(written)
    except Reject:
        return False
    return True


def _encode(example: Example, tokenizer: Tokenizer) -> TrainSample:
    """The reply's tokens, with a weight of one where they are marks of the format."""
    prompt = tokenizer.encode(example.prompt)

    def reply(parts: Sequence[str]) -> tuple[int, ...]:
        text = "".join(parts)
        return tokenizer.encode(replace(example.prompt, prefix=text))[len(prompt) :] if text else ()

    tokens = reply(example.reply)
    weights: list[float] = []
    for count, part in enumerate(example.reply, 1):
        # a token that reaches into the next part is the next part's
        end = _common(reply(example.reply[:count]), tokens)
        weights += [float(not isinstance(part, Quote))] * (end - len(weights))
    return TrainSample(0, prompt, tokens, tuple(weights))


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """How many first tokens are the same."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(some), len(others)))


def _choose(
    world: World, member: Member, step: int, examples: Sequence[Example]
) -> Sequence[Example]:
    """Those of a member's roles, as many as a step has; every member's own."""
    own = [example for example in examples if example.role in _roles(member)]
    count = min(world.config.warmup.examples, len(own))
    return stream(world.seed, "warmup", member.id, step).sample(own, count)


def _roles(member: Member) -> tuple[str, ...]:
    return ("teacher", "student") if member.role == "both" else (member.role,)


def _mean_loss(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses) if losses else 0.0
