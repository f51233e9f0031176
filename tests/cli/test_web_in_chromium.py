"""`imi web` as a person has it: the real dashboard in a real Chromium, with keys, mouse, clipboard, sizes and cuts."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.browser import PROGRAM, Browser
from tests.cli.test_web import TOKEN, Served, serving
from tests.helpers import ROOT, Repo, wait_for
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
_ARGV = (sys.executable, "-P", "-m", "imi_monitor", "monitor", "--read-only")
_STEERING = re.compile(rb"\x1b\[[<>=?]?[\d;]*\$?[a-zA-Z@`]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[78()B]")


class Screen:
    """What the browser got of the dashboard's output, as text."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def after(self, act: Callable[[], object], wanted: str) -> None:
        """Wait until this text is painted after the act."""
        begin = len(self._browser.frames)
        act()
        end = time.monotonic() + LIMIT
        while wanted.encode() not in (text := _STEERING.sub(b"", b"".join(self._browser.frames[begin:]))):
            assert time.monotonic() < end, (wanted, text[-3000:])
            time.sleep(0.02)
            self._browser.run("0")


@pytest.fixture
def shown(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Browser, Screen]]:
    repo.worktree("feat-api")
    repo.worktree("fix-bug")
    monkeypatch.chdir(repo.path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with serving(_ARGV) as served, Browser(1000, 700) as browser:
        screen = Screen(browser)
        screen.after(lambda: browser.open(f"http://127.0.0.1:{served.port}/{TOKEN}/"), "fix-bug")
        browser.until(lambda: browser.run("!!document.querySelector('.xterm-helper-textarea')"))
        yield served, browser, screen


def size(served: Served) -> tuple[int, int]:
    terminal = served.sessions[0].terminal
    assert terminal is not None
    return tuple(os.get_terminal_size(terminal.master))  # type: ignore[return-value]


def process(served: Served) -> int:
    terminal = served.sessions[0].terminal
    assert terminal is not None
    return terminal.process.pid


def notice(browser: Browser) -> str:
    return str(
        browser.run("document.getElementById('notice').hidden ? '' : document.getElementById('sentence').textContent")
    )


def test_keys_mouse_clipboard_sizes_and_cuts(shown: tuple[Served, Browser, Screen], tmp_path: Path) -> None:  # S4.33
    served, browser, screen = shown
    assert notice(browser) == ""
    screen.after(lambda: browser.press("?"), "Keys")
    screen.after(lambda: browser.press("Escape"), "fix-bug")  # the list again: a key now stands alone
    browser.press("j")
    # a click on the second line of the list; the browser's own menu stays away from the right button
    screen.after(lambda: browser.click(100, 30 + 19 * 2), "Git")
    browser.wheel(300, 100, 120)
    screen.after(lambda: browser.press("Enter"), "this needs a terminal of its own")
    screen.after(lambda: browser.press("c"), "imi web --write")
    browser.press("z", modifiers=2)  # ctrl+z would stop a dashboard that no shell can continue
    screen.after(lambda: browser.press("y"), "Copy from")
    origin = f"http://127.0.0.1:{served.port}"
    for name in ("clipboardReadWrite", "clipboardSanitizedWrite"):
        browser.call("Browser.grantPermissions", permissions=[name], origin=origin)
    browser.call(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"], origin=origin
    )
    screen.after(lambda: browser.press("p"), "copied: ")
    browser.until(lambda: str(browser.run("navigator.clipboard.readText()")).startswith("/"), "the clipboard")

    # sizes
    for width, height, least, most in ((1600, 900, 150, 200), (1000, 700, 100, 130), (400, 800, 55, 70)):
        browser.resize(width, height, phone=width == 400)
        browser.open(f"{origin}/{TOKEN}/")  # a reload: the same dashboard, painted for this size
        wait_for(lambda least=least, most=most: least <= size(served)[0] <= most)
        browser.until(lambda: browser.run("!!document.querySelector('.xterm-helper-textarea')"))
        browser.until(lambda: notice(browser) == "")
        wait_for(lambda: served.sessions[0].viewer is not None)
        file = tmp_path / f"{width}.png"
        browser.until(lambda file=file: (browser.picture(file), file.stat().st_size > 8_000)[1], "a picture")
    tapped = [browser.run(f"document.querySelectorAll('#keys button')[{n}].textContent") for n in range(9)]
    assert tapped == ["esc", "tab", "↑", "↓", "⏎", "/", "a", "w", "?"]
    screen.after(lambda: browser.tap("#keys button:last-child"), "Keys")
    screen.after(lambda: browser.tap("#keys button:first-child"), "fix-bug")

    # cuts
    before = process(served)
    viewer = served.sessions[0].viewer
    assert viewer is not None
    screen.after(lambda: served.soon(viewer.abort), "fix-bug")
    wait_for(lambda: served.sessions[0].viewer not in (None, viewer))
    browser.until(lambda: notice(browser) == "")
    assert process(served) == before, "the same dashboard after a cut"
    browser.press("q")
    browser.until(lambda: notice(browser) == "The dashboard has ended.")
    screen.after(lambda: browser.tap("#again"), "feat-api")
    assert process(served) != before
    problems = [one for one in browser.errors if "WebGL" not in one]
    assert not problems, "no exception, and nothing that the policy refused"


def test_a_page_of_another_site_reaches_nothing(shown: tuple[Served, Browser, Screen], tmp_path: Path) -> None:
    served, browser, _ = shown
    evil = tmp_path / "evil.html"
    evil.write_text("<p>a page that knows the port and even the token</p>")
    browser.open(evil.as_uri())
    browser.until(lambda: browser.run("document.readyState") == "complete")
    own = f"127.0.0.1:{served.port}/{TOKEN}/"
    script = f"""new Promise(done => {{
        const socket = new WebSocket('ws://{own}terminal');
        socket.onopen = () => done('open'); socket.onerror = () => done('refused');
    }})"""
    assert browser.run(script) == "refused"
    assert browser.run(f"fetch('http://{own}').then(a => a.text(), () => 'refused')") == "refused"
    framed = f"""new Promise(done => {{
        const frame = document.createElement('iframe'); frame.src = 'http://{own}';
        frame.onload = () => done(frame.contentDocument === null ? 'closed' : 'open'); document.body.append(frame);
    }})"""
    assert browser.run(framed) == "closed"
    assert len(served.sessions) == 1
