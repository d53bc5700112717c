"""How much of a turn each tenant gets: as much as the others, however much it has sent. Large
requests are computed in parts, and in between others have theirs. Counted in tokens and never in
seconds, so that equal requests have equal turns."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from redqueen.serve.commands import ForwardBackward, LoadWeights, SaveWeights
from redqueen.serve.state import Model, Queued, rotate

T = TypeVar("T")
Work = tuple[Model, Queued]


@dataclass(frozen=True, slots=True)
class Shares:
    floor: int
    """Tokens of a tenant in a turn even if others have sent fewer: with less the device would be
    idle, and nobody would be served sooner."""
    most: int
    """Tokens of a turn, of all tenants together: whoever comes meanwhile waits for no more. With
    many tenants the floors may add up to more."""

    @classmethod
    def for_training(cls, on_gpu: bool) -> "Shares":
        floor = 4096 if on_gpu else 2048
        return cls(floor, 8 * floor)

    @classmethod
    def for_sampling(cls, on_gpu: bool) -> "Shares":
        """Prompts count, too, and a decode step costs about the same for one sequence and for
        many: so more tokens."""
        floor = 32_768 if on_gpu else 8192
        return cls(floor, 8 * floor)

    def each(self, wanted: Collection[int]) -> int:
        """Tokens that each tenant may have computed, from what each of them has sent."""
        if not wanted:
            return self.floor
        return max(self.floor, min(*wanted, self.most // len(wanted)))


def pick(
    waiting: Mapping[str, Sequence[T]], cost: Callable[[T], int], shares: Shares
) -> dict[str, list[T]]:
    """Of each tenant the first ones that fit into its share; one always does."""
    share = shares.each([sum(map(cost, own)) for own in waiting.values() if own])
    picked: dict[str, list[T]] = {}
    for tenant, own in waiting.items():
        left = share
        for one in own:
            if left < share and cost(one) > left:
                break
            left -= max(1, cost(one))
            picked.setdefault(tenant, []).append(one)
    return picked


def take_turns(lists: Mapping[str, Iterator[T]], first: int, most: int) -> list[T]:
    """Up to so many, one of each tenant in turn."""
    taken: list[T] = []
    names = list(rotate(sorted(lists), first))
    while names and len(taken) < most:
        for name in list(names):
            one = next(lists[name], None) if len(taken) < most else None
            if one is None:
                names.remove(name)
            else:
                taken.append(one)
    return taken


def is_pass(queued: Queued | None) -> bool:
    """Whether the command takes the device's time, and not next to nothing."""
    return queued is not None and isinstance(queued.command, ForwardBackward)


def take_commands(
    ready: Mapping[str, Sequence[Model]], shares: Shares, first: int, most: int
) -> list[Work]:
    """The next command of up to `most` models, or a part of it."""
    wanted = {
        tenant: sum(model.next.left for model in models if model.next)
        for tenant, models in ready.items()
    }
    share = shares.each([tokens for tokens in wanted.values() if tokens])
    own = {tenant: _of_tenant(models, share, shares.floor) for tenant, models in ready.items()}
    works = take_turns(own, first, most)
    for model, _ in works:
        model.turn = first
    return works


def _of_tenant(models: Sequence[Model], share: int, floor: int) -> Iterator[Work]:
    """What fits into the share: what was begun before what was not, and passes of one loss, as
    those of another are a pass of their own. What costs next to nothing always fits."""
    left, chosen = share, None

    def turn(model: Model) -> tuple[bool, int]:
        return not (model.next and model.next.progress.done), model.turn

    for model in sorted(models, key=turn):
        queued = model.next
        if queued is None:
            continue
        command = queued.command
        if isinstance(command, ForwardBackward):
            kind = command.loss, command.backward
            if left <= 0 or (chosen or kind) != kind:
                continue
            chosen = kind
            left -= queued.advance(left)
        elif isinstance(command, SaveWeights | LoadWeights):
            if left <= 0:
                continue
            left -= floor  # the disk
        yield model, queued
