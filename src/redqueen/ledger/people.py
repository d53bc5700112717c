"""What people do with a run: the problems they pose, their vetoes, ratings and answers, in
`people.jsonl` beside the ledger.

The ledger has one writer, the run, so nobody else writes to it while the run is being played: an
action is a line that is appended here, and synced. The run takes up what has arrived when a step
begins, and says so in a line of the same file before it plays the step:
`{"step": 7, "takes": [...]}`. A step that is played again after a kill takes what it took the first
time. What the actions came to is in the ledger, in the table `people`.

Lines that are none of ours are skipped with a message in the log.
"""

import contextlib
import fcntl
import json
import logging
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from redqueen.errors import ConfigError, explain_disk
from redqueen.ledger.durable import open_regular, sync
from redqueen.records import PersonAction

log = logging.getLogger(__name__)

FILE = "people.jsonl"
MAX_NAME_CHARS = 60
MAX_TEXT_CHARS = 20_000
MAX_LINE_BYTES = 256 * 1024
_MAX_BLOCKS = 64
_MAX_WORLD = 10**6
_FULL_BYTES = 16 * 1024 * 1024
"""From here on no more actions are taken in."""
_MAX_TAKEN = 1000
"""Actions that a step takes up."""
_MAX_POSED = 16
"""Problems that a step takes up: every student attempts each of them several times."""
_READ_BYTES = 4 * _FULL_BYTES


class Inbox:
    """The file of one run: for people, who add to it, and for the run, which takes from it."""

    def __init__(self, folder: Path, log_level: int = logging.WARNING) -> None:
        self.path, self._log_level = folder / FILE, log_level
        self._actions: dict[str, PersonAction] = {}
        self._steps: dict[int, list[str]] = {}
        self._taken: set[str] = set()
        self._reached = -1
        """The last step that is known to have begun: it takes nothing that comes later."""
        self._offset = self._lines = 0

    def add(
        self, author: str, action: str, content: Mapping[str, Any], world: int = 0
    ) -> PersonAction:
        """Write an action down; it is on the disk when this returns. Raises ValueError, which says
        what is wrong with it."""
        added = _parse_action(
            {
                "id": secrets.token_hex(8),
                "author": author,
                "world": world,
                "action": action,
                "content": content,
            }
        )
        fields = _action_fields(added)
        if (size := len(json.dumps(fields))) > MAX_LINE_BYTES:
            raise ValueError(f"{size:,} bytes in all, at most {MAX_LINE_BYTES:,}")
        with self._locked(os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            if os.fstat(file).st_size > _FULL_BYTES:
                raise ConfigError(f"{self.path} is full: it takes no more actions.")
            self._append(file, fields)
        return added

    def take(self, step: int) -> list[PersonAction]:
        """The actions of a step that begins: all that wait, but not too many problems, or, where it
        is played again, those that it took before."""
        with self._locked(os.O_RDWR | os.O_APPEND) as file:
            if file is None:
                return []
            self._read(file)
            if step > self._reached and (due := _due(self._waiting())):
                self._append(file, {"step": step, "takes": [action.id for action in due]})
                self._read(file)
        return [self._actions[name] for name in self._steps.get(step, ())]

    def mark(self, step: int, takes: PersonAction | None = None) -> None:
        """Note that steps up to this one have been played: played again, they take nothing new but
        for this."""
        with self._locked(os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            self._read(file)
            if step > self._reached or takes is not None:
                self._append(file, {"step": step, "takes": [takes.id] if takes else []})
                self._read(file)

    def waiting(self) -> list[PersonAction]:
        """Actions that no step has taken up yet."""
        with self._locked(os.O_RDONLY) as file:
            if file is None:
                return []
            self._read(file)
        return self._waiting()

    def _waiting(self) -> list[PersonAction]:
        return [action for name, action in self._actions.items() if name not in self._taken]

    @contextlib.contextmanager
    def _locked(self, flags: int) -> Iterator[Any]:
        """The open file, under a lock of its own; None where there is none."""
        is_new = flags & os.O_CREAT and not self.path.exists()
        with contextlib.ExitStack() as stack:
            try:
                file = open_regular(self.path, flags)
            except OSError as error:
                if flags & os.O_CREAT:
                    with explain_disk(self.path):
                        raise
                if not isinstance(error, FileNotFoundError):
                    self._warn("what people did is not read: %s", error)
                yield None
                return
            stack.callback(os.close, file)
            with explain_disk(self.path):
                if is_new:
                    sync(self.path.parent)
                fcntl.flock(file, fcntl.LOCK_SH if flags == os.O_RDONLY else fcntl.LOCK_EX)
                yield file

    def _append(self, file: int, fields: Mapping[str, Any]) -> None:
        line = json.dumps(fields).encode() + b"\n"
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":  # a kill has left half of a line
            line = b"\n" + line
        while line:
            line = line[os.write(file, line) :]
        os.fsync(file)

    def _read(self, file: int) -> None:
        """What was added since the last time; the last line only once it is whole."""
        data = bytearray()
        while self._offset + len(data) < _READ_BYTES:
            block = os.pread(file, 1 << 20, self._offset + len(data))
            data += block
            if not block:
                break
        else:
            self._warn("%s: only the first %d bytes are read", self.path, _READ_BYTES)
        *lines, _ = bytes(data).split(b"\n")
        self._offset += sum(len(line) + 1 for line in lines)
        for line in lines:
            self._lines += 1
            if line.strip():
                try:
                    self._enter(line)
                except (ValueError, RecursionError) as error:
                    self._warn("%s, line %d is skipped: %s", self.path, self._lines, error)

    def _warn(self, message: str, *values: object) -> None:
        log.log(self._log_level, message, *values)

    def _enter(self, line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"{len(line):,} bytes, at most {MAX_LINE_BYTES:,}")
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("not an object")
        if "step" not in fields:
            action = _parse_action(fields)
            if action.id in self._actions:
                raise ValueError(f"a second action {action.id}")
            self._actions[action.id] = action
            return
        step = _integer(fields, "step", _MAX_WORLD**2)
        takes = [str(name) for name in _list(fields, "takes")]
        known = [name for name in takes if name in self._actions and name not in self._taken]
        if len(known) < len(takes):
            self._warn(
                "%s, line %d: %d of the actions that step %d took are not there",
                self.path,
                self._lines,
                len(takes) - len(known),
                step,
            )
        self._steps.setdefault(step, []).extend(known)
        self._taken.update(known)
        self._reached = max(self._reached, step)


def _due(waiting: list[PersonAction]) -> list[PersonAction]:
    posed = [action for action in waiting if action.action == "pose"]
    later = {action.id for action in posed[_MAX_POSED:]}
    return [action for action in waiting if action.id not in later][:_MAX_TAKEN]


def clean_name(name: object) -> str:
    """A person's name; raises ValueError."""
    text = " ".join(name.split()) if isinstance(name, str) else ""
    if not (0 < len(text) <= MAX_NAME_CHARS and text.isprintable()):
        raise ValueError(f"a name has 1 to {MAX_NAME_CHARS} characters, all of which show")
    return text


def _action_fields(action: PersonAction) -> dict[str, Any]:
    return {
        "id": action.id,
        "author": action.author,
        "world": action.world,
        "action": action.action,
        "content": action.content,
    }


def _parse_action(fields: Mapping[str, Any]) -> PersonAction:
    name, content = fields.get("action"), fields.get("content")
    if not isinstance(name, str) or name not in _CONTENT:
        raise ValueError(f"an action is one of {', '.join(_CONTENT)}")
    if not isinstance(content, Mapping):
        raise ValueError("content is not an object")
    return PersonAction(
        _text(fields, "id", 64),
        clean_name(fields.get("author")),
        _integer(fields, "world", _MAX_WORLD),
        name,
        _CONTENT[name](content),
    )


def _pose(content: Mapping[str, Any]) -> dict[str, Any]:
    blocks = _list(content, "blocks")
    if not 0 < len(blocks) <= _MAX_BLOCKS or not all(
        isinstance(block, list | tuple) and len(block) == 2 for block in blocks
    ):
        raise ValueError(f"blocks are 1 to {_MAX_BLOCKS} pairs of a label and a text")
    pairs = [dict(zip(("label", "text"), block, strict=True)) for block in blocks]
    return {
        "kind": _text(content, "kind", 200),
        "blocks": [[_text(pair, "label", 100), _text(pair, "text")] for pair in pairs],
        "reference": _text({"reference": "", **content}, "reference", 64),
    }


def _veto(content: Mapping[str, Any]) -> dict[str, Any]:
    """Of one problem, or, with a structure, of all that have it."""
    return {
        "problem": _text(content, "problem", 64),
        "structure": _text({"structure": "", **content}, "structure", 200),
    }


def _rate(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _side(content.get(name), name) for name in ("better", "worse")}


def _side(side: object, name: str) -> dict[str, str]:
    if not isinstance(side, Mapping):
        raise ValueError(f"{name} is not an object")
    lengths = {"problem": 64, "teacher": MAX_NAME_CHARS + 20, "structure": 200}
    return {field: _text(side, field, most) for field, most in lengths.items()}


def _answer(content: Mapping[str, Any]) -> dict[str, Any]:
    seconds = content.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ValueError("seconds is not a number")
    if not 0 <= seconds < math.inf:
        raise ValueError("seconds is not a time")
    return {
        "problem": _text(content, "problem", 64),
        "text": _text(content, "text"),
        "verdict": _text(content, "verdict", 20),
        "detail": _text({"detail": "", **content}, "detail"),
        "seconds": round(float(seconds), 1),
    }


_CONTENT: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "pose": _pose,
    "veto": _veto,
    "rate": _rate,
    "answer": _answer,
}


def _text(fields: Mapping[str, Any], name: str, most: int = MAX_TEXT_CHARS) -> str:
    text = fields.get(name)
    if not isinstance(text, str):
        raise ValueError(f"{name} is not a text")
    if len(text) > most:
        raise ValueError(f"{name} has {len(text):,} characters, at most {most:,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} holds half a character") from error
    return text


def _integer(fields: Mapping[str, Any], name: str, below: int) -> int:
    number = fields.get(name)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < below:
        raise ValueError(f"{name} is not a number from 0 on")
    return number


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    values = fields.get(name)
    if not isinstance(values, list | tuple):
        raise ValueError(f"{name} is not a list")
    return list(values)
