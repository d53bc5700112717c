"""The work of the engine benchmark done by PEFT, one adapter at a time."""

from typing import Any

import torch

from redqueen.cli.bench.workload import bench_base, time_call
from redqueen.config.engine import LoraConfig
from redqueen.engine.protocol import SampleRequest, TrainSample
from redqueen.errors import ConfigError


class PeftBaseline:
    """Each member by itself: `generate()` for all its requests, then one optimizer step."""

    def __init__(self, name: str, where: torch.device, lora: LoraConfig, members: int) -> None:
        try:
            import peft
        except ImportError as error:
            raise ConfigError(
                "the comparison with PEFT needs the package peft: pip install peft, "
                "or leave it out with --no-peft"
            ) from error
        targets = list(lora.targets) or "all-linear"
        settings = peft.LoraConfig(
            r=lora.rank,
            lora_alpha=int(lora.alpha),
            target_modules=targets,
            task_type="CAUSAL_LM",
        )
        self.model: Any = peft.get_peft_model(
            bench_base(name, where).model, settings, adapter_name="0"
        )
        for slot in range(1, members):
            self.model.add_adapter(str(slot), settings)
        self.where, self.members, self.batch_size = where, members, 8
        self.optimizers = []
        for slot in range(members):
            self.model.set_adapter(str(slot))
            self.optimizers.append(
                torch.optim.AdamW(
                    [weight for weight in self.model.parameters() if weight.requires_grad], lr=1e-6
                )
            )

    def choose_batch_size(self, samples: list[TrainSample]) -> None:
        """Take the batch size that trains fastest."""
        self.train(samples)  # warm-up
        seconds = {}
        for self.batch_size in (8, 32):
            seconds[self.batch_size] = time_call(lambda: self.train(samples), self.where)
        self.batch_size = min(seconds, key=seconds.__getitem__)

    def generate(self, requests: list[SampleRequest]) -> None:
        for slot in range(self.members):
            mine = [request for request in requests if request.slot == slot]
            self.model.set_adapter(str(slot))
            ids = torch.tensor([request.prompt for request in mine], device=self.where)
            with torch.inference_mode():
                self.model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    max_new_tokens=max(request.max_tokens for request in mine),
                    eos_token_id=None,
                    pad_token_id=0,
                )

    def train(self, samples: list[TrainSample]) -> None:
        for slot in range(self.members):
            mine = sorted(
                (sample for sample in samples if sample.slot == slot),
                key=lambda sample: len(sample.completion),
            )
            self.model.set_adapter(str(slot))
            total = sum(len(sample.completion) for sample in mine)
            for start in range(0, len(mine), self.batch_size):
                self._backward(mine[start : start + self.batch_size], total)
            self.optimizers[slot].step()
            self.optimizers[slot].zero_grad(set_to_none=True)

    def _backward(self, batch: list[TrainSample], total: int) -> None:
        length = max(len(sample.prompt) + len(sample.completion) for sample in batch)
        ids = torch.zeros(len(batch), length, dtype=torch.long)
        weights = torch.zeros(len(batch), length)
        for number, sample in enumerate(batch):
            ids[number, : len(sample.prompt) + len(sample.completion)] = torch.tensor(
                sample.prompt + sample.completion
            )
            weights[number, len(sample.prompt) : len(sample.prompt) + len(sample.completion)] = (
                1 / total
            )
        ids, weights = ids.to(self.where), weights.to(self.where)
        logits = self.model(input_ids=ids).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none"
        )
        (losses * weights[:, 1:].flatten()).sum().backward()
