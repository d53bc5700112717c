"""The whole way from sampling over advantages to training: what is rewarded is done more often, by
every estimator and every loss, and by the rewarded alone."""

import pytest

from redqueen.config.engine import LoraConfig
from redqueen.engine.protocol import OptimizerSettings, SampleRequest, SamplingParams, TrainSample
from redqueen.records import Rollout
from redqueen.rng import seed_for
from redqueen.stages.update.advantages import ESTIMATORS, Sample, estimate_advantages
from redqueen.stages.update.losses import LOSSES, bind_loss

SAMPLES = 32
UPDATES = 8
PROMPT = ">>student code_i\n>>program\ndef f(n):\n    return 7\n>>output\n7\n>>answer\n>>input\n"
WAYS = [
    *((estimator, "reinforce") for estimator in ESTIMATORS),
    *(("rloo", loss) for loss in LOSSES if loss != "reinforce"),
]
"""Estimator and loss."""


@pytest.mark.slow
def test_members_learn_to_write_what_earns_and_one_that_always_earns_the_same_stays_as_it_was() -> (
    None
):
    """Any input is right, and Pawn writes all kinds; a digit from 5 on earns one, anything else
    nothing. A member for each way to learn, and one more that earns whatever it writes."""
    from redqueen.engine.torch.engine import TorchEngine
    from redqueen.models.base import load_base

    base = load_base("pawn", device="cpu")
    content = len(WAYS)
    engine = TorchEngine(base, content + 1, lora=LoraConfig(rank=4, alpha=8), seed=1)
    before = engine.read(content)
    prompt = tuple(base.tokenizer.encode(PROMPT))
    earning = {token for digit in "56789" for token in base.tokenizer.encode(digit)}
    shares: dict[int, list[float]] = {slot: [] for slot in range(content + 1)}
    for update in range(UPDATES):
        requests = [
            SampleRequest(prompt, 1, slot, seed_for(0, update, slot, number))
            for slot in shares
            for number in range(SAMPLES)
        ]
        samples: dict[int, list[Sample]] = {slot: [] for slot in shares}
        completions = engine.sample(requests, SamplingParams(1.0))
        for request, done in zip(requests, completions, strict=True):
            slot = request.slot
            reward = 1.0 if slot == content else float(done.tokens[0] in earning)
            rollout = Rollout(prompt, done.tokens, done.logprobs, done.finish_reason)
            samples[slot].append(Sample(f"S{slot}", update, "student", "code_i", rollout, reward))
        learned: set[int] = set()
        for slot, own in samples.items():
            shares[slot].append(sum(sample.reward for sample in own) / SAMPLES)
            estimator, loss = WAYS[slot % content]
            advantages = estimate_advantages(own, ESTIMATORS.choose(estimator))
            batch = [
                TrainSample(slot, prompt, one.rollout.tokens, advantage, one.rollout.logprobs)
                for one, advantage in zip(own, advantages, strict=True)
            ]
            learned |= set(engine.accumulate(batch, bind_loss(LOSSES.choose(loss))).slots)
        engine.step(dict.fromkeys(learned, OptimizerSettings(learning_rate=0.01)))
    for slot in range(content):
        first, last = shares[slot][0], sum(shares[slot][-2:]) / 2
        assert 0.05 < first < 0.7 and last > first + 0.25, (WAYS[slot], shares[slot])
    after = engine.read(content)
    assert all(
        (one == other).all()
        for name, pair in before.projections.items()
        for one, other in zip(pair, after.projections[name], strict=True)
    )
