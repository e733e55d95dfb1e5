"""Drive a headless Chromium through its debugging pipe: open a page, look, click, take pictures."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",  # root, as in a container, may use none
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
)
_PATIENCE_S: Final = 60.0  # for a condition, before the page is said to hang


class Browser:
    """One page of a browser, and what it complained about or asked the network for."""

    def __init__(self, ask: int, answer: int) -> None:
        self._ask, self._answer = ask, answer
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send one command and return its result; events that come before it are noted."""
        self._number += 1
        message: dict[str, object] = {
            "id": self._number,
            "method": method,
            "params": parameters,
        }
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._ask, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self._number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]

    def open(self, path: Path) -> None:
        """Open a file and wait until it has loaded."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._wait("Page.loadEventFired")

    def value(self, script: str) -> Any:  # noqa: ANN401
        """Return the value of an expression in the page."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression in the page is true."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.value(condition):
            assert time.monotonic() < deadline, (condition, self.errors)
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press a key."""
        code = {"Enter": 13, "Tab": 9, " ": 32}.get(key, 0)
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def click(self, selector: str) -> None:
        """Click the middle of the first element of a selector."""
        where = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.click_at(*where)

    def click_at(self, x: float, y: float) -> None:
        """Click at a place in the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Take a picture of the page, as PNG."""
        result = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(result["data"]))

    def _wait(self, event: str) -> None:
        while self._next().get("method") != event:
            pass

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = os.read(self._answer, 1 << 20)
            assert chunk, "the browser has ended"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in {"error", "warning"}:
            self.errors.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in {"error", "warning"}:
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url: str = parameters["request"]["url"]
            if not url.startswith(("data:", "blob:")):
                self.requests.append(url)


def find_browser() -> str:
    """Return the path of a browser; without one, skip the test, or fail it where required."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        if os.environ.get("GAPLESS_BROWSER") == "required":
            pytest.fail("GAPLESS_BROWSER=required, and there is no Chromium")
        pytest.skip("there is no Chromium (GAPLESS_BROWSER=required makes this a failure)")
    return path


@contextmanager
def start_browser(folder: Path, *flags: str) -> Generator[Browser]:
    """Start a browser with its profile in ``folder``, and end it."""
    path = find_browser()
    ask_read, ask_write = os.pipe()
    answer_read, answer_write = os.pipe()
    command = [path, *_FLAGS, *flags, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    # The browser reads commands from descriptor 3 and writes to 4, whatever ours are.
    script = f'exec "$@" 3<&{ask_read} 4>&{answer_write}'
    with subprocess.Popen(
        ["/bin/bash", "-c", script, "browser", *command],
        pass_fds=(ask_read, answer_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(ask_read)
        os.close(answer_write)
        try:
            yield Browser(ask_write, answer_read)
        finally:
            os.close(ask_write)
            os.close(answer_read)
            process.kill()


def open_drawn(browser: Browser, path: Path) -> None:
    """Open a page and wait until its figures are drawn."""
    browser.errors.clear()
    browser.requests.clear()
    browser.open(path)
    browser.wait("document.body.dataset.drawn")
