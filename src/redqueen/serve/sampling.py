"""Samples for all tenants at once.

Completions take turns: a long one is sampled some hundred tokens at a time, and in between others
have theirs. It goes on with the random stream where it was, so turns do not show in the text.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redqueen.engine.protocol import Completion, SampleRequest, SamplingParams, TrainSample
from redqueen.errors import EngineError, RedQueenError
from redqueen.serve.commands import LossSettings
from redqueen.serve.losses import bind
from redqueen.serve.shares import Shares, pick, take_turns
from redqueen.serve.state import SampleTask, Sequence

if TYPE_CHECKING:
    from redqueen.serve.service import Service
    from redqueen.serve.slots import SlotPool

log = logging.getLogger(__name__)
_STREAMED_TOKENS = 16
_SHORT_TURN = 64
"""Tokens of a turn that tenants share, at least: with every turn prompts are computed again."""
_BAD_REQUEST = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a value raises that no check has refused. Whatever else torch raises may have broken the
device: that ends the server, and a restart goes on."""
_KINDS = 32
"""Sampling settings for which the engine keeps what it captured on a GPU; then it forgets all."""


@dataclass(slots=True)
class Placed:
    sequence: Sequence
    slot: int


class SampleQueue:
    """What waits to be sampled, by tenant. The service's lock is held around every call."""

    def __init__(self) -> None:
        self.waiting: dict[str, deque[Sequence]] = {}
        self.to_score: list[SampleTask] = []
        self._first = 0

    def add(self, task: SampleTask) -> None:
        self.waiting.setdefault(task.future.tenant, deque()).extend(task.sequences)
        if task.order.prompt_logprobs:
            self.to_score.append(task)

    def put_back(self, sequence: Sequence) -> None:
        self.waiting[sequence.task.future.tenant].append(sequence)

    def __bool__(self) -> bool:
        return bool(self.to_score) or any(self.waiting.values())

    def take(self, most: int, cost: Callable[[Sequence], int], shares: Shares) -> list[Sequence]:
        """Up to so many completions, one of each tenant in turn, as far as its share goes."""
        self._first += 1
        for name, own in self.waiting.items():  # canceled or failed meanwhile
            self.waiting[name] = deque(one for one in own if not one.task.future.done)
        picked = pick({name: _of_one_kind(own) for name, own in self.waiting.items()}, cost, shares)
        taken = take_turns({name: iter(own) for name, own in picked.items()}, self._first, most)
        gone = set(map(id, taken))
        for name, own in self.waiting.items():
            self.waiting[name] = deque(one for one in own if id(one) not in gone)
        return taken

    def take_prompts(self, shares: Shares) -> list[SampleTask]:
        """Those whose log-probabilities are computed next."""
        waiting: dict[str, list[SampleTask]] = {}
        for task in self.to_score:
            if not task.future.done:
                waiting.setdefault(task.future.tenant, []).append(task)
        picked = pick(waiting, lambda task: len(task.order.prompt), shares)
        taken = {id(task): task for own in picked.values() for task in own}
        self.to_score = [task for own in waiting.values() for task in own if id(task) not in taken]
        return list(taken.values())


def _of_one_kind(own: Iterable[Sequence]) -> list[Sequence]:
    """Those that can be sampled together with the first: others are a call of their own."""
    own = list(own)
    return [one for one in own if one.task.key == own[0].task.key]


class SampleRunner:
    """Runs in the engine's thread."""

    def __init__(self, service: "Service", slots: "SlotPool", turn_tokens: int) -> None:
        self.service, self.engine, self.slots = service, service.engine, slots
        self.turn_tokens = turn_tokens
        self.shares = Shares.for_sampling(self.engine.base.on_gpu)
        self.calls: list[int] = []
        """Tenants in each call, for whoever measures."""
        self._kinds: set[tuple[Any, ...]] = set()

    def run(self, most: int) -> None:
        """One turn of whatever waits."""
        with self.service.lock:
            sequences = self.service.queue.take(most, self._cost, self.shares)
            to_score = self.service.queue.take_prompts(self.shares)
        placed, pinned = list[Placed](), set[int]()
        for sequence in sequences:
            slot = self._place(sequence.task, pinned)
            if slot is not None:
                pinned.add(slot)
                placed.append(Placed(sequence, slot))
            elif not sequence.task.future.done:
                with self.service.lock:
                    self.service.queue.put_back(sequence)
        self._score(to_score, pinned)
        groups: dict[tuple[Any, ...], list[Placed]] = {}
        for one in placed:
            groups.setdefault(one.sequence.task.key, []).append(one)
        turn = self._turn(sequences)
        for key, group in groups.items():
            self._sample_or_fail(key, group, turn)

    def _wanted(self, sequence: Sequence) -> int:
        """Tokens that a turn adds to a completion, if no other tenant waits."""
        task = sequence.task
        turn = _STREAMED_TOKENS if task.order.streams else self.turn_tokens
        return min(task.max_tokens - len(sequence.tokens), turn)

    def _cost(self, sequence: Sequence) -> int:
        """Tokens that are computed for it in a turn."""
        return len(sequence.task.order.prompt) + len(sequence.tokens) + self._wanted(sequence)

    def _turn(self, sequences: Iterable[Sequence]) -> int:
        """Tokens that a turn adds at the most: nobody waits much longer for others than its own
        completions take."""
        longest: dict[str, int] = {}
        for one in sequences:
            tenant = one.task.future.tenant
            longest[tenant] = max(longest.get(tenant, 0), self._wanted(one))
        return max(_SHORT_TURN, min(longest.values(), default=0))

    def _sample_or_fail(self, key: tuple[Any, ...], group: list[Placed], turn: int) -> None:
        """A group together; where that fails for what was asked, each request by itself."""
        group = [one for one in group if not one.sequence.finish_reason]
        tasks = list(dict.fromkeys(one.sequence.task for one in group))
        try:
            self._sample(key, group, turn)
        except EngineError:
            raise
        except (RedQueenError, *_BAD_REQUEST) as error:
            if len(tasks) == 1:
                log.exception("a request for samples failed")
                self._fail(tasks, str(error))
                return
            for task in tasks:
                own = [one for one in group if one.sequence.task is task]
                self._sample_or_fail(key, own, turn)

    def _place(self, task: SampleTask, pinned: set[int]) -> int | None:
        weights = task.weights
        who = weights.model if weights.is_current else weights
        assert who is not None
        try:
            return self.slots.place(who, pinned)
        except EngineError:
            raise
        except (RedQueenError, OSError) as error:
            self._fail([task], str(error))
            return None

    def _sample(self, key: tuple[Any, ...], group: list[Placed], turn: int) -> None:
        greedy, top_p, stop_tokens, stop_texts = key
        self._kinds.add(key)
        if len(self._kinds) > _KINDS:
            self.engine.close()
            self._kinds = {key}
        params = SamplingParams(0.0 if greedy else 1.0, stop_tokens, stop_texts, top_p)
        requests = [self._request(one, turn) for one in group]

        def on_finish(finished: Iterable[tuple[int, Completion]]) -> None:
            """Whoever has all that it asked for does not wait for the others."""
            for place, completion in finished:
                self._extend(group[place].sequence, completion)
                with self.service.lock:
                    self.service.finish_sample(group[place].sequence.task)

        self.engine.sample(requests, params, on_finish)
        self.calls.append(len({one.sequence.task.future.tenant for one in group}))
        with self.service.lock:
            for one in group:
                if not one.sequence.finish_reason:
                    self.service.queue.put_back(one.sequence)

    def _request(self, one: Placed, turn: int) -> SampleRequest:
        sequence, task = one.sequence, one.sequence.task
        return SampleRequest(
            (*task.order.prompt, *sequence.tokens),
            min(self._wanted(sequence), turn),
            one.slot,
            self.engine.seed_after(sequence.seed, len(sequence.tokens)),
            task.order.temperature or None,
        )

    def _extend(self, sequence: Sequence, completion: Completion) -> None:
        task, before = sequence.task, len(sequence.tokens)
        sequence.tokens += completion.tokens
        sequence.logprobs += completion.logprobs
        if completion.finish_reason == "stop":
            sequence.finish_reason = "stop"
        elif before and task.stop_texts and (cut := self._find_stop(sequence)):
            del sequence.tokens[cut:], sequence.logprobs[cut:]
            sequence.finish_reason = "stop"
        elif len(sequence.tokens) >= task.max_tokens:
            sequence.finish_reason = "length"
        if task.on_piece is not None:
            new = slice(before, None)
            number = task.sequences.index(sequence)
            task.on_piece(
                number, sequence.tokens[new], sequence.logprobs[new], sequence.finish_reason
            )

    def _find_stop(self, sequence: Sequence) -> int:
        """The fewest tokens with a stop text, which may lie across two turns; 0: there is none."""
        texts, decode = sequence.task.stop_texts, self.engine.tokenizer.decode

        def has_stop(count: int) -> bool:
            return any(text in decode(sequence.tokens[:count]) for text in texts)

        low, high = 1, len(sequence.tokens)
        if not has_stop(high):
            return 0
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if has_stop(middle) else (middle + 1, high)
        return low

    def _score(self, tasks: list[SampleTask], pinned: set[int]) -> None:
        """Log-probabilities of prompts, all in one pass."""
        ready: list[tuple[SampleTask, TrainSample]] = []
        for task in tasks:
            if task.future.done:
                continue
            slot = self._place(task, pinned)
            if slot is None:
                if not task.future.done:
                    with self.service.lock:
                        self.service.queue.to_score.append(task)
                continue
            pinned.add(slot)
            prompt = task.order.prompt
            if len(prompt) < 2:
                task.prompt_logprobs = []
            else:
                ready.append((task, TrainSample(slot, prompt[:1], prompt[1:], 0.0)))
        if ready:
            self._guard([task for task, _ in ready], lambda: self._score_prompts(ready))
        with self.service.lock:
            for task in tasks:
                self.service.finish_sample(task)

    def _score_prompts(self, ready: list[tuple[SampleTask, TrainSample]]) -> None:
        samples = [sample for _, sample in ready]
        loss = bind(LossSettings("cross_entropy"))
        scored = self.engine.score(samples, loss, backward=False)
        for (task, _), logprobs in zip(ready, scored.logprobs, strict=True):
            task.prompt_logprobs = list(logprobs)

    def _guard(self, tasks: Iterable[SampleTask], do: Callable[[], None]) -> None:
        try:
            do()
        except EngineError:
            raise
        except (RedQueenError, *_BAD_REQUEST) as error:
            log.exception("log-probabilities of prompts failed")
            self._fail(tasks, str(error))

    def _fail(self, tasks: Iterable[SampleTask], message: str) -> None:
        with self.service.lock:
            for task in dict.fromkeys(tasks):
                self.service.futures.fail(task.future, message)
                self.service.finish_sample(task)
