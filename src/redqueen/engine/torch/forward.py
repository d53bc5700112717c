"""Forward passes of the model as the engine needs them: prefill, a decode step, and whole sequences
for training."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from redqueen.engine.torch.attention import takes_kv_ranges, use_grouped_attention
from redqueen.engine.torch.cache import KVCache, PromptKV
from redqueen.engine.torch.kernel_layers import use_kernels
from redqueen.engine.torch.population import Population
from redqueen.engine.torch.routing import Routing, put
from redqueen.models.base import Base


class Forward:
    """A base model and, where there is one, the population of adapters on it."""

    def __init__(self, base: Base, population: Population | None) -> None:
        self.base, self.population = base, population
        use_grouped_attention(base.model)
        self.has_kv_ranges = use_kernels(base.model) and takes_kv_ranges(base.model)
        """Whether decode attention takes the range of positions that each sequence sees, and not a
        mask over all positions."""
        self.config = base.model.config.get_text_config()
        self.layers: int = self.config.num_hidden_layers
        self.backbone: Any = base.model.get_decoder()
        self.head: Any = base.model.get_output_embeddings()
        self.softcap: float | None = getattr(self.config, "final_logit_softcapping", None)
        self.eager = base.model.config._attn_implementation == "eager"
        """Eager attention adds its mask to the scores, so it needs one of floats. Torch's attention
        takes booleans too, but would convert them in every layer."""
        self.sliding_window: int | None = getattr(self.config, "sliding_window", None)
        self.layer_types = sorted(set(getattr(self.config, "layer_types", None) or []))

    def routing(self, adapters: Sequence[int], tokens: int = 1) -> Routing | None:
        """The routing of sequences of so many tokens, given the adapter of each."""
        return None if self.population is None else Routing.of(adapters, self.population, tokens)

    def block_routing(self, owners: Sequence[int]) -> Routing | None:
        """The routing of equal blocks of sequence slots, given the adapter of each block. On a GPU
        it can be changed in place."""
        if self.population is None:
            return None
        if self.base.device.type == "cuda":
            return Routing(put(torch.tensor(owners), self.base.device), len(owners))
        return Routing.of_runs(owners)

    def prefill(
        self, ids: Tensor, last: Tensor, cache: PromptKV, routing: Routing | None
    ) -> Tensor:
        """Logits after each prompt, [prompts, vocabulary], at its last token; keys and values go
        into the cache. `ids` are [prompts, tokens], padded on the right, which causal attention
        does not see."""
        hidden = self._run(ids, None, None, cache, routing)
        return self.logits(hidden[torch.arange(len(ids), device=ids.device), last])

    def decode(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: KVCache,
        window: int,
        routing: Routing | None,
    ) -> Tensor:
        """Logits after one more token per sequence slot, [seq_slots, vocabulary]; `tokens` and
        `positions` are [seq_slots]."""
        masks = self._decode_masks(positions, window)
        hidden = self._run(tokens[:, None], positions[:, None], masks, cache, routing)
        return self.logits(hidden[:, 0])

    def sequences(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, routing: Routing | None
    ) -> Tensor:
        """Hidden states of whole sequences, [sequences, tokens, hidden]. The mask, [sequences, 1,
        tokens, tokens], says what a token sees; without one, everything before it."""
        distance = (positions[:, :, None] - positions[:, None, :])[:, None]
        masks = None if mask is None else self._masks(mask, distance)
        return self._run(ids, positions, masks, None, routing)

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(hidden)
        return logits if self.softcap is None else torch.tanh(logits / self.softcap) * self.softcap

    def _decode_masks(self, positions: Tensor, window: int) -> Any:
        """What a token at each position sees: KV ranges, [seq_slots, 1, 1, 2] with the first and
        last position, or float masks over the window, [seq_slots, 1, 1, window]."""
        if self.has_kv_ranges:
            zero = torch.zeros_like(positions)
            near = zero
            if self.sliding_window is not None:
                near = (positions - self.sliding_window + 1).clamp(min=0)
            return self._by_layer_type(
                *(torch.stack((first, positions), -1)[:, None, None] for first in (zero, near))
            )
        distance = positions[:, None] - torch.arange(window, device=positions.device)
        distance = distance[:, None, None, :]
        return self._masks(distance >= 0, distance, as_floats=True)

    def _masks(self, seen: Tensor, distance: Tensor, as_floats: bool = False) -> Any:
        """Masks for full and for sliding-window attention; `distance` is how far back a position
        lies."""
        near = seen if self.sliding_window is None else seen & (distance < self.sliding_window)
        if self.eager or as_floats:
            seen, near = (
                torch.zeros_like(mask, dtype=self.base.dtype).masked_fill(
                    ~mask, torch.finfo(self.base.dtype).min
                )
                for mask in (seen, near)
            )
        return self._by_layer_type(seen, near)

    def _by_layer_type(self, full: Tensor, sliding: Tensor) -> Any:
        """The masks in the form that the model takes: one, or one for each type of layer."""
        if not self.layer_types:  # all layers are alike
            return sliding
        masks = {
            kind: sliding if kind == "sliding_attention" else full for kind in self.layer_types
        }
        return masks if len(masks) > 1 else masks[self.layer_types[0]]

    def _run(
        self, ids: Tensor, positions: Tensor | None, masks: Any, cache: Any, routing: Routing | None
    ) -> Tensor:
        arguments = {
            "input_ids": ids,
            "attention_mask": masks,
            "position_ids": positions,
            "past_key_values": cache,
            "use_cache": cache is not None,
        }
        if self.population is None:
            return self.backbone(**arguments).last_hidden_state  # type: ignore[no-any-return]
        with self.population.routed(routing):
            return self.backbone(**arguments).last_hidden_state  # type: ignore[no-any-return]
