"""A browser for tests: Debian's chromium over the DevTools protocol, JSON through two
pipes, nothing to install.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
)
FLAGS += (
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
)
PATIENCE_S = 600.0
LAUNCH = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(pipes[0], 3), os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands from file 3 and answers on file 4, whatever files the test
has open.
"""


class Browser:
    """One page of a headless browser; every message of its console is kept in
    `messages`.
    """

    def __init__(self) -> None:
        program = shutil.which("chromium")
        assert program, "chromium must be on the path"
        self.folder = tempfile.mkdtemp(prefix="deepval-browser-")
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        words = [
            program,
            *FLAGS,
            "--remote-debugging-pipe",
            f"--user-data-dir={self.folder}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(read_there), str(write_there), *words],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self.read, self.write = read_here, write_here
        self.buffer, self.number, self.session = b"", 0, None
        self.messages: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(item["targetId"] for item in targets if item["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self.buffer:
            ready, _, _ = select.select(
                [self.read], [], [], max(end - time.monotonic(), 0)
            )
            assert ready, "the browser does not answer"
            chunk = os.read(self.read, 1 << 16)
            assert chunk, "the browser is gone"
            self.buffer += chunk
        text, _, self.buffer = self.buffer.partition(b"\0")
        answer = json.loads(text)
        self._note(answer.get("method"), answer.get("params", {}))
        return answer

    def _note(self, method: str | None, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(parameters["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled":
            self.messages.append(json.dumps(parameters["args"])[:600])
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def size(self, width: int, height: int, *, scheme: str = "light") -> None:
        """Set the size of the window and whether the reader prefers light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def open(self, page: Path | str, fragment: str = "") -> None:
        """Open a page from disk or from an address and wait until it is drawn."""
        self.call("Page.navigate", url="about:blank")
        self.call(
            "Page.navigate",
            url=(page if isinstance(page, str) else page.as_uri()) + fragment,
        )
        self.wait("document.documentElement?.dataset.ready === 'true'")

    def wait(self, script: str) -> None:
        """Wait until a script is true; it may be cut off by a new page."""
        end, done = time.monotonic() + PATIENCE_S, False
        while not done:
            assert time.monotonic() < end, self.messages
            time.sleep(0.05)
            with contextlib.suppress(AssertionError):
                done = self.run(script)

    def run(self, script: str) -> Any:
        """The value of a script in the page; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key in the focused element."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
            )

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page as PNG."""
        answer = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser and forget its profile."""
        with contextlib.suppress(AssertionError, OSError):
            self.session = None
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.folder, ignore_errors=True)
