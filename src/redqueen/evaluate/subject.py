"""Who proposes: a base, and the prompt pack it is talked to in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from redqueen.scribe import Ask, ModelScribe
from redqueen.streams import seed_for
from redqueen.tasks.prompts import Prompt, PromptPack


@dataclass(frozen=True, slots=True)
class Subject:
    scribe: ModelScribe
    pack: PromptPack
    done: Callable[[int], None] = field(default=lambda count: None)
    """Told how many replies have come, now and then."""

    def replies(self, prompts: Sequence[Prompt], max_tokens: Sequence[int], temperature: float = 0.0, seed: int = 0) -> list[str]:
        """What the base writes after each prompt, up to a limit for each."""
        asks = [
            Ask(0, prompt, limit, seed_for(seed, "evaluate", number)) for number, (prompt, limit) in enumerate(zip(prompts, max_tokens, strict=True))
        ]
        return [written.text for written in self.scribe.write(asks, temperature, lambda some: self.done(len(some)))]
