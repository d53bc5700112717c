"""Members of the numpy engine as critics: solvers know half of the totals and never learn, critics
find the truth with a probability that their adapter sets."""

import math
from random import Random

from redqueen.engine.protocol import Completion, SampleRequest, SamplingParams, TrainSample
from tests.outside import engine
from tests.outside.engine import TinyEngine


class CriticEngine(TinyEngine):
    def _complete(self, request: SampleRequest, sampling: SamplingParams) -> Completion:
        prompt = bytes(request.prompt).decode()
        if prompt.startswith(">>teacher"):
            return super()._complete(request, sampling)
        rng, logprob = Random(request.seed), 0.0
        if prompt.startswith(">>critic"):
            knows = 1 / (1 + math.exp(-self.skill(request.slot)))
            right = rng.random() < knows
            text = f">>verdict\n{'correct' if is_true(prompt) == right else 'wrong'}\n>>end"
            logprob = math.log(knows if right else 1 - knows)
        else:
            text = f">>total\n{engine._total(prompt) + rng.randint(0, 1)}\n>>end"
        tokens = tuple(text.encode())
        return Completion(tokens, (logprob, *[0.0] * (len(tokens) - 1)), "stop")


def is_true(prompt: str) -> bool:
    """Whether the attempt in a critic's prompt is correct."""
    return f">>answer\n{engine._total(prompt)}\n" in prompt


def is_right(sample: TrainSample) -> bool:
    """Whether a critic's verdict is."""
    prompt, text = bytes(sample.prompt).decode(), bytes(sample.completion).decode()
    return ("correct" in text) == is_true(prompt)
