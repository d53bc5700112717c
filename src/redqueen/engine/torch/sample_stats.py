"""What a call of the sampler came to."""

from dataclasses import dataclass

from redqueen.engine.usage import Usage


@dataclass(frozen=True, slots=True)
class SampleStats:
    tokens: int
    """Generated."""
    prompt_tokens: int
    """Of all requests; shared prompts counted for each."""
    shared_frac: float
    """Prompt tokens that were not computed because requests share a prompt."""
    idle_frac: float
    """Sequence slot steps in which the slot was free."""
    seconds: float
    prefill_s: float
    """Of these: computing prompts. On a GPU, as its own clock has it."""
    deliver_s: float
    """Of these: in `on_finish`."""

    @property
    def usage(self) -> Usage:
        return Usage(
            sampled_tokens=self.tokens,
            sample_s=self.seconds,
            prefill_s=self.prefill_s,
            deliver_s=self.deliver_s,
            filled_s=self.seconds * (1 - self.idle_frac),
        )
