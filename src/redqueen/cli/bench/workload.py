"""What the engine benchmark does: which base, which requests, and how a call is timed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch
import transformers
from transformers import AutoModelForCausalLM

from redqueen.cli.bench.shapes import SHAPES
from redqueen.engine.protocol import SampleRequest
from redqueen.engine.torch.cores import CORES
from redqueen.models.base import Base, load_base


@dataclass(frozen=True, slots=True)
class Workload:
    members: int
    prompts: int
    """For all members together."""
    attempts: int
    prompt_tokens: int
    shortest: int
    longest: int
    skew: int
    """Of the tokens of a completion: the higher, the more are short. In a run of Pawn answers have
    30 on average and 160 at most, and of 64 to 256 of them the longest has 4 to 5 times the mean
    (skew 4); proposals have 80 on average and 192 at most (skew 2)."""
    rounds: int
    train: bool = True
    """Otherwise only sampling is measured."""


def bench_base(name: str, where: torch.device) -> Base:
    if name not in SHAPES:
        return load_base(name, device=str(where))
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        **SHAPES[name],
        vocab_size=151_936,
        max_position_embeddings=32_768,
        tie_word_embeddings=name != "7b",
    )
    with where:
        torch.set_default_dtype(torch.bfloat16 if where.type == "cuda" else torch.float32)
        try:
            model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        finally:
            torch.set_default_dtype(torch.float32)
    return Base(name, model.requires_grad_(False).eval(), load_base("pawn", device="cpu").tokenizer)


def sample_requests(workload: Workload, members: int) -> list[SampleRequest]:
    """The same requests whatever the number of members: only who answers them differs."""
    rng = Random(0)
    requests = []
    for number in range(workload.prompts):
        prompt = tuple(rng.randrange(3, 500) for _ in range(workload.prompt_tokens))
        for _ in range(workload.attempts):
            limit = workload.shortest + int(
                (workload.longest - workload.shortest) * rng.random() ** workload.skew
            )
            requests.append(SampleRequest(prompt, limit, number % members, rng.getrandbits(64)))
    return requests


def time_call(call: Callable[[], object], where: torch.device) -> float:
    if where.type != "cuda":
        with CORES.hold():  # PEFT, too, runs where other programs leave room
            started = time.perf_counter()
            call()
            return time.perf_counter() - started
    torch.cuda.synchronize()
    started = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - started
