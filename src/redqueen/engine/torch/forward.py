"""Passes through the model, as the engine needs them: prompts, one token for every lane, and
sequences to learn from."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from redqueen.engine.torch.attention import use_grouped, use_kernels
from redqueen.engine.torch.cache import Lanes, Prompts
from redqueen.engine.torch.population import Population, Routing, put
from redqueen.models.base import Base


class Forward:
    """A base and, where there is one, the population on it."""

    def __init__(self, base: Base, population: Population | None) -> None:
        self.base, self.population = base, population
        use_grouped(base.model)
        self.by_spans = use_kernels(base.model)
        """A decoding step is told from which place to which each lane looks, not by a mask over all
        places."""
        self.config = base.model.config.get_text_config()
        self.layers: int = self.config.num_hidden_layers
        self.backbone: Any = base.model.get_decoder()
        self.head: Any = base.model.get_output_embeddings()
        self.softcap: float | None = getattr(self.config, "final_logit_softcapping", None)
        self.eager = base.model.config._attn_implementation == "eager"
        """Plain attention, which adds its mask; torch's takes one of booleans, but would turn it
        into numbers in every layer."""
        self.window: int | None = getattr(self.config, "sliding_window", None)
        """How far back layers with local attention look."""
        self.layer_types = sorted(set(getattr(self.config, "layer_types", None) or []))

    def routing(self, slots: Sequence[int], tokens: int = 1) -> Routing | None:
        return None if self.population is None else Routing.of(slots, self.population, tokens)

    def blocks(self, slots: Sequence[int]) -> Routing | None:
        """A routing of equal blocks of lanes: on a GPU they may belong to other slots later."""
        if self.population is None:
            return None
        if self.base.device.type == "cuda":
            return Routing(put(torch.tensor(slots), self.base.device), len(slots))
        return Routing.of_runs(slots)

    def prompts(self, ids: Tensor, last: Tensor, cache: Prompts, routing: Routing | None) -> Tensor:
        """Logits after each prompt; keys and values of all go into the cache. Prompts begin at the
        left: what stands behind one is not seen."""
        hidden = self._run(ids, None, None, cache, routing)
        return self.logits(hidden[torch.arange(len(ids), device=ids.device), last])

    def tokens(
        self, tokens: Tensor, positions: Tensor, cache: Lanes, window: int, routing: Routing | None
    ) -> Tensor:
        """Logits after one more token in every lane."""
        hidden = self._run(
            tokens[:, None], positions[:, None], self._seen(positions, window), cache, routing
        )
        return self.logits(hidden[:, 0])

    def sequences(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, routing: Routing | None
    ) -> Tensor:
        """Hidden states of whole sequences. The mask says what a token sees; without one, all that
        stands before it."""
        back = (positions[:, :, None] - positions[:, None, :])[:, None]
        return self._run(
            ids, positions, None if mask is None else self._masks(mask, back), None, routing
        )

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(hidden)
        return logits if self.softcap is None else torch.tanh(logits / self.softcap) * self.softcap

    def cut(self, tokens: list[int], texts: Sequence[str]) -> int | None:
        """How many of the tokens it takes to have written one of the texts; None when there is none
        of them."""
        written = self.base.decode(tokens)
        if not any(text in written for text in texts):
            return None
        low, high = 1, len(tokens)
        while low < high:  # the fewest tokens whose text has it
            middle = (low + high) // 2
            if any(text in self.base.decode(tokens[:middle]) for text in texts):
                high = middle
            else:
                low = middle + 1
        return low

    def _seen(self, positions: Tensor, window: int) -> Any:
        """What a token at each of these positions sees: by spans, [lanes, 1, 1, first and last], or
        by masks over the window."""
        if self.by_spans:
            first = torch.zeros_like(positions)
            near = first if self.window is None else (positions - self.window + 1).clamp(min=0)
            return self._by_layer(
                *(torch.stack((start, positions), -1)[:, None, None] for start in (first, near))
            )
        back = (positions[:, None] - torch.arange(window, device=positions.device))[
            :, None, None, :
        ]
        return self._masks(back >= 0, back, numbers=True)

    def _masks(self, seen: Tensor, back: Tensor, numbers: bool = False) -> Any:
        """Masks: `back` says how far each place lies behind, for layers that look only so far."""
        near = seen if self.window is None else seen & (back < self.window)
        if self.eager or numbers:
            seen, near = (
                torch.zeros_like(mask, dtype=self.base.dtype).masked_fill(
                    ~mask, torch.finfo(self.base.dtype).min
                )
                for mask in (seen, near)
            )
        return self._by_layer(seen, near)

    def _by_layer(self, seen: Tensor, near: Tensor) -> Any:
        """A mask for each sort of layers, in the form that the model takes."""
        if not self.layer_types:  # all layers are alike
            return near
        by_kind = {kind: near if kind == "sliding_attention" else seen for kind in self.layer_types}
        return by_kind if len(by_kind) > 1 else by_kind[self.layer_types[0]]

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
