"""`imi web`: who is served, how long a dashboard lives, and what many and hostile clients can do. Chromium: test_browser.py."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from imi_monitor.cli.web import browser_terminal, web_server
from imi_monitor.cli.web.browser_session import BrowserSession, SessionLimits
from imi_monitor.cli.web.web_server import WebServer
from imi_monitor.model.errors import Refused
from tests.cli.test_http import get, raw
from tests.helpers import imi, wait_for
from tests.limits import LIMIT, join

TOKEN = "t" * 32
_ECHO = """
import os, signal, tty
def say(*_):
    columns, lines = os.get_terminal_size(0)
    os.write(1, b"%d %d.\\n" % (lines, columns))
tty.setraw(0)
signal.signal(signal.SIGWINCH, say)
signal.signal(signal.SIGCONT, say)
os.write(1, b"pid=%d\\n" % os.getpid())
say()
while data := os.read(0, 9999):
    os.write(1, data)
"""
SHELL = (sys.executable, "-S", "-c", _ECHO)
"""Says its process, and its size at the start and at each change; repeats what is typed."""

FOR_EVER = SessionLimits(0.0)


class Served:
    """A server in a thread, as `imi web` runs it; its port and what it holds."""

    def __init__(self, argv: tuple[str, ...], limits: SessionLimits, write_seconds: float) -> None:
        self.server = WebServer(TOKEN, argv, limits)
        self.server.write_seconds = write_seconds
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._listens.wait(LIMIT)
        self.port = self.server.port

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        listening = await self.server.open(0)
        self._listens.set()
        await self._ended.wait()
        listening.close()
        await self.server.end_all()

    def soon(self, act: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(act)

    def close(self) -> None:
        self.soon(self._ended.set)
        join(self._thread)

    @property
    def sessions(self) -> list[BrowserSession]:
        return [one for one in self.server.sessions.values() if not one.is_ending]

    def view(self, session: str = "", origin: str | None = "", size: tuple[int, int] = (80, 24)) -> ClientConnection:
        address = f"ws://127.0.0.1:{self.port}/{TOKEN}/terminal?width={size[0]}&height={size[1]}&session={session}"
        own = f"http://127.0.0.1:{self.port}" if origin == "" else origin
        return connect(address, origin=own, open_timeout=LIMIT, close_timeout=1, proxy=None, legacy=True)  # type: ignore[arg-type]

    def see(self, session: str = "", size: tuple[int, int] = (80, 24)) -> tuple[ClientConnection, str]:
        """(connection, its session)."""
        viewer = self.view(session, size=size)
        kind, ident = json.loads(viewer.recv(LIMIT))
        assert kind == "session"
        return viewer, ident


@contextmanager
def serving(
    argv: tuple[str, ...] = SHELL, limits: SessionLimits = FOR_EVER, write_seconds: float = 10.0
) -> Iterator[Served]:
    served = Served(argv, limits, write_seconds)
    try:
        yield served
    finally:
        served.close()


def read_until(viewer: ClientConnection, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        part = viewer.recv(LIMIT)
        assert isinstance(part, bytes)
        found += part
    return found


def closed_with(viewer: ClientConnection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed):
        while True:
            viewer.recv(LIMIT)
    return viewer.close_code or 0, viewer.close_reason or ""


def is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


# -- who is served ----------------------------------------------------------------------------------------------------


def test_only_the_page_with_the_token_is_served() -> None:
    with serving() as served:
        port, page = served.port, f"/{TOKEN}/"
        for name in ("", "page.js", "page.css", "xterm.css", "textual.js", "mono.ttf"):
            answer = raw(port, f"GET {page}{name} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200") and len(body) > 300, name
            assert b"Content-Security-Policy: default-src 'none'" in head and b"Referrer-Policy: no-referrer" in head
            assert b"http://" not in body or name in ("textual.js", "xterm.css"), "everything is served from here"
        for status, headers in (
            (403, {"Host": "evil.example"}),
            (403, {"Host": f"evil.example:{port}"}),  # a name that was rebound to 127.0.0.1
            (403, {"Host": f"127.0.0.1.nip.example:{port}"}),
            (403, {"Host": "127.0.0.1"}),
            (403, {"Host": f"127.0.0.1:{port + 1}"}),
            (403, {"Host": f"[::1]:{port}"}),
            (403, {"Origin": "http://evil.example"}),
            (403, {"Origin": "null"}),
            (403, {"Origin": f"https://127.0.0.1:{port}"}),
            (403, {"Sec_Fetch_Site": "cross-site"}),
            (403, {"Sec_Fetch_Site": "same-site"}),
            (200, {"Origin": f"http://localhost:{port}", "Sec_Fetch_Site": "same-origin"}),
        ):
            assert get(port, None, page, **headers)[0] == status, headers
        for path in (
            "/",
            "/x/",
            f"/{TOKEN[:-1]}/",
            f"/{TOKEN}x/",
            f"//{TOKEN}/",
            f"/%74{TOKEN[1:]}/",
            f"/?token={TOKEN}",
        ):
            status, body = get(port, None, path)
            assert status == 401 and TOKEN.encode() not in body, path
        for name in (
            *(
                "..",
                "../../etc/passwd",
                "%2e%2e/",
                "page.js/..",
                "static/js/textual.js",
                "web_server.py",
                "/etc/passwd",
            ),
            *("page.js%00", "page.html", ".", "PAGE.JS", "terminal/", "x" * 5000),
        ):
            assert get(port, None, page + name)[0] == 404, name
        assert get(port, None, f"/{TOKEN}")[0] == 404
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD", "CONNECT", "TRACE"):
            assert get(port, None, page, method)[0] == 405
        assert not served.sessions, "none of this starts a dashboard"


def test_a_terminal_is_for_the_own_page_alone() -> None:
    with serving() as served:
        for origin in (None, "null", "http://evil.example", f"http://evil.example:{served.port}", "file://"):
            with pytest.raises(InvalidStatus) as refused:
                served.view(origin=origin)
            assert refused.value.response.status_code == 403, origin
        with pytest.raises(InvalidStatus) as refused:
            connect(
                f"ws://127.0.0.1:{served.port}/{'x' * 32}/terminal",
                origin=f"http://127.0.0.1:{served.port}",
                proxy=None,  # type: ignore[arg-type]
            )
        assert refused.value.response.status_code == 401
        own = f"Host: localhost:{served.port}\r\nOrigin: http://localhost:{served.port}\r\n"
        plain = f"GET /{TOKEN}/terminal HTTP/1.1\r\n{own}\r\n"
        assert raw(served.port, plain.encode()).split()[1] in (b"400", b"426"), "without the change of protocol"
        assert not served.sessions


# -- one dashboard ----------------------------------------------------------------------------------------------------


def test_keys_sizes_and_the_same_dashboard_after_a_cut() -> None:
    with serving() as served:
        viewer, session = served.see(size=(90, 33))
        pid = int(read_until(viewer, b"33 90").split(b"pid=")[1].split()[0])
        viewer.send(json.dumps(["stdin", "täst"]))
        read_until(viewer, "täst".encode())
        viewer.send(json.dumps(["resize", {"width": 120, "height": 40}]))
        read_until(viewer, b"40 120")
        for hostile in (
            "",
            "[]",
            "{}",
            '["stdin", 5]',
            '["resize", {}]',
            '["resize", {"width": "x", "height": 1}]',
            "[" * 9000,
        ):
            viewer.send(hostile)
        viewer.send(json.dumps(["resize", {"width": 10**6, "height": -5}]))
        read_until(viewer, b"5 500")
        viewer.socket.close()  # a cut, without a word
        wait_for(lambda: served.sessions[0].viewer is None)
        again, same = served.see(session, size=(70, 20))
        read_until(again, b"20 70")
        assert same == session and is_alive(pid), "it went on, and its picture is painted anew"
        third, same = served.see(session)
        read_until(third, b"24 80")
        assert closed_with(again) == (4002, "This dashboard is shown in another tab.") and same == session
        third.send(json.dumps(["stdin", "x"]))
        read_until(third, b"x")
        os.kill(pid, 9)
        assert closed_with(third) == (4000, "The dashboard has ended.")
        other, new = served.see(session)
        assert new != session, "one that is over is not shown again"
        other.close()


def test_four_viewers_and_no_more() -> None:
    with serving() as served:
        viewers = [served.see() for _ in range(web_server.MOST_VIEWERS)]
        fifth = served.view()
        assert closed_with(fifth) == (4001, "4 dashboards are open in browsers: close one")
        left = viewers[0][0]
        left.close()
        wait_for(lambda: any(one.viewer is None for one in served.sessions))
        _, new = served.see()
        assert new not in {ident for _, ident in viewers} and len(served.sessions) == 4
        pids = [one.terminal.process.pid for one in served.sessions if one.terminal is not None]
    assert len(pids) == 4 and not any(map(is_alive, pids)), "the end of the server ends them"


def test_a_dashboard_that_is_left_alone_ends() -> None:
    with serving(limits=SessionLimits(0.3, unseen=0.05)) as served:
        viewer, _ = served.see()
        assert closed_with(viewer) == (4000, "Ended after 0.005 minutes without a key.") and not served.sessions
        viewer, _ = served.see()
        pid = int(read_until(viewer, b"24 80").split(b"pid=")[1].split()[0])
        viewer.close()
        wait_for(lambda: not served.sessions and not is_alive(pid))


def test_a_program_that_ignores_its_end_is_killed() -> None:
    shell = ("/bin/sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 9; done")
    with serving(shell, SessionLimits(0.0, kill=0.1)) as served:
        viewer, _ = served.see()
        read_until(viewer, b"ready")
        terminal = served.sessions[0].terminal
    assert terminal is not None and not is_alive(terminal.process.pid)


def test_the_environment_is_that_of_a_browser() -> None:
    found = browser_terminal.environment(
        {"TMUX": "x", "ZELLIJ_PANE_ID": "1", "DISPLAY": ":0", "LANG": "C", "HOME": "/h"}
    )
    assert found == {
        "LANG": "C",
        "HOME": "/h",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "IMI_BROWSER": "1",
    }


# -- many and slow ----------------------------------------------------------------------------------------------------


def test_a_thousand_slow_readers_cut_no_viewer() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3500:
        pytest.skip("this user may not open 3,500 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3500), hard))  # both ends are in this process
    with serving() as served:
        viewer, _ = served.see()
        read_until(viewer, b"24 80")
        own = f"Host: 127.0.0.1:{served.port}\r\n\r\n"
        slow = []
        for number in range(1000):
            connection = socket.create_connection(("127.0.0.1", served.port), timeout=LIMIT)
            # without the end of the head, with nothing, and with the token but reading nothing of half a megabyte
            parts = (b"GET / HTTP/1.1\r\n", b"", f"GET /{TOKEN}/textual.js HTTP/1.1\r\n{own}".encode())
            connection.sendall(parts[number % 3])
            slow.append(connection)
            if number % 250 == 249:
                begun = time.monotonic()
                viewer.send(json.dumps(["stdin", f"<{number}>"]))
                read_until(viewer, f"<{number}>".encode())
                assert get(served.port, None, f"/{TOKEN}/")[0] == 200
                assert time.monotonic() - begun < 10
        for connection in slow:
            connection.close()
        viewer.close()


def test_a_viewer_that_takes_nothing_is_cut_and_its_dashboard_goes_on() -> None:
    with serving(("/bin/sh", "-c", "yes 0123456789012345678901234567890123456789"), write_seconds=0.2) as served:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        own = f"Host: 127.0.0.1:{served.port}\r\nOrigin: http://127.0.0.1:{served.port}\r\n"
        head = f"GET /{TOKEN}/terminal HTTP/1.1\r\n{own}Upgrade: websocket\r\nConnection: Upgrade\r\n"
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        with socket.create_connection(("127.0.0.1", served.port), timeout=LIMIT) as connection:
            connection.sendall(head.encode())
            wait_for(lambda: served.sessions and served.sessions[0].viewer is not None)
            wait_for(lambda: served.sessions[0].viewer is None)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "its output was not kept"
        viewer, _ = served.see(served.sessions[0].id)
        read_until(viewer, b"0123456789")
        viewer.socket.close()


def test_broken_frames_end_their_connection_alone() -> None:
    with serving() as served:
        viewer, _ = served.see()
        read_until(viewer, b"24 80")
        for garbage in (b"\xff" * 200, b"\x81\x05hello", b"\x81\xff" + b"\x7f" * 8 + b"mask"):
            broken, _ = served.see()
            broken.socket.sendall(garbage)  # unmasked, reserved bits, longer than anything allowed
            assert closed_with(broken)[0] in (1002, 1009)
        viewer.send(json.dumps(["stdin", "still"]))
        read_until(viewer, b"still")
        viewer.close()


# -- the command ------------------------------------------------------------------------------------------------------


def test_a_taken_port_and_missing_libraries_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = imi("web", "--port", str(port))
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == f"imi: port {port} cannot be used: Address already in use: give another by --port\n"
    for words, code in ((("--port", "70000"), 2), (("nowhere",), 1), (("--write", "--read-only"), 2)):
        ran = imi("web", *words)
        assert ran.code == code and ran.err.count("\n") == 1, words
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Refused, match=r"pip install 'imi-monitor\[web\]'"):
        WebServer(TOKEN, SHELL, FOR_EVER)


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "websockets.py").write_text("raise ImportError('none', name='websockets')\n")
    ran = imi("web", "--port", "0", env={"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"})
    assert ran.code == 1 and "pip install 'imi-monitor[web]'" in ran.err and ran.err.count("\n") == 1


def test_no_other_command_imports_what_only_web_needs() -> None:
    found = subprocess.run(
        ["grep", "-rlE", "^(from|import) (websockets|textual_serve)|cli.web ", "imi_monitor", "--include=*.py"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    assert set(found) <= {"imi_monitor/cli/web/viewer_connection.py", "imi_monitor/cli/web_command.py"}
