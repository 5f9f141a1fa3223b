"""A headless Chromium, driven over a pair of pipes with its DevTools protocol.

Needs no package: messages are JSON ended by a zero byte, on the descriptors 3 and 4 of the
browser (`--remote-debugging-pipe`).
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIMEOUT_S = 60.0
# A machine without GPU and a root user without namespaces, as CI has; and no network at all:
# every host is unknown.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """The browser that TEST_BROWSER names, or else the first one on the path."""
    given = os.environ.get("TEST_BROWSER")
    return given or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. `problems` collects console errors, exceptions and failed requests."""

    def __init__(self, reader: int, writer: int) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._reader, self._writer = reader, writer
        self._buffer = b""
        self._last_id = 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path: Path) -> None:
        """Load a file and wait until it is laid out."""
        self._events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; raises AssertionError where it throws."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """What the elements of a selector show, in order."""
        return self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"
        )

    def set_dark(self, is_dark: bool) -> None:
        """What the system prefers."""
        value = "dark" if is_dark else "light"
        feature = {"name": "prefers-color-scheme", "value": value}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def resize(self, width: int, height: int) -> None:
        """The size of the window, in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command of the protocol."""
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last_id:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reader], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            received = os.read(self._reader, 1 << 20)
            assert received, "the browser has ended"
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
            self._note(message["method"], message["params"])
        return message

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(event["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning"):
            self.problems.append(str(event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(event["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])


def _out_of_the_way(descriptor: int) -> int:
    """The same file under a number that is not one of those the browser reads and writes."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


@contextmanager
def browser_page(executable: str, profile: Path) -> Iterator[Page]:
    """A tab of a browser that ends with the block; `profile` is an empty folder for it."""
    command_read, command_write = map(_out_of_the_way, os.pipe())
    answer_read, answer_write = map(_out_of_the_way, os.pipe())
    # The shell puts the pipes where the browser looks for them. (A plain sh may know
    # descriptors of one digit only.)
    process = subprocess.Popen(
        [
            "bash",
            "-c",
            f'exec "$@" 3<&{command_read} 4>&{answer_write}',
            "bash",
            executable,
            *FLAGS,
            f"--user-data-dir={profile}",
        ],
        pass_fds=(command_read, answer_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(command_read)
    os.close(answer_write)
    try:
        yield Page(answer_read, command_write)
    finally:
        os.close(command_write)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(answer_read)
