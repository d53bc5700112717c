"""Models and samplers as the server holds them."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redqueen.serve.commands import Command, ForwardBackward, ModelShape, SampleOrder
from redqueen.serve.futures import Future
from redqueen.serve.journal import Journal
from redqueen.serve.saved import SavedFolders
from redqueen.serve.store import ModelFolder, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from redqueen.models.adapter import Adapter


TOKEN_BYTES = 64
"""Of a request, for each of its tokens: more than any needs."""
SESSION_S = 300.0
"""A session from which nothing has come for so long does not count: its client has gone, or
sleeps."""


def long_ago() -> float:
    """When what was there before a restart was heard of last."""
    return time.monotonic() - SESSION_S


@dataclass(slots=True)
class Opened:
    """A sampling session: what it samples from. None: the base."""

    id: str
    path: str | None
    sequence: int | None
    """The command that saved what it samples from."""
    used: float = field(default_factory=time.monotonic)

    def entry(self) -> dict[str, Any]:
        """As it is in the journal."""
        return {"sampler": self.id, "path": self.path, "sequence": self.sequence}


@dataclass(slots=True, eq=False)
class Session:
    id: str
    tenant: str
    seen: float = field(default_factory=time.monotonic)
    over: bool = False
    samplers: dict[str, Opened] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        return not self.over and time.monotonic() - self.seen < SESSION_S

    def touch(self) -> None:
        self.seen = time.monotonic()

    def entries(self) -> list[dict[str, Any]]:
        """As it is in the journal."""
        over = [{"over": self.id}] if self.over else []
        return [self.entry(), *(one.entry() for one in self.samplers.values()), *over]

    def entry(self) -> dict[str, Any]:
        return {"session": self.id}


@dataclass(slots=True, eq=False, weakref_slot=True)
class SamplerWeights:
    """Weights that do not change any more. As long as those of the model they were taken from are
    the same, they are nowhere else; before the model changes they are read."""

    id: str
    tenant: str | None
    """None: everybody may sample from it."""
    model: "Model | None" = None
    adapter: "Adapter | None" = None
    folder: Path | None = None
    """A PEFT folder."""
    tasks: int = 0
    """Requests that need it."""

    def release(self) -> None:
        """One request less needs it."""
        self.tasks -= 1

    @property
    def is_current(self) -> bool:
        """Whether the model still has these weights. One that is over has none."""
        has_own = self.adapter is not None or self.folder is not None
        return self.model is not None and not self.model.over and not has_own


@dataclass(slots=True)
class Progress:
    """Of a pass that is computed in parts."""

    done: int = 0
    """Data that were computed."""
    until: int = 0
    """Up to where this turn's part goes."""
    loss: float = 0.0
    logprobs: list[tuple[float, ...]] = field(default_factory=list)
    before: Any = None
    """The gradients before its first part; None: there were none."""


@dataclass(slots=True)
class Queued:
    """A command in its place in the order of its model."""

    sequence: int
    command: Command
    future: Future
    record: bytes
    """As it is in the journal."""
    progress: Progress = field(default_factory=Progress)

    @property
    def left(self) -> int:
        """Tokens that are to be computed."""
        if not isinstance(self.command, ForwardBackward):
            return 0
        return sum(len(datum.tokens) for datum in self.command.data[self.progress.done :])

    def advance(self, tokens: int) -> int:
        """Decide on the part that is computed next: as many data as fit, and one at least. Returns
        its tokens."""
        assert isinstance(self.command, ForwardBackward)
        progress, taken = self.progress, 0
        progress.until = progress.done
        for datum in self.command.data[progress.done :]:
            if taken and taken + len(datum.tokens) > tokens:
                break
            taken += len(datum.tokens)
            progress.until += 1
        return taken

    @property
    def begun(self) -> bool:
        """Whether there are gradients of a part of it."""
        command = self.command
        has_some = bool(self.progress.done) and not self.future.done
        return has_some and isinstance(command, ForwardBackward) and command.backward


@dataclass(slots=True, eq=False)
class Model:
    id: str
    tenant: str
    session: str
    shape: ModelShape
    files: ModelFolder
    journal: Journal
    metadata: dict[str, Any] = field(default_factory=dict)
    executed: int = 0
    """The last command that was carried out."""
    stepped: int = 0
    """The last command that changed the weights."""
    checkpointed: int = 0
    """The last step in the checkpoint; 0: there is none, the model is new."""
    settled: int = 0
    """The last command that need not be carried out again after a kill."""
    steps: int = 0
    steps_at_checkpoint: int = 0
    waiting: dict[int, Queued] = field(default_factory=dict)
    reserved: dict[int, bytes] = field(default_factory=dict)
    """Records of commands that are being written to the journal."""
    history: dict[int, bytes] = field(default_factory=dict)
    """Records of commands that were carried out and are not settled."""
    history_bytes: int = 0
    pending: list[bytes] = field(default_factory=list)
    """Records of passes whose gradients wait for a step."""
    pending_tokens: int = 0
    samplers: dict[str, SamplerWeights] = field(default_factory=dict)
    """Unnamed ones, oldest first."""
    last_used: float = field(default_factory=time.monotonic)
    busy: bool = False
    turn: int = 0
    """When it had its last one."""
    over: bool = False
    """Its session has ended. What was saved is left of it."""

    @property
    def next(self) -> Queued | None:
        """The command whose turn it is, once all before it have come."""
        return None if self.busy else self.waiting.get(self.executed + 1)

    @property
    def has_gap(self) -> bool:
        return bool(self.waiting) and self.executed + 1 not in self.waiting

    @property
    def begun(self) -> Queued | None:
        """The pass of which a part was computed."""
        queued = self.waiting.get(self.executed + 1)
        return queued if queued is not None and queued.begun else None

    @property
    def has_gradients(self) -> bool:
        return bool(self.pending) or self.begun is not None

    @property
    def unsettled_bytes(self) -> int:
        """Of commands that no checkpoint takes up while gradients wait for a step, besides what
        these are made of."""
        return self.history_bytes - TOKEN_BYTES * self.pending_tokens if self.pending else 0

    def forget_gradients(self) -> None:
        self.pending.clear()
        self.pending_tokens = 0

    @property
    def is_changed(self) -> bool:
        """Whether the checkpoint is behind the weights."""
        return self.stepped > self.checkpointed

    @property
    def saved(self) -> SavedFolders:
        return SavedFolders(self.files.folder)

    def request_id(self, sequence: int) -> str:
        return f"{self.id}:{sequence}"

    def write(self, answers: Mapping[str, Any]) -> None:
        """To the disk: what it is, and answers that no replay of its journal gives again."""
        state = {
            "id": self.id,
            "session": self.session,
            "shape": asdict(self.shape),
            "metadata": self.metadata,
            "checkpoint": self.checkpointed,
            "settled": self.settled,
            "steps": self.steps_at_checkpoint,
            "answers": answers,
            "over": self.over,
        }
        write_json(self.files.folder / "model.json", state)


@dataclass(slots=True, eq=False)
class Sequence:
    """One completion on its way."""

    task: "SampleTask"
    seed: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str = ""


@dataclass(slots=True, eq=False)
class SampleTask:
    future: Future
    order: SampleOrder
    weights: SamplerWeights
    max_tokens: int
    stop_tokens: frozenset[int]
    stop_texts: tuple[str, ...]
    sequences: list[Sequence] = field(default_factory=list)
    on_piece: "Callable[[int, list[int], list[float], str], None] | None" = None
    """Told of new tokens: the completion's number, tokens, log-probabilities, finish reason."""
    prompt_logprobs: list[float] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for completions that can be sampled in one call."""
        order = self.order
        return order.temperature == 0, order.top_p, self.stop_tokens, self.stop_texts

    @property
    def done(self) -> bool:
        scored = self.prompt_logprobs is not None or not self.order.prompt_logprobs
        return scored and all(sequence.finish_reason for sequence in self.sequences)

    def to_result(self) -> dict[str, Any]:
        return {
            "type": "sample",
            "prompt_logprobs": self.prompt_logprobs,
            "sequences": [
                {"tokens": one.tokens, "logprobs": one.logprobs, "stop_reason": one.finish_reason}
                for one in self.sequences
            ],
        }


def rotate(names: list[str], first: int) -> Iterator[str]:
    """All of them, from another one each time: nobody is always first."""
    for offset in range(len(names)):
        yield names[(first + offset) % len(names)]
