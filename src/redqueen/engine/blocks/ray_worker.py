"""What a Ray actor runs: a worker whose answers come as a stream."""

import traceback
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from redqueen.engine.blocks.pulse import Pulse
from redqueen.engine.blocks.worker import BlockWorker, Call, Hello
from redqueen.engine.protocol import EngineSpec, create_engine
from redqueen.errors import RedQueenError

Message = tuple[str, Any]
_ENDS = ("done", "failed", "died")


class RayWorker:
    def start(self, spec: EngineSpec) -> Iterator[Message]:
        """First that it is there at all, then what it is."""
        self._timeout_s = spec.config.hang_timeout_s
        yield "placed", None

        def work(messages: "SimpleQueue[Message]") -> Hello:
            engine: Any = create_engine(spec.config.type, spec)
            self.worker = BlockWorker(engine)
            return Hello.of(engine)

        yield from self._stream(work)

    def call(self, block: int, call: Call) -> Iterator[Message]:
        def work(messages: "SimpleQueue[Message]") -> Any:
            result = self.worker.call(
                block, call, lambda columns: messages.put(("finished", columns))
            )
            return result, self.worker.usage

        yield from self._stream(work)

    def _stream(self, work: "Callable[[SimpleQueue[Message]], Any]") -> Iterator[Message]:
        """Completions as they finish, all that have come in the meantime in one message; then the
        result. Where nothing has come for a while, whether it gets on."""
        messages: SimpleQueue[Message] = SimpleQueue()
        thread = Thread(target=_work, args=(work, messages), daemon=True)
        thread.start()
        pulse = Pulse(thread.ident or 0, self._timeout_s)
        kind = ""
        while kind not in _ENDS:
            try:
                kind, content = messages.get(timeout=pulse.beat_s)
            except Empty:
                if pulse.moved():
                    yield "beat", None
                continue
            columns = []
            while kind == "finished":
                columns.append(content)
                if messages.empty():
                    break
                kind, content = messages.get()
            if columns:
                yield "finished", columns
            if kind != "finished":
                yield kind, content
        thread.join()


def _work(work: "Callable[[SimpleQueue[Message]], Any]", messages: "SimpleQueue[Message]") -> None:
    try:
        messages.put(("done", work(messages)))
    except RedQueenError as error:
        messages.put(("failed", error))
    except BaseException:  # noqa: BLE001  what it was is told where the call was made
        messages.put(("died", traceback.format_exc()))
