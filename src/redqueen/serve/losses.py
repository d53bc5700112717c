"""The losses of the Tinker API: sums over tokens, with settings of their own in every call.

Rows of the loss table under the API's names. A loss of your own is named by its import path, and
only where whoever started the server allows it: a request cannot make the server import anything.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from redqueen.engine.protocol import Loss, LossBatch
from redqueen.errors import ConfigError
from redqueen.serve.commands import LossSettings, Refused
from redqueen.stages.update.losses import LOSSES, BoundLoss, Clipped, Reinforce

if TYPE_CHECKING:
    from torch import Tensor

SUPPORTED = ("cross_entropy", "importance_sampling", "ppo", "cispo", "dro")
_SETTINGS: Mapping[str, Mapping[str, float]] = {
    "cross_entropy": {},
    "importance_sampling": {},
    "ppo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
    "cispo": {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2},
    "dro": {"beta": 0.05},
}
"""Of each loss its settings and their defaults."""
_TINY = 1e-9
"""In our table zero means no clipping; here a threshold of 1 clips at 1."""


def check_loss(name: str, given: Mapping[str, Any], allowed: Collection[str]) -> LossSettings:
    """The loss of a call, or an error that says what can be had."""
    if name not in _SETTINGS and name not in allowed:
        own = f", and of this server's own: {', '.join(sorted(allowed))}" if allowed else ""
        raise Refused(
            f"the loss '{name}' is not supported; there are {', '.join(SUPPORTED)}{own}. "
            "`forward_backward_custom` computes any loss on the client. One by import path is "
            "allowed with `redqueen serve --loss package.module:name`."
        )
    known = _SETTINGS.get(name)
    for key, value in given.items():
        if isinstance(value, str):
            raise Refused(f"loss_fn_config['{key}'] is a text; {name} takes numbers")
        if known is not None and key not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise Refused(f"the loss {name} has no setting '{key}': {takes}")
    return LossSettings(name, tuple(sorted((key, float(value)) for key, value in given.items())))


def bind(chosen: LossSettings) -> Loss:
    """The loss as an engine takes it."""
    name, given = chosen.name, dict(chosen.settings)
    if name not in _SETTINGS:
        return Loss(_of_import_path(name, given), "sum")
    settings = {**_SETTINGS[name], **given}
    if name == "cross_entropy":  # the weights are where advantages are
        return Loss(BoundLoss("reinforce", Reinforce(max_ratio=0)), "sum")
    if name == "dro":
        return Loss(_Dro(settings["beta"]), "sum")
    clipped = Clipped(type="ppo", clip_low=0, clip_high=0)
    if name != "importance_sampling":
        low, high = settings["clip_low_threshold"], settings["clip_high_threshold"]
        clipped = Clipped(type=name, clip_low=max(1 - low, _TINY), clip_high=max(high - 1, _TINY))
    return Loss(BoundLoss("cispo" if name == "cispo" else "ppo", clipped), "sum")


def check_importable(path: str) -> None:
    """Fail when the server starts, not in a request."""
    if ":" not in path:
        raise ConfigError(f"--loss takes an import path, package.module:name; got '{path}'")
    LOSSES[path]


def _of_import_path(path: str, settings: Mapping[str, float]) -> "Callable[[LossBatch], Tensor]":
    return BoundLoss(path, dict(settings))


class _Dro:
    """Direct reward optimization (Richemond et al. 2024, arXiv 2405.19107), with advantages in
    place of a value function: -(A log p - beta / 2 (log p - log q)^2), q as sampled."""

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def __call__(self, batch: LossBatch) -> "Tensor":
        away = batch.logprobs - batch.sampled_logprobs
        return -(batch.logprobs * batch.advantages) + 0.5 * self.beta * away * away
