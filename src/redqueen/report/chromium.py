"""A headless Chromium, driven over its debugging pipe: pages are opened, asked, and photographed.
Nothing is installed for it."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redqueen.errors import ConfigError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_LAUNCH = """\
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)  # where Chromium looks for the pipe
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page of the browser."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._answers, self._numbers, self._left = to, answers, itertools.count(1), b""
        self.problems: list[str] = []
        """Errors and warnings of the page's console, and exceptions of its script."""
        self._session: str | None = None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def size(self, width: int, height: int, dark: bool = False, sharpness: float = 1.0) -> None:
        """How large the window is, and what the reader prefers."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=sharpness,
            mobile=width < 600,
        )
        scheme = "dark" if dark else "light"
        self._ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def open(self, address: str, patience_s: float = 60.0) -> None:
        self._ask("Page.navigate", url=address)
        self.wait_for(
            "document.readyState === 'complete' && location.href !== 'about:blank'", patience_s
        )

    def wait_for(self, condition: str, patience_s: float = 60.0) -> None:
        """Until a condition holds in the page."""
        until = time.monotonic() + patience_s
        while not self.ask(condition):
            if time.monotonic() > until:
                raise TimeoutError(
                    f"in {patience_s:.0f} s it never held in the page that {condition}; {self.problems[:3]}"
                )
            time.sleep(0.05)

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        found = self._ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(
                f"the page could not say {expression!r}: {found['exceptionDetails'].get('text')}"
            )
        return found["result"].get("value")

    def photograph(self, path: Path, selector: str | None = None) -> None:
        """The window, or one element of the page, as PNG."""
        options: dict[str, Any] = {"format": "png"}
        if selector is not None:
            place = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
            x, y, width, height = self.ask(
                f"(b => [b.x + scrollX, b.y + scrollY, b.width, b.height])({place})"
            )
            options |= {
                "clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1},
                "captureBeyondViewport": True,
            }
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", **options)["data"]))

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self._to, rest) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(
                        f"Chromium refused {method}: {answer['error'].get('message')}"
                    )
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            piece = os.read(self._answers, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium ended unexpectedly")
            self._left += piece
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, said = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(
                str(said["exceptionDetails"].get("exception", {}).get("description", said))
            )
        if method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.problems.append(str([argument.get("value") for argument in said["args"]]))
        if method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")


@contextmanager
def tab() -> Iterator[Tab]:
    """A page of a browser of its own, which ends with the block."""
    path = find_chromium()
    if path is None:
        raise ConfigError(
            "pictures need Chromium or Chrome, and none was found in the path (Debian, Ubuntu: apt install chromium)"
        )
    flags = [
        *_FLAGS,
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]  # root cannot have the browser's own sandbox
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for_it, to = os.pipe()
        answers, from_it = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", _LAUNCH, str(for_it), str(from_it), path, *flags, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(for_it, from_it), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(for_it)
        os.close(from_it)
        try:
            yield Tab(to, answers)
        finally:
            os.close(to)
            os.close(answers)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
