"""What can be done with a base's tokenizer alone, without its weights."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from transformers import PreTrainedTokenizerBase

from redqueen.errors import ConfigError
from redqueen.models.bundled import BUNDLED
from redqueen.models.prompt_encoder import Prompt, PromptEncoder


class PromptTokenizer(ABC):
    """Encodes prompts, decodes completions, and knows where they end."""

    name: str
    tokenizer: PreTrainedTokenizerBase

    @property
    @abstractmethod
    def end_tokens(self) -> frozenset[int]:
        """With which the model ends its turn."""

    @property
    def prompt_format(self) -> str:
        """The one it understands best: Pawn is trained on `compact`, others are chat models."""
        return "compact" if self.name in BUNDLED else "chat"

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        if prompt.system is not None and not self.tokenizer.chat_template:
            raise ConfigError(
                f"the base '{self.name}' has no chat template, which the chat prompts need: "
                "use an instruct model, or tasks.prompt_format=compact"
            )
        return self._encoder.encode(prompt)

    @cached_property
    def _encoder(self) -> PromptEncoder:
        return PromptEncoder(self.tokenizer)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def stops(self, texts: Iterable[str]) -> tuple[frozenset[int], tuple[str, ...]]:
        """Stop tokens, and stop texts: those that the model can also spell with several tokens, or
        within a longer one."""
        tokens, spelled = set(self.end_tokens), []
        for text in sorted(set(texts)):
            ids = self._ids(text)
            if len(ids) == 1:
                tokens.add(ids[0])
            if len(ids) != 1 or self._is_part(ids[0]):
                spelled.append(text)
        return frozenset(tokens), tuple(spelled)

    def _is_part(self, token: int) -> bool:
        """Whether other tokens contain this one, as the one of two newlines does that of one."""
        piece = str(self.tokenizer.convert_ids_to_tokens(token))
        return any(piece in other and other != piece for other in self.tokenizer.get_vocab())


@dataclass(frozen=True)
class TokenizerOnly(PromptTokenizer):
    """That of a base whose weights are elsewhere."""

    name: str
    tokenizer: PreTrainedTokenizerBase
    ends: frozenset[int]

    @property
    def end_tokens(self) -> frozenset[int]:
        return self.ends
