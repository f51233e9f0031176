"""The bridge of a window whose program has a server: runs server and screen, and joins the server with the run's files.

What the server says goes to `out`, and what comes through the named pipe `in` goes to the server. So the run is followed,
answered and interrupted as one without a terminal is, while a person may do the same in the window. It ends with the screen.
A program of its own: `-m imi_monitor.runs.server_bridge FOLDER [WORDS FOR THE SCREEN]`; `bridge.json` says what to run.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from imi_monitor import host
from imi_monitor.model.text import safe
from imi_monitor.runs.launch_folder import LaunchFolder
from imi_monitor.sources.agents import fields

PLAN: Final = "bridge.json"
_START_SECONDS = 30.0
_STEP_SECONDS = 0.05
_WATCH_SECONDS = 0.5  # where the system cannot report the end of the screen
_END_SECONDS = 0.5  # that a server has for its end: what it stores, it has stored
_BY_SIGNAL = 128

Message = dict[str, Any]


class BridgeFailed(Exception):
    """The server does not start, or refuses the session; the text is for the window."""


class ServerBridge:
    """Subclasses start the server and carry its messages."""

    pause: float | None = None  # seconds after which `receive` is called at the latest

    def __init__(self, folder: LaunchFolder, plan: Message, words: list[str]) -> None:
        self.folder, self.plan, self.words = folder, plan, words
        self.screen: subprocess.Popen[bytes] | None = None
        self._out = os.open(folder.file("out"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # for reading and writing, so that it never ends
        named = folder.file("in") if folder.takes_messages() else None
        self._pipe = None if named is None else os.open(named, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def run(self) -> int:
        """Run until the screen ends; its exit status."""
        try:
            self.start()
            return self._follow()
        except BridgeFailed as failure:
            sys.stderr.write(f"imi: {failure}\n")
            return 1
        finally:
            self.end()

    def start(self) -> None:
        """Start what runs beside the screen, or the screen itself."""
        raise NotImplementedError

    def sources(self) -> list[Any]:
        """What `select` waits for."""
        raise NotImplementedError

    def receive(self) -> None:
        """Take in what the server has said; starts the screen once it can show the session."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """Carry one message of imi to the server."""
        raise NotImplementedError

    def end(self) -> None:
        """End what runs beside the screen."""
        raise NotImplementedError

    def start_screen(self, argv: list[str], **env: str) -> None:
        self.screen = subprocess.Popen(argv, env={**os.environ, **env})

    def record(self, line: bytes) -> None:
        os.write(self._out, line.replace(b"\n", b" ") + b"\n")

    def _follow(self) -> int:
        ended: int | None = None
        while self.screen is None or self.screen.poll() is None:
            if self.screen is not None and ended is None:
                ended = _watch_end(self.screen.pid)
            watched = [*self.sources(), *(one for one in (self._pipe, ended) if one is not None)]
            if _wait(watched, self.pause if ended is not None else _WATCH_SECONDS):
                if self.screen is not None:
                    self.screen.send_signal(signal.SIGHUP)
                return _BY_SIGNAL + signal.SIGHUP
            for message in self._given():
                self.send(message)
            self.receive()
        code = self.screen.returncode
        return code if code >= 0 else _BY_SIGNAL - code

    def _given(self) -> Iterator[Message]:
        """The messages of imi that have come in."""
        if self._pipe is None:
            return
        with suppress(BlockingIOError):
            while data := os.read(self._pipe, 1 << 16):
                self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            found = fields.record(line)
            if found is not None:
                yield found


def _wait(watched: list[Any], seconds: float | None) -> bool:
    """Wait until one of these can be read; True if the terminal is gone, of which its keeper alone gets a signal."""
    waits = select.poll()
    for one in watched:
        waits.register(one, select.POLLIN)
    waits.register(0, 0)  # its end is reported always
    found = waits.poll(None if seconds is None else seconds * 1000)
    return any(number == 0 and event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for number, event in found)


def _watch_end(pid: int) -> int | None:
    """A descriptor that can be read once the process has ended; None where there is none."""
    with suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None


class CodexBridge(ServerBridge):
    """`codex app-server` on a unix socket, and `codex resume --remote` for the screen, once the first turn has begun."""

    def start(self) -> None:
        from imi_monitor.runs.provider import Spec
        from imi_monitor.runs.providers.codex import CodexProvider
        from imi_monitor.sources.agents.codex.stream import CodexStream

        plan = self.plan
        self._provider, self._reader, self._sent = CodexProvider(), CodexStream(), list[Message]()
        self._spec = Spec(
            str(plan["program"]),
            self.folder.prompt(),
            os.getcwd(),
            "",
            str(plan["mode"]),
            plan["model"],
            tuple(plan["flags"]),
            resumes=plan["resumes"],
            tools=tuple(plan["tools"]),
            packet=self.folder.packet(),
        )
        launch = self._provider.start(self._spec)
        self._place = tempfile.mkdtemp(prefix="imi-")  # the path of a socket is short
        self._address, self._socket = f"unix://{self._place}/server", None
        with open(self.folder.file("err"), "ab") as log:
            self._server = subprocess.Popen(
                [*launch.argv, "--listen", self._address], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._socket = self._connect()
        for message in launch.opening:
            self.send(dict(message))

    def _connect(self) -> Any:
        from imi_monitor.sources.agents.codex.websocket import ConnectionBroken, WebSocket

        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and self._server.poll() is None:
            with suppress(ConnectionBroken):
                return WebSocket(f"{self._place}/server", _START_SECONDS)
            time.sleep(_STEP_SECONDS)
        words = self.folder.error_lines().strip().splitlines()
        raise BridgeFailed(f"codex does not start its server: {safe(words[-1] if words else 'no answer', 300)}")

    def sources(self) -> list[Any]:
        return [] if self._socket is None else [self._socket]

    def receive(self) -> None:
        while self._socket is not None:
            try:
                line = self._socket.receive(time.monotonic())
            except OSError:  # the server is gone; its screen says so
                self._socket = None
                if self.screen is None:
                    raise BridgeFailed("codex has ended its server") from None
                return
            if line is None:
                return
            if b'"item/agentMessage/delta"' in line[:200]:
                continue  # the whole message follows
            self.record(line)
            self._reader.add(line, 0)
            if self.screen is None:
                self._open_session()

    def _open_session(self) -> None:
        """Send the prompt, once the thread is known; a screen can show the thread once it has a turn."""
        begins = bool(self._spec.prompt) or self._reader.refused is not None
        if begins:
            for message in self._provider.greet(self._reader, self._sent, self._spec) or ():
                self.send(message)
        if self._reader.session is None or (begins and self._reader.turn is None):
            if self._reader.detail is not None and self._reader.state is not None:
                raise BridgeFailed(f"codex refuses the session: {safe(self._reader.detail, 300)}")
            return
        self.start_screen([self._spec.program, "resume", "--remote", self._address, self._reader.session])

    def send(self, message: Message) -> None:
        self._sent.append(message)
        if self._socket is not None:
            with suppress(OSError):  # `receive` sees that it is gone
                self._socket.send(json.dumps(message))

    def _interrupt(self) -> None:
        for message in self._provider.interrupt(self._reader):
            self.send(message)

    def end(self) -> None:
        server = getattr(self, "_server", None)
        if server is not None:
            if server.poll() is None:
                self._interrupt()  # within a turn it does not end by a signal
            _end(server)
        place = getattr(self, "_place", None)
        if place is not None:
            with suppress(OSError):
                os.unlink(f"{place}/server")
            with suppress(OSError):
                os.rmdir(place)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and the processes below it: codex is one of node, with its server below."""
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        below = host.descendants([process.pid])
        process.kill()
        for pid, started in below.items():
            if host.start_time(pid) == started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.wait()


def main(path: str, words: list[str]) -> int:
    folder = LaunchFolder(path)
    with open(folder.file(PLAN), encoding="utf-8") as file:
        plan = json.load(file)
    kind: type[ServerBridge] = CodexBridge
    if plan["kind"] == "opencode":
        from imi_monitor.runs.opencode_bridge import OpencodeBridge

        kind = OpencodeBridge
    elif plan["kind"] == "screen":
        from imi_monitor.runs.screen_bridge import ScreenBridge

        kind = ScreenBridge
    elif plan["kind"] == "aider":
        from imi_monitor.runs.aider_bridge import AiderBridge

        kind = AiderBridge
    elif plan["kind"] == "aider-screen":
        from imi_monitor.runs.aider_screen import AiderScreenBridge

        kind = AiderScreenBridge
    bridge = kind(folder, plan, words)

    def stop(number: int, frame: object) -> None:
        if bridge.screen is not None:
            bridge.screen.terminate()
        bridge.end()
        os._exit(_BY_SIGNAL + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    signal.signal(signal.SIGINT, lambda number, frame: None)  # the screen's; reset in what is started here
    return bridge.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
