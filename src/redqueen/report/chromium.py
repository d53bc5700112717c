"""Drives a headless Chromium over its debugging pipe: opens pages, evaluates script, takes
screenshots. Needs nothing but an installed Chromium or Chrome."""

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
os.dup2(read, 3)  # Chromium expects the pipe at 3 and 4
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def require_chromium() -> str:
    path = find_chromium()
    if path is None:
        raise ConfigError(
            f"screenshots need Chromium: none of {', '.join(NAMES)} is in the PATH "
            "(Debian, Ubuntu: apt install chromium)"
        )
    return path


class Tab:
    """One page of the browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read, self._buffer = to_browser, from_browser, b""
        self._ids = itertools.count(1)
        self._session: str | None = None
        self.problems: list[str] = []
        """Errors and warnings of the console, and uncaught exceptions."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def resize(self, width: int, height: int, dark: bool = False, pixel_ratio: float = 1.0) -> None:
        """Set the window's size, and whether the reader prefers a dark page."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=pixel_ratio,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str, timeout_s: float = 60.0) -> None:
        self._call("Page.navigate", url=address)
        loaded = "document.readyState === 'complete' && location.href !== 'about:blank'"
        self.wait_for(loaded, timeout_s)

    def wait_for(self, condition: str, timeout_s: float = 60.0) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + timeout_s
        while not self.evaluate(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"not true after {timeout_s:.0f} s: {condition}; {self.problems[:3]}"
                )
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        reply = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in reply:
            raise RuntimeError(f"{expression!r} failed: {reply['exceptionDetails'].get('text')}")
        return reply["result"].get("value")

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        box = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{box}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y = self.evaluate(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])({box}.getBoundingClientRect())"
        )
        for event in ("mousePressed", "mouseReleased"):
            self._call(
                "Input.dispatchMouseEvent", type=event, x=x, y=y, button="left", clickCount=1
            )

    def write(self, selector: str, text: str) -> None:
        """Click into a field and write, as a keyboard would."""
        self.click(selector)
        self._call("Input.insertText", text=text)

    def screenshot(self, path: Path, selector: str | None = None) -> None:
        """The window, or one element of the page, as PNG."""
        options: dict[str, Any] = {"format": "png"}
        if selector is not None:
            box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
            x, y, width, height = self.evaluate(
                f"(b => [b.x + scrollX, b.y + scrollY, b.width, b.height])({box})"
            )
            options |= {
                "clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1},
                "captureBeyondViewport": True,
            }
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", **options)["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            reply = self._next_message()
            if reply.get("id") == number:
                if "error" in reply:
                    raise RuntimeError(
                        f"Chromium refused {method}: {reply['error'].get('message')}"
                    )
                result: dict[str, Any] = reply["result"]
                return result
            self._note_problem(reply)

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium ended unexpectedly")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note_problem(self, event: dict[str, Any]) -> None:
        method, details = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            exception = details["exceptionDetails"].get("exception", {})
            self.problems.append(str(exception.get("description", details)))
        levels = ("error", "warning", "assert")
        if method == "Runtime.consoleAPICalled" and details["type"] in levels:
            self.problems.append(str([argument.get("value") for argument in details["args"]]))
        if method == "Log.entryAdded" and details["entry"]["level"] in levels:
            self.problems.append(f"{details['entry']['text']} {details['entry'].get('url', '')}")


@contextmanager
def open_tab() -> Iterator[Tab]:
    """A page of a new browser, which ends with the block."""
    path = require_chromium()
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]  # root has no sandbox
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        its_input, to_browser = os.pipe()
        from_browser, its_output = os.pipe()
        launch = [sys.executable, "-S", "-c", _LAUNCH, str(its_input), str(its_output)]
        process = subprocess.Popen(
            [*launch, path, *flags, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(its_input, its_output),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_input)
        os.close(its_output)
        try:
            yield Tab(to_browser, from_browser)
        finally:
            os.close(to_browser)
            os.close(from_browser)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
