"""The work of the engine benchmark done by PEFT, one adapter at a time."""

from typing import Any

import torch

from redqueen.cli.bench.workload import bench_base, time_call
from redqueen.config.engine import LoraConfig
from redqueen.engine.protocol import SampleRequest, TrainSample
from redqueen.errors import ConfigError


class PeftBaseline:
    """The same work by PEFT, each member's by itself: `generate()` of all its rows, then one
    training step."""

    def __init__(self, name: str, where: torch.device, lora: LoraConfig, members: int) -> None:
        try:
            import peft
        except ImportError as error:
            raise ConfigError(
                "the comparison with PEFT needs the package peft: pip install peft, or leave it out with --no-peft"
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
        self.where, self.members, self.rows_each = where, members, 8
        self.optimizers = []
        for slot in range(members):
            self.model.set_adapter(str(slot))
            self.optimizers.append(
                torch.optim.AdamW(
                    [weight for weight in self.model.parameters() if weight.requires_grad], lr=1e-6
                )
            )

    def choose_batch(self, rows: list[TrainSample]) -> None:
        """The size of its batches that it trains fastest with."""
        self.train(rows)  # the first time is slower
        seconds = {}
        for self.rows_each in (8, 32):
            seconds[self.rows_each] = time_call(lambda: self.train(rows), self.where)
        self.rows_each = min(seconds, key=seconds.__getitem__)

    def generate(self, rows: list[SampleRequest]) -> None:
        for slot in range(self.members):
            mine = [row for row in rows if row.slot == slot]
            self.model.set_adapter(str(slot))
            ids = torch.tensor([row.prompt for row in mine], device=self.where)
            with torch.inference_mode():
                self.model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    max_new_tokens=max(row.max_tokens for row in mine),
                    eos_token_id=None,
                    pad_token_id=0,
                )

    def train(self, rows: list[TrainSample]) -> None:
        for slot in range(self.members):
            mine = sorted(
                (row for row in rows if row.slot == slot), key=lambda row: len(row.completion)
            )
            self.model.set_adapter(str(slot))
            total = sum(len(row.completion) for row in mine)
            for start in range(0, len(mine), self.rows_each):
                self._learn(mine[start : start + self.rows_each], total)
            self.optimizers[slot].step()
            self.optimizers[slot].zero_grad(set_to_none=True)

    def _learn(self, part: list[TrainSample], total: int) -> None:
        length = max(len(row.prompt) + len(row.completion) for row in part)
        ids = torch.zeros(len(part), length, dtype=torch.long)
        weights = torch.zeros(len(part), length)
        for number, row in enumerate(part):
            ids[number, : len(row.prompt) + len(row.completion)] = torch.tensor(
                row.prompt + row.completion
            )
            weights[number, len(row.prompt) : len(row.prompt) + len(row.completion)] = 1 / total
        ids, weights = ids.to(self.where), weights.to(self.where)
        logits = self.model(input_ids=ids).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none"
        )
        (losses * weights[:, 1:].flatten()).sum().backward()
