"""Tiny random models and engines on them, and what tests of training do with them."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import torch
import transformers
from torch import Tensor

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import (
    Adapter,
    LoraPair,
    Loss,
    OptimizerSettings,
    StepStats,
    TrainSample,
    TrainStats,
)
from redqueen.engine.torch.engine import TorchEngine
from redqueen.models.base import Base
from redqueen.stages.update.losses import Reinforce, bind_loss

FAMILIES = {
    "llama": transformers.LlamaConfig,
    "qwen2": transformers.Qwen2Config,
    "qwen3": transformers.Qwen3Config,
    "gemma": transformers.GemmaConfig,
    "gemma2": transformers.Gemma2Config,
    "gemma3_text": transformers.Gemma3TextConfig,
    "mistral": transformers.MistralConfig,
}
VOCABULARY = 97
REINFORCE = bind_loss(Reinforce())


def tiny_model(family: str) -> Any:
    """A random model; those with local attention look back six tokens, so that it matters."""
    torch.manual_seed(0)
    window = {"sliding_window": 6} if family in ("gemma2", "gemma3_text", "mistral") else {}
    config = FAMILIES[family](
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **window,
    )
    model = (
        transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager" if family == "gemma2" else "sdpa"
        )
        .float()
        .eval()
    )
    for parameter in model.parameters():  # far from any symmetry
        torch.nn.init.normal_(parameter, std=0.15) if parameter.dim() > 1 else parameter.data.add_(
            torch.randn_like(parameter) * 0.1
        )
    return model.requires_grad_(False)


def tiny_engine(
    tokenizer: Any, family: str = "llama", slots: int = 3, device: str = "cpu", **settings: Any
) -> TorchEngine:
    """On a tiny model, with members that differ from the base and from each other."""
    lora = {name: settings.pop(name) for name in ("rank", "alpha", "targets") if name in settings}
    config = EngineConfig(**{"max_num_seqs": 6, "decode_steps_per_sync": 3, **settings})
    shape = LoraConfig(**{"rank": 4, "alpha": 8, **lora})
    engine = TorchEngine(
        Base("tiny", tiny_model(family).to(device), tokenizer), slots, config, shape
    )
    for slot in range(slots):
        engine.write(slot, disturbed(engine.read(slot), slot), reset_optimizer=False)
    return engine


def disturbed(adapter: Adapter, seed: int) -> Adapter:
    generator = torch.Generator().manual_seed(100 + seed)
    projections = {
        name: LoraPair(a, torch.randn(b.shape, generator=generator) * 0.1)
        for name, (a, b) in adapter.projections.items()
    }
    return replace(adapter, projections=projections)


def prompts(count: int, rng: Random, longest: int = 12) -> list[tuple[int, ...]]:
    return [
        tuple(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(2, longest)))
        for _ in range(count)
    ]


def train_samples(rng: Random, slots: list[int], attempts: int = 3) -> list[TrainSample]:
    samples = []
    for slot in slots:
        for prompt in prompts(2, rng):
            for _ in range(attempts):
                completion = tuple(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(1, 7)))
                samples.append(TrainSample(slot, prompt, completion, rng.uniform(-1, 1)))
    return samples


def train(
    engine: TorchEngine,
    samples: list[TrainSample],
    settings: OptimizerSettings | Mapping[int, OptimizerSettings] = OptimizerSettings(),  # noqa: B008
    loss: Loss = REINFORCE,
    kl: float = 0.0,
) -> tuple[TrainStats, StepStats]:
    stats = engine.accumulate(samples, loss, kl)
    if isinstance(settings, OptimizerSettings):
        settings = dict.fromkeys(stats.slots, settings)
    return stats, engine.step({slot: settings[slot] for slot in stats.slots})


def state(engine: TorchEngine) -> dict[str, Tensor]:
    """Everything that training changes: a row for each slot."""
    assert engine.population is not None and engine.optimizer is not None
    found = {"weights": engine.population.weights, **engine.optimizer.state()}
    return {name: value.cpu().clone() for name, value in found.items()}


def gradients(engine: TorchEngine, samples: list[TrainSample], loss: Loss = REINFORCE) -> Tensor:
    """[slots, parameters_each]"""
    assert engine.population is not None
    engine.accumulate(samples, loss)
    grads = engine.population.grads.cpu().clone()
    engine.step({})
    return grads


def logprobs(engine: TorchEngine, samples: list[TrainSample]) -> list[float]:
    """Of whole completions."""
    found = []
    for sample in samples:
        ids = torch.tensor([sample.prompt + sample.completion]).to(engine.loaded.device)
        positions = torch.arange(ids.shape[1])[None].to(ids)
        with torch.no_grad():
            routing = engine.forward.routing([sample.slot])
            hidden = engine.forward.sequences(ids, positions, None, routing)
            logits = engine.forward.logits(hidden)[0, len(sample.prompt) - 1 : -1]
        targets = torch.tensor(sample.completion)[:, None].to(ids)
        found.append(float(torch.log_softmax(logits, -1).gather(1, targets).sum()))
    return found
