"""The work of the engine benchmark done by PEFT, one adapter at a time.

`generate()` runs a batch until its longest completion is done, so requests are sorted by length and
split into batches; the batch sizes of sampling and training are those with which PEFT is fastest.
Within a batch it still generates more tokens than were asked for; completions of one prompt do not
share its prefill.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from redqueen.cli.bench.workload import bench_base, time_call
from redqueen.config.engine import LoraConfig
from redqueen.engine.protocol import SampleRequest, TrainSample
from redqueen.errors import ConfigError

_SAMPLE_BATCH_SIZES = 4, 16, 64
_TRAIN_BATCH_SIZES = 8, 32

T = TypeVar("T", SampleRequest, TrainSample)


class PeftBaseline:
    """Each member by itself: `generate()` for its requests, then one optimizer step."""

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
        self.where, self.members = where, members
        self.sample_batch_size, self.train_batch_size = (
            _SAMPLE_BATCH_SIZES[0],
            _TRAIN_BATCH_SIZES[0],
        )
        self.optimizers = []
        for slot in range(members):
            self.model.set_adapter(str(slot))
            self.optimizers.append(
                torch.optim.AdamW(
                    [weight for weight in self.model.parameters() if weight.requires_grad], lr=1e-6
                )
            )

    def choose_sample_batch_size(self, requests: Sequence[SampleRequest]) -> None:
        def run(size: int) -> None:
            self.sample_batch_size = size
            self.generate(requests)

        self.sample_batch_size = self._fastest(_SAMPLE_BATCH_SIZES, run)

    def choose_train_batch_size(self, samples: Sequence[TrainSample]) -> None:
        def run(size: int) -> None:
            self.train_batch_size = size
            self.train(samples)

        self.train_batch_size = self._fastest(_TRAIN_BATCH_SIZES, run)

    def _fastest(self, sizes: Sequence[int], run: Callable[[int], None]) -> int:
        run(sizes[0])  # warm-up
        return min(sizes, key=lambda size: time_call(lambda: run(size), self.where))

    def generate(self, requests: Sequence[SampleRequest]) -> None:
        for slot in range(self.members):
            mine = [request for request in requests if request.slot == slot]
            self.model.set_adapter(str(slot))
            for batch in _split(mine, lambda request: request.max_tokens, self.sample_batch_size):
                ids = torch.tensor([request.prompt for request in batch], device=self.where)
                with torch.inference_mode():
                    self.model.generate(
                        input_ids=ids,
                        attention_mask=torch.ones_like(ids),
                        do_sample=True,
                        max_new_tokens=batch[-1].max_tokens,
                        eos_token_id=None,
                        pad_token_id=0,
                    )

    def train(self, samples: Sequence[TrainSample]) -> None:
        for slot in range(self.members):
            mine = [sample for sample in samples if sample.slot == slot]
            self.model.set_adapter(str(slot))
            total = sum(len(sample.completion) for sample in mine)
            for batch in _split(mine, lambda sample: len(sample.completion), self.train_batch_size):
                self._backward(batch, total)
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


def _split(items: Sequence[T], length: Callable[[T], int], size: int) -> Iterator[list[T]]:
    """Batches of items of about one length, the shortest first."""
    ordered = sorted(items, key=length)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]
