"""What a Ray actor runs: a worker whose answers come as a stream."""

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Any

from redqueen.engine.blocks.worker import BlockWorker, Call, Hello
from redqueen.engine.protocol import EngineSpec, create_engine
from redqueen.errors import RedQueenError

Message = tuple[str, Any]


class RayWorker:
    def start(self, spec: EngineSpec) -> Message:
        try:
            engine: Any = create_engine(spec.config.type, spec)
        except RedQueenError as error:
            return "failed", error
        self.worker = BlockWorker(engine)
        return "done", Hello.of(engine)

    def call(self, block: int, call: Call) -> Iterator[Message]:
        """Completions as they finish, all that have come in the meantime in one message; then the
        result."""
        messages: SimpleQueue[Message] = SimpleQueue()
        thread = Thread(target=self._work, args=(block, call, messages), daemon=True)
        thread.start()
        kind = ""
        while kind not in ("done", "failed"):
            kind, content = messages.get()
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

    def _work(self, block: int, call: Call, messages: "SimpleQueue[Message]") -> None:
        try:
            result = self.worker.call(
                block, call, lambda columns: messages.put(("finished", columns))
            )
            messages.put(("done", (result, self.worker.usage)))
        except Exception as error:  # noqa: BLE001  it is raised where the call was made
            messages.put(("failed", error))
