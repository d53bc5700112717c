"""Training against oracles: PEFT with one adapter alone, no sharing, each member alone, an
uninterrupted run."""

import math
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from redqueen.config.engine import LoraConfig
from redqueen.engine.protocol import (
    Average,
    OptimizerSettings,
    SampleRequest,
    SamplingParams,
    TrainSample,
)
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.packing import split_microbatches
from redqueen.engine.torch.routing import Routing
from redqueen.models.base import load_base
from redqueen.models.peft_io import save_adapter
from redqueen.stages.update.losses import LOSSES, Ppo, bind_loss
from redqueen.stages.update.minibatches import merge_stats, split_minibatches
from redqueen.tasks.prompts import Prompt
from tests.contract.tiny import (
    FAMILIES,
    REINFORCE,
    VOCABULARY,
    gradients,
    logprobs,
    state,
    tiny_engine,
    tiny_model,
    train,
    train_samples,
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> bool:
    return bool((ours - theirs).abs().max() <= tolerance * theirs.abs().max().clamp(min=1e-3))


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_gradients_of_every_slot_are_those_of_peft_alone(
    family: str, tokenizer: Any, tmp_path: Path
) -> None:
    import peft

    engine, rng = tiny_engine(tokenizer, family), Random(1)
    samples = train_samples(rng, [0, 1, 2])
    ids = torch.tensor([rng.choices(range(3, VOCABULARY), k=9) for _ in range(6)])
    with torch.no_grad():
        hidden = engine.forward.sequences(
            ids, torch.arange(9).expand(6, 9), None, engine.forward.routing([0, 0, 1, 1, 2, 2])
        )
        ours = engine.forward.logits(hidden)
    grads = gradients(engine, samples)
    assert engine.population is not None
    for slot in range(3):
        save_adapter(engine.read(slot), tmp_path / str(slot), base="tiny", fingerprint="")
        oracle: Any = peft.PeftModel.from_pretrained(
            tiny_model(family), tmp_path / str(slot), is_trainable=True
        )
        expected = oracle(ids[2 * slot : 2 * slot + 2]).logits.detach()
        assert close(ours[2 * slot : 2 * slot + 2], expected)
        own = [sample for sample in samples if sample.slot == slot]
        total = sum(len(sample.completion) for sample in own)
        for sample in own:
            whole = torch.tensor([sample.prompt + sample.completion])
            logits = oracle(whole).logits[0, len(sample.prompt) - 1 : -1]
            targets = torch.tensor(sample.completion)[:, None]
            logprobs = torch.log_softmax(logits, -1).gather(1, targets)
            (-sample.advantage * logprobs.sum() / total).backward()  # type: ignore[operator]
        for name in engine.population.names:
            grad_a, grad_b = (both[slot] for both in engine.population.views(grads, name))
            layer = oracle.base_model.model.get_submodule(name)
            assert close(grad_a, layer.lora_A["default"].weight.grad.T), name
            assert close(grad_b, layer.lora_B["default"].weight.grad.T), name


def test_what_is_learned_from_shared_prompts_is_what_is_learned_from_separate_ones(
    tokenizer: Any, device: str
) -> None:
    samples = train_samples(Random(5), [0, 1, 2])
    shared = tiny_engine(tokenizer, device=device)
    separate = tiny_engine(tokenizer, device=device, share_prompts=False)
    (first, one), (second, other) = train(shared, samples), train(separate, samples)
    assert first.shared_frac > 0.2 and second.shared_frac == 0
    for slot in range(3):
        assert one.grad_norms[slot] == pytest.approx(other.grad_norms[slot], rel=1e-4)
        loss = second.slots[slot].loss
        assert first.slots[slot].loss == pytest.approx(loss, rel=1e-4, abs=1e-6)


def test_a_micro_batch_keeps_to_its_tokens_or_is_one_sequence() -> None:
    rng, cpu = Random(3), torch.device("cpu")
    samples = [
        TrainSample(slot, (5,) * rng.randint(1, 60), (6,) * rng.randint(1, 30), 1.0)
        for slot in range(8)
        for _ in range(rng.randint(1, 6))
    ]
    batches = list(split_microbatches(samples, 150, True, cpu))
    # rounded up to multiples of eight
    assert all(batch.ids.numel() <= 150 + 7 * len(batch.ids) for batch in batches)
    targets = sum(len(sample.completion) for sample in samples)
    assert sum(len(batch.targets) for batch in batches) == targets
    assert any(1 < len(set(batch.row_slots)) < 8 for batch in batches)
    assert [len(batch.ids) for batch in split_microbatches(samples, 10, True, cpu)] == [1] * len(
        samples
    )


def test_packed_completions_are_laid_out_as_documented() -> None:
    """The example of its docstring."""
    samples = [
        TrainSample(0, (11, 12, 13), (21, 22), 1.0),
        TrainSample(0, (11, 12, 13), (31, 32, 33), 1.0),
        TrainSample(1, (41, 42), (51,), 1.0),
    ]
    (batch,) = split_microbatches(samples, 100, True, torch.device("cpu"))
    assert batch.ids.tolist() == [
        [11, 12, 13, 21, 22, 31, 32, 33],
        [41, 42, 51, 0, 0, 0, 0, 0],
    ]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4, 3, 4, 5], [*range(8)]]
    assert batch.targets.tolist() == [21, 22, 31, 32, 33, 51]
    assert batch.predicted_by.tolist() == [2, 3, 2, 5, 6, 8 + 1]
    assert batch.slots.tolist() == [0] * 5 + [1]
    assert batch.lengths.tolist() == [2, 3, 1] and batch.unpadded == 11
    assert batch.mask is not None
    seen = {token: batch.mask[0, 0, token].nonzero().flatten().tolist() for token in (2, 4, 6)}
    assert seen == {2: [0, 1, 2], 4: [0, 1, 2, 3, 4], 6: [0, 1, 2, 5, 6]}


def test_micro_batches_make_no_difference(tokenizer: Any, device: str) -> None:
    samples = train_samples(Random(6), [0, 1, 1, 2])
    large = tiny_engine(tokenizer, device=device)
    small = tiny_engine(tokenizer, device=device, max_tokens_per_microbatch=40)
    assert close(gradients(small, samples), gradients(large, samples), 1e-4)


def test_what_a_member_learns_does_not_depend_on_the_others(tokenizer: Any, device: str) -> None:
    samples = train_samples(Random(7), [0, 1, 2])
    settings = OptimizerSettings(learning_rate=1e-3, weight_decay=0.1)
    together, alone = (tiny_engine(tokenizer, device=device) for _ in range(2))
    before = state(alone)["weights"]
    train(together, samples, settings)
    train(alone, [sample for sample in samples if sample.slot == 1], settings)
    ours, theirs = state(together)["weights"], state(alone)["weights"]
    assert (ours[1] - theirs[1]).abs().max() < 1e-5 and not torch.equal(theirs[1], before[1])
    assert torch.equal(theirs[0], before[0]) and torch.equal(theirs[2], before[2])


def test_a_member_whose_gradient_is_nan_diverged_and_is_left_as_it_was(tokenizer: Any) -> None:
    samples = train_samples(Random(7), [0, 1, 2])
    with_nan = [replace(one, advantage=math.nan) if one.slot == 1 else one for one in samples]
    settings = OptimizerSettings(learning_rate=1e-3, weight_decay=0.1)
    together, without = tiny_engine(tokenizer), tiny_engine(tokenizer)
    before = state(together)
    _, stepped = train(together, with_nan, settings)
    train(without, [sample for sample in samples if sample.slot != 1], settings)
    after = state(together)
    assert stepped.diverged == {1} and math.isnan(stepped.grad_norms[1])
    assert all(torch.equal(before[name][1], after[name][1]) for name in before)
    assert (after["weights"] - state(without)["weights"]).abs().max() < 1e-5
    train(together, samples, settings)  # the next call is not touched by it
    assert all(bool(value.isfinite().all()) for value in state(together).values())


def test_gradients_add_up_until_a_step_which_clears_those_of_all_slots(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    first, second = train_samples(Random(1), [0, 1]), train_samples(Random(2), [0, 1])
    one, other = gradients(engine, first), gradients(engine, second)
    engine.accumulate(first, REINFORCE)
    assert close(gradients(engine, second), one + other)
    assert engine.population is not None and not engine.population.grads.any()


def test_a_slot_that_is_not_named_is_not_stepped(tokenizer: Any) -> None:
    engine, samples = tiny_engine(tokenizer), train_samples(Random(3), [0, 1])
    train(engine, samples)  # so that there is momentum
    before = state(engine)
    engine.accumulate(samples, REINFORCE)
    engine.step({0: OptimizerSettings(weight_decay=0.5)})
    after = state(engine)
    assert all(torch.equal(before[name][1:], after[name][1:]) for name in before)
    assert not torch.equal(before["weights"][0], after["weights"][0])


def test_a_step_is_that_of_torchs_adamw(tokenizer: Any) -> None:
    """Every slot with settings of its own, in three steps."""
    engine, rng = tiny_engine(tokenizer), Random(4)
    settings = {
        0: OptimizerSettings(1e-3, 0.1, 0.9, 0.99, 0.5),
        1: OptimizerSettings(3e-3, 0.0, 0.8, 0.95, 100.0),
        2: OptimizerSettings(1e-2, 0.3, 0.95, 0.999, 0.01),
    }
    ours = state(engine)["weights"]
    oracles = {slot: torch.nn.Parameter(ours[slot].clone()) for slot in settings}
    optimizers = {
        slot: torch.optim.AdamW(
            [oracles[slot]],
            one.learning_rate,
            (one.beta1, one.beta2),
            weight_decay=one.weight_decay,
        )
        for slot, one in settings.items()
    }
    for _ in range(3):
        samples = train_samples(rng, [0, 1, 2])
        grads = gradients(engine, samples)
        train(engine, samples, settings)
        for slot, one in settings.items():
            oracles[slot].grad = grads[slot].clone()
            torch.nn.utils.clip_grad_norm_([oracles[slot]], one.grad_clip)
            optimizers[slot].step()
    for slot, oracle in oracles.items():
        assert (state(engine)["weights"][slot] - oracle.detach()).abs().max() < 1e-6, slot


def test_a_member_with_more_samples_learns_in_several_blocks_what_it_would_alone(
    tokenizer: Any, device: str
) -> None:
    """So many rows that each block is worth it: the routing is then without padding."""
    rng = Random(9)
    samples = [
        TrainSample(slot, (5, 6, number + 7), (rng.randrange(3, 90),) * 3, 1.0)
        for slot, count in ((0, 8), (2, 24))
        for number in range(count)
    ]
    together, alone = (tiny_engine(tokenizer, device=device, share_prompts=False) for _ in range(2))
    assert together.population is not None
    assert Routing.of([sample.slot for sample in samples], together.population).blocks == 4
    ours = gradients(together, samples)
    for slot in (0, 2):
        theirs = gradients(alone, [sample for sample in samples if sample.slot == slot])
        assert close(ours[slot], theirs[slot])


def test_training_raises_what_is_rewarded_and_lowers_what_is_not(
    tokenizer: Any, device: str
) -> None:
    engine = tiny_engine(tokenizer, device=device)
    good, bad = TrainSample(0, (5, 6), (7, 8, 9), 1.0), TrainSample(0, (5, 6), (10, 11), -1.0)
    first = logprobs(engine, [good, bad])
    for _ in range(5):
        train(engine, [good, bad], OptimizerSettings(learning_rate=1e-2))
    last = logprobs(engine, [good, bad])
    assert last[0] > first[0] + 0.5 and last[1] < first[1] - 0.5


def test_samples_without_advantage_cost_nothing_and_change_nothing(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    samples = [replace(one, advantage=0.0) for one in train_samples(Random(9), [0, 1])]
    before = state(engine)
    stats, _ = train(engine, samples, OptimizerSettings(weight_decay=0.5))
    assert stats.tokens == 0 and not stats.slots
    assert all(torch.equal(value, before[name]) for name, value in state(engine).items())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampled_and_trained_log_probabilities_agree(
    temperature: float, tokenizer: Any, device: str
) -> None:
    engine, rng = tiny_engine(tokenizer, device=device), Random(10)
    requests = [
        SampleRequest(sample.prompt, 1 + rng.randrange(14), sample.slot, rng.getrandbits(64))
        for sample in train_samples(rng, [0, 1, 2])
    ]
    completions = engine.sample(requests, SamplingParams(temperature, frozenset({2})))
    samples = [
        TrainSample(one.slot, one.prompt, done.tokens, 1.0, done.logprobs, temperature)
        for one, done in zip(requests, completions, strict=True)
    ]
    stats, _ = train(engine, samples)
    assert all(member.logprob_gap_max < 1e-4 for member in stats.slots.values())
    assert stats.ratio == pytest.approx(1, abs=1e-4)
    assert list(stats.gap_by_position) == [0] and 0 <= stats.gap_by_position[0] < 1e-4
    assert all(member.entropy > 0 for member in stats.slots.values())


def test_where_the_sampler_rounds_more_the_ratio_stays_one_on_average() -> None:
    """As a base in bfloat16 on a GPU, whose training pass sums in another order."""
    sampler, learner = (
        TorchEngine(load_base("pawn", device="cpu", dtype=dtype), 1, lora=LoraConfig(rank=4))
        for dtype in ("bfloat16", "float32")
    )
    prompt = learner.loaded.encode(Prompt(">>teacher code_o\n"))
    requests = [SampleRequest(prompt, 80, 0, seed) for seed in range(8)]
    completions = sampler.sample(requests, SamplingParams(1.0, learner.loaded.end_tokens))
    samples = [TrainSample(0, prompt, done.tokens, 1.0, done.logprobs) for done in completions]
    stats, _ = train(learner, samples)
    assert 1e-4 < stats.gap_by_position[0] < 0.05
    assert stats.ratio == pytest.approx(1, abs=0.01)


def test_the_gap_is_known_by_position_and_the_ratio_is_truncated(tokenizer: Any) -> None:
    engine, rng = tiny_engine(tokenizer), Random(11)
    tokens = tuple(rng.randrange(3, 20) for _ in range(100))
    places = range(len(tokens))
    now = logprobs(
        engine, [TrainSample(0, (5, 6, *tokens[:at]), tokens[at : at + 1], 1.0) for at in places]
    )
    shifted = tuple(now[at] - (0.1 if at < 64 else 5.0) for at in places)
    samples = [TrainSample(0, (5, 6), tokens, 1.0, shifted), TrainSample(0, (5, 6), tokens, 1.0)]
    stats, _ = train(engine, samples)
    assert stats.gap_by_position == {
        0: pytest.approx(0.1, rel=1e-3),
        64: pytest.approx(5, rel=1e-3),
    }
    assert stats.ratio == pytest.approx((64 * math.exp(0.1) + 36 * 2) / 100, rel=1e-3)


def test_clipping_stops_the_gradient_of_tokens_that_moved_far(tokenizer: Any) -> None:
    engine = tiny_engine(tokenizer)
    now = logprobs(engine, [TrainSample(0, (5, 6), (7,), 1.0)])[0]
    before = (now - 1.0, -1e3)  # both far more likely now than when they were sampled
    sample = TrainSample(0, (5, 6), (7, 8), 1.0, before)
    stats, stepped = train(engine, [sample], loss=bind_loss(Ppo()))
    assert stats.slots[0].clipped_frac == 1.0 and stepped.grad_norms[0] == 0.0


@pytest.mark.parametrize("name", LOSSES)
def test_with_fresh_samples_every_loss_trains_as_the_plain_one_up_to_its_scale(
    name: str, tokenizer: Any
) -> None:
    engine, loss = tiny_engine(tokenizer), bind_loss(LOSSES.choose(name))
    # of one length, so that all averages agree but for a constant
    samples = [
        replace(sample, completion=sample.completion[:1] * 3)
        for sample in train_samples(Random(16), [0, 1])
    ]
    plain, ours = gradients(engine, samples), gradients(engine, samples, loss)
    scale = 3 / loss.average if isinstance(loss.average, int) else 1.0
    assert close(ours, plain * scale, 1e-4)


@pytest.mark.parametrize("average", ["tokens", "sequences", 50])
def test_a_members_loss_is_averaged_as_asked_whatever_the_micro_batches(
    average: Average, tokenizer: Any
) -> None:
    engine = tiny_engine(tokenizer, max_tokens_per_microbatch=30)
    samples = train_samples(Random(17), [0, 1])
    stats = engine.accumulate(samples, replace(REINFORCE, average=average))
    for slot in (0, 1):
        own = [sample for sample in samples if sample.slot == slot]
        terms = [
            -sample.advantage * logprob  # type: ignore[operator]
            for sample, logprob in zip(own, logprobs(engine, own), strict=True)
        ]
        lengths = [len(sample.completion) for sample in own]
        expected = {
            "tokens": sum(terms) / sum(lengths),
            "sequences": sum(t / n for t, n in zip(terms, lengths, strict=True)) / len(own),
            50: sum(terms) / len(own) / 50,
        }[average]
        assert stats.slots[slot].loss == pytest.approx(expected, rel=1e-4)


def test_divergence_from_the_base_is_measured_and_pulls_back(tokenizer: Any) -> None:
    engine, samples = tiny_engine(tokenizer), train_samples(Random(11), [0])
    history = [
        train(engine, samples, OptimizerSettings(learning_rate=3e-3), kl=10.0)[0].slots[0].kl
        for _ in range(16)
    ]
    assert history[0] > 0 and history[-1] < history[0]


def test_minibatches_use_every_sample_once_and_their_stats_add_up(tokenizer: Any) -> None:
    samples = train_samples(Random(12), [0, 1])
    samples.append(replace(samples[0], advantage=0.0))  # nothing to learn: it takes no turn
    parts = list(split_minibatches(samples, 3))
    assert sorted(map(repr, chain.from_iterable(parts))) == sorted(map(repr, samples[:-1]))
    assert all({sample.slot for sample in part} == {0, 1} for part in parts)
    engine = tiny_engine(tokenizer)
    each = [train(engine, part, OptimizerSettings(learning_rate=0.0))[0] for part in parts]
    assert state(engine)["step"].flatten().tolist() == [3, 3, 0]
    merged, whole = merge_stats(each), train(engine, samples)[0]
    for slot in (0, 1):
        ours, theirs = merged.slots[slot], whole.slots[slot]
        assert (ours.samples, ours.tokens) == (theirs.samples, theirs.tokens)
        assert ours.entropy == pytest.approx(theirs.entropy, rel=1e-5)
    assert merged.tokens == sum(part.tokens for part in each)
    assert 0 <= merged.padding_frac < 1 and 0 <= merged.shared_frac < whole.shared_frac
    assert list(split_minibatches(samples[:1], 4)) == [samples[:1]]


def test_gradient_checkpointing_makes_no_difference(tokenizer: Any, device: str) -> None:
    samples = train_samples(Random(15), [0, 1])
    plain = tiny_engine(tokenizer, device=device)
    saving = tiny_engine(tokenizer, device=device, gradient_checkpointing=True)
    assert close(gradients(saving, samples), gradients(plain, samples))
