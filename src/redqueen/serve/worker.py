"""The clock: one thread owns the engine, gathers what has come from all tenants, and has it
computed together."""

import logging
import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from redqueen.serve.backlog import by_tenant, expects_more, has_work, ready_models, sweep
from redqueen.serve.sampling import SampleRunner
from redqueen.serve.shares import Shares, Work, is_pass, take_commands
from redqueen.serve.state import Model
from redqueen.serve.training import Trainer

if TYPE_CHECKING:
    from redqueen.serve.service import Service

log = logging.getLogger(__name__)
_ROUNDS = 32
"""Of commands between two calls of the sampler, at most: whoever sends nothing but short ones does
not keep others from their samples."""
_ACTIVE_S = 1.0
"""Tenants that were served so recently are waited for."""
_GATHER_FRAC = 0.25
"""Of the time of the last turn: so long is waited at most, if no setting says less."""
_GAP_S = 120.0
"""A command that has not come for so long, while later ones wait, is given up."""


class Worker(threading.Thread):
    def __init__(
        self,
        service: "Service",
        *,
        gather_s: float = 0.1,
        turn_tokens: int = 512,
        checkpoint_every: int = 20,
    ) -> None:
        super().__init__(name="redqueen-engine", daemon=True)
        self.service, self.gather_s = service, gather_s
        self.shares = Shares.for_training(service.engine.base.on_gpu)
        self.trainer = Trainer(service, checkpoint_every)
        self.runner = SampleRunner(service, self.trainer.slots, turn_tokens)
        self.failure: BaseException | None = None
        self._stopping = False
        self._first = 0
        self._last_turn_s = 0.0

    def stop(self) -> None:
        """Ends after the turn that is under way; models are checkpointed."""
        with self.service.lock:
            self._stopping = True
            self.service.lock.notify_all()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        try:
            while self._gather():
                started = time.monotonic()
                self.turn()
                self._last_turn_s = time.monotonic() - started
            self._park_all()
        except BaseException as error:
            # The engine cannot be trusted any more; the journal has everything.
            log.exception("the engine's thread ended")
            self.failure = error
            self.service.on_failure(error)
            if not isinstance(error, Exception):
                raise

    def turn(self) -> None:
        """One turn of everything that waits. Whoever has just been trained is about to ask for
        samples: those join the samples of others, so that tenants fall into step. A model has one
        pass in a turn, and what it sends before and after. Of a large pass one part is computed,
        and others have theirs before the next."""
        rounds, until, begun, trained = 0, self._patience(), set[str](), set[str]()
        while rounds < _ROUNDS:
            if works := self._take_commands(begun, trained):
                self.trainer.run(works)
                begun |= {model.id for model, queued in works if not queued.future.done}
                trained |= {model.id for model, queued in works if is_pass(queued)}
                rounds, until = rounds + 1, self._patience()
            elif begun or not self._expect_more(until):
                break
        if self.service.queue:
            self.runner.run(self.service.max_num_seqs)
        self._sweep()

    def _gather(self) -> bool:
        """Wait for work, then a little for those who are about to send some. False: it is over."""
        while self._is_idle():
            self._sweep()
        until = self._patience()
        while self._expect_more(until):
            pass
        return not self._stopping

    def _is_idle(self) -> bool:
        """Whether there was nothing to do for a few seconds, or something has changed."""
        with self.service.lock:
            if self._stopping or has_work(self.service):
                return False
            self.service.lock.wait(5.0)
            return True

    def _sweep(self) -> None:
        """What is over goes."""
        with self.service.lock:
            sweep(self.service, _GAP_S)
        self.service.sessions.sweep(self.trainer)

    def _patience(self) -> float:
        """Until when to wait for others."""
        return time.monotonic() + min(self.gather_s, _GATHER_FRAC * self._last_turn_s)

    def _expect_more(self, until: float) -> bool:
        """Whether somebody may still send something; returns when that has come, or at `until`."""
        with self.service.lock:
            left = until - time.monotonic()
            if self._stopping or left <= 0 or not expects_more(self.service, _ACTIVE_S):
                return False
            self.service.lock.wait(left)
            return True

    def _take_commands(self, begun: Collection[str], trained: Collection[str]) -> list[Work]:
        """The next commands of models, as far as they fit into their tenants' shares; another
        tenant first each time. Models that are trained in this turn have no other pass in it. A
        pass of which this turn has computed a part goes on only beside passes of others."""
        self._first += 1
        with self.service.lock:
            ready = by_tenant(
                model
                for own in ready_models(self.service).values()
                for model in own
                if model.id not in trained or model.id in begun or not is_pass(model.next)
            )
            others = [one for own in ready.values() for one in own if one.id not in begun]
            if not any(one.next and one.next.left for one in others):
                ready = by_tenant(others)
            works = take_commands(ready, self.shares, self._first, self.service.engine.slots)
            for model, _ in works:
                model.busy = True
        return works

    def _park_all(self) -> None:
        for slot, who in enumerate(self.trainer.slots.occupants):
            if isinstance(who, Model):
                self.trainer.checkpoints.park(who, slot)
