"""A conversation with one model, in this process: a member of a run, an adapter or a base."""

from dataclasses import dataclass, field
from typing import Any

from redqueen.engine.protocol import (
    Engine,
    EngineSpec,
    Sampler,
    SampleRequest,
    SamplingParams,
    create_engine,
)
from redqueen.errors import ConfigError, unknown
from redqueen.evaluate.run_members import select_members
from redqueen.rng import seed_for
from redqueen.serve.chat_prompts import encode_chat


@dataclass(slots=True)
class Conversation:
    name: str
    engine: Engine
    sampler: Sampler
    turns: list[dict[str, str]] = field(default_factory=list)

    @property
    def base(self) -> str:
        return self.engine.base.name

    @property
    def is_chat(self) -> bool:
        base = self.engine.base
        return base.has_chat_template and base.prompt_format == "chat"

    def say(
        self, text: str, system: str, max_tokens: int, temperature: float, seed: int = 0
    ) -> str:
        """The reply; both become part of the conversation, where the model has such."""
        asked = {"role": "user", "content": text}
        head = [{"role": "system", "content": system}] if system else []
        messages = [*head, *self.turns, asked] if self.is_chat else [asked]
        prompt = tuple(encode_chat(self.engine, messages))
        room = self.engine.base.context - len(prompt)
        if room < 1:
            raise ConfigError("the conversation is longer than the model's context: begin again")
        tokenizer = self.engine.tokenizer
        stop_tokens, stop_texts = tokenizer.stops(())
        params = SamplingParams(temperature, stop_tokens, stop_texts)
        request = SampleRequest(prompt, min(max_tokens, room), 0, seed_for(seed, "chat"))
        (completion,) = self.sampler.sample([request], params)
        reply = tokenizer.decode(completion.tokens)
        self.turns += [asked, {"role": "assistant", "content": reply}]
        return reply

    def close(self) -> None:
        self.engine.close()


def open_conversation(
    source: str, member: str, base: str | None = None, device: str = "auto"
) -> Conversation:
    selected = select_members(source)
    if selected is None or member == "base":
        place = base or (source if selected is None else selected.config.base)
        engine = create_engine("torch", EngineSpec(place, 0, device=device))
        return Conversation(engine.base.name, engine, engine)
    from redqueen.serve.members import name_members

    named: dict[str, Any] = name_members(selected, base)
    if member not in named:
        raise ConfigError(unknown("member", member, [*named, "base"]))
    config = selected.config
    spec = EngineSpec(
        base or config.base,
        1,
        config.lora,
        device=device,
        dtype=config.dtype,
        fingerprint=selected.fingerprint,
    )
    engine = create_engine("torch", spec)
    engine.write(0, named[member], reset_optimizer=False)
    return Conversation(f"{selected.folder.name}/{member}", engine, engine)
