"""The whole way from sampling over advantages to training: what is rewarded is done more often, by
every estimator and by the rewarded alone."""

import pytest

from redqueen.config.engine import LoraConfig
from redqueen.config.stages import UpdateConfig
from redqueen.engine.protocol import SampleRequest, SamplingParams, TrainSample, TrainSettings
from redqueen.records import Rollout
from redqueen.rng import seed_for
from redqueen.stages.update.advantages import ESTIMATORS, Sample, advantages

DRAWN = 32
UPDATES = 8
PROMPT = ">>student code_i\n>>program\ndef f(n):\n    return 7\n>>output\n7\n>>answer\n>>input\n"


@pytest.mark.slow
def test_members_learn_to_write_what_earns_and_one_that_always_earns_the_same_stays_as_it_was() -> (
    None
):
    """Any input is right, and Pawn writes all kinds; a digit from 5 on earns one, anything else
    nothing. A member for each estimator, and one more that earns whatever it writes."""
    from redqueen.engine.torch.engine import TorchEngine
    from redqueen.models.base import load_base

    base = load_base("pawn", device="cpu")
    estimators = [UpdateConfig.model_validate({"estimator": name}) for name in ESTIMATORS]
    content = len(estimators)
    engine = TorchEngine(base, content + 1, lora=LoraConfig(rank=4, alpha=8), seed=1)
    before = engine.read(content)
    prompt = tuple(base.tokenizer.encode(PROMPT))
    earning = {token for digit in "56789" for token in base.tokenizer.encode(digit)}
    shares: dict[int, list[float]] = {slot: [] for slot in range(content + 1)}
    for update in range(UPDATES):
        rows = [
            SampleRequest(prompt, 1, slot, seed_for(0, update, slot, number))
            for slot in shares
            for number in range(DRAWN)
        ]
        samples: dict[int, list[Sample]] = {slot: [] for slot in shares}
        for row, found in zip(rows, engine.generate(rows, SamplingParams(1.0)), strict=True):
            earned = 1.0 if row.slot == content else float(found.tokens[0] in earning)
            writing = Rollout(row.prompt, found.tokens, found.logprobs, found.finish_reason)
            samples[row.slot].append(
                Sample(f"S{row.slot}", update, ("student", "code_i"), writing, earned)
            )
        train = []
        for slot, mine in samples.items():
            shares[slot].append(sum(sample.reward for sample in mine) / DRAWN)
            values = advantages(mine, estimators[slot % content])
            train += [
                TrainSample(slot, prompt, one.rollout.tokens, value, one.rollout.logprobs)
                for one, value in zip(mine, values, strict=True)
            ]
        engine.train(train, TrainSettings(learning_rate=0.01))
    for slot in range(content):
        first, last = shares[slot][0], sum(shares[slot][-2:]) / 2
        assert 0.05 < first < 0.7 and last > first + 0.25, (
            estimators[slot].estimator,
            shares[slot],
        )
    after = engine.read(content)
    assert all(
        (one == other).all()
        for name, pair in before.projections.items()
        for one, other in zip(pair, after.projections[name], strict=True)
    )
