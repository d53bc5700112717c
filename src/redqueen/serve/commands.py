"""What tenants ask for, as plain values: parsed and checked, whatever it came in as."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from redqueen.engine.protocol import OptimizerSettings, TrainSample
from redqueen.errors import RedQueenError


class Refused(RedQueenError):
    """A request that cannot be served, with the HTTP status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class LossSettings:
    """A loss by name, and the settings of one call. Calls with equal ones share a pass."""

    name: str
    settings: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Datum:
    """A sequence to train on: `targets` are what each of `tokens` should be followed by."""

    tokens: tuple[int, ...]
    targets: tuple[int, ...]
    weights: tuple[float, ...]
    """What each target counts: a weight, or its advantage."""
    logprobs: tuple[float, ...] = ()
    """Of the targets, when they were sampled."""

    def to_sample(self, slot: int) -> TrainSample:
        """What comes before the first target that counts is the prompt, which samples share."""
        tokens, targets = self.tokens, self.targets
        first = next((n for n, weight in enumerate(self.weights) if weight), len(tokens) - 1)
        changed: tuple[int, ...] = ()
        if targets[:-1] != tokens[1:]:  # other targets than the next tokens
            first, changed = 0, targets
        return TrainSample(
            slot,
            tokens[: first + 1],
            (*tokens[first + 1 :], targets[-1]),
            self.weights[first:],
            self.logprobs[first:],
            targets=changed,
        )


@dataclass(frozen=True, slots=True)
class ForwardBackward:
    data: tuple[Datum, ...]
    loss: LossSettings
    backward: bool = True

    @property
    def tokens(self) -> int:
        return sum(len(datum.tokens) for datum in self.data)


@dataclass(frozen=True, slots=True)
class OptimStep:
    settings: OptimizerSettings
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class SaveWeights:
    """`kind`: `weights` with the optimizer's state, `sampler_weights` or `external_weights`
    without."""

    kind: str
    name: str
    overwrite: bool = False
    ttl_s: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Weights as they are now, for a sampler of this id, which nobody has asked to keep."""

    sampler: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class LoadWeights:
    path: str
    optimizer: bool
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """A command that could not be read. It takes its place in the order and fails."""

    reason: str
    tokens: int = 0


Command = ForwardBackward | OptimStep | SaveWeights | Snapshot | LoadWeights | Skip


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Of a new model: its rank, which projections it trains, the seed of its weights."""

    rank: int
    seed: int
    train_attn: bool = True
    train_mlp: bool = True

    def describe(self) -> dict[str, int | bool]:
        """What weights that are saved say of the model that they fit."""
        return {"rank": self.rank, "train_attn": self.train_attn, "train_mlp": self.train_mlp}


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """Completions of one prompt."""

    prompt: tuple[int, ...]
    count: int = 1
    max_tokens: int | None = None
    """None: as many as the context has room for."""
    temperature: float = 1.0
    top_p: float = 1.0
    stop_tokens: frozenset[int] | None = None
    """None, and no stop texts: where the model ends its turn."""
    stop_texts: tuple[str, ...] = ()
    seed: int | None = None
    prompt_logprobs: bool = False
    streams: bool = False
    """Whether somebody watches it being written: it is then sampled a few tokens at a time."""
