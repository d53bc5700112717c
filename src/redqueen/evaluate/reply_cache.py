"""Graded replies in a file, so that an evaluation that was killed goes on where it stopped."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from redqueen.errors import explain_disk
from redqueen.evaluate.replies import EvalConfig, GradedReply
from redqueen.ledger.durable import open_regular

ReplyKey = tuple[str, str, int]
"""Item, model and sample."""


class ReplyCache:
    """One JSON object a line, only ever appended to. Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def read(self, config: EvalConfig) -> dict[ReplyKey, GradedReply]:
        """The replies that were sampled with this config."""
        if self.path is None or not self.path.is_file():
            return {}
        fields, replies = asdict(config), {}
        for line in self.path.read_text(encoding="utf-8").split("\n"):
            try:
                row = json.loads(line)
                if row["config"] == fields:
                    reply = GradedReply(**row["reply"])
                    replies[reply.item, reply.model, reply.sample] = reply
            except (ValueError, KeyError, TypeError):
                continue  # a line cut off by a kill, or of another version: sampled again
        return replies

    def append(self, config: EvalConfig, replies: Sequence[GradedReply]) -> None:
        if self.path is None or not replies:
            return
        rows = [{"config": asdict(config), "reply": asdict(reply)} for reply in replies]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with (
            explain_disk(self.path),
            os.fdopen(open_regular(self.path, flags), "a", encoding="utf-8") as file,
        ):
            file.write(("" if self._ends_with_newline() else "\n") + lines)

    def _ends_with_newline(self) -> bool:
        assert self.path is not None
        with self.path.open("rb") as file:
            if not file.seek(0, 2):
                return True
            file.seek(-1, 2)
            return file.read(1) == b"\n"
