"""A real Chromium without a window, steered through its own protocol: pages, keys, mouse, touch, sizes, pictures."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from shutil import which
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.limits import LIMIT

PROGRAM = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
_KEYS = {"Enter": ("\r", 13), "Escape": ("", 27), "Tab": ("\t", 9), "ArrowDown": ("", 40), "ArrowUp": ("", 38)}


class Browser:
    """One page. Use as a context manager: the browser and its profile are gone afterwards."""

    def __init__(self, width: int = 1000, height: int = 700) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="imi-chromium-", ignore_cleanup_errors=True)
        assert PROGRAM is not None
        argv = [PROGRAM, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self._profile.name}"]
        argv += ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
        argv += ["--disable-dev-shm-usage", "--disable-extensions", f"--window-size={width},{height}", "about:blank"]
        self._process = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._numbers = count(1)
        self.errors: list[str] = []  # what the page reports: exceptions and refusals of its policy
        self.frames: list[bytes] = []  # binary messages of its WebSockets
        self._page: ClientConnection | None = None
        try:
            self._page = connect(self._address(), max_size=1 << 26, proxy=None, legacy=True)
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(LIMIT)
        self._profile.cleanup()

    def _address(self) -> str:
        """The address of the first page; the port is in a file of the profile."""
        from urllib.request import urlopen

        file = Path(self._profile.name) / "DevToolsActivePort"
        end = time.monotonic() + LIMIT
        while not (file.exists() and file.read_text().count("\n")):
            assert time.monotonic() < end and self._process.poll() is None, "chromium does not start"
            time.sleep(0.02)
        port = file.read_text().split()[0]
        with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=LIMIT) as answer:
            pages = [one for one in json.load(answer) if one["type"] == "page"]
        return str(pages[0]["webSocketDebuggerUrl"])

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        assert self._page is not None
        number = next(self._numbers)
        self._page.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._page.recv(timeout=LIMIT))
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(json.dumps(answer["params"])[:500])
            if answer.get("method") == "Network.webSocketFrameReceived":
                frame = answer["params"]["response"]
                self.frames += [base64.b64decode(frame["payloadData"])] if frame["opcode"] == 2 else []
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return dict(answer["result"])

    # -- acting -----------------------------------------------------------------------------------------------------

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        if phone:
            self.call("Emulation.setTouchEmulationEnabled", enabled=True)

    def press(self, key: str, modifiers: int = 0) -> None:
        """A key by its name, or a sign."""
        text, code = _KEYS.get(key, (key, ord(key.upper()) if len(key) == 1 and key.isalnum() else 0))
        if modifiers:
            text = ""
        same = {"key": key, "text": text, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **same)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**same, "text": ""})

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wheel(self, x: float, y: float, by: int) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by)

    def tap(self, selector: str) -> None:
        x, y = self.run(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        self.click(x, y)

    # -- seeing -----------------------------------------------------------------------------------------------------

    def run(self, script: str) -> Any:
        """The value of a script in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def until(self, condition: Callable[[], object], what: str = "") -> None:
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, (what, self.errors)
            time.sleep(0.05)
