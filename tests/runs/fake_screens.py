"""Fake agent programs with a screen and a server of their own, for tests of windows: Codex and opencode.

`fake_agent.py` starts them. A key `y` or `n` answers what is asked, a line is a prompt, escape interrupts, as in the real
programs. Shapes: recorded from Codex 0.169.0 and opencode 1.18.33.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import select
import socket
import struct
import sys
import threading
import tty
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from typing import Any

from tests.runs.fake_agent import FakeAgent, FakeCodex, Record

_LIMIT = 600.0  # seconds in which a test has ended
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Frames:
    """One side of a WebSocket: text frames out of bytes, and back."""

    def __init__(self, connection: socket.socket, masks: bool) -> None:
        self.connection, self._masks, self._data = connection, masks, b""
        connection.settimeout(_LIMIT)

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, record: Record) -> None:
        content, mask = json.dumps(record).encode(), 128 if self._masks else 0
        size = (
            bytes([mask | len(content)])
            if len(content) < 126
            else bytes([mask | 127]) + struct.pack(">Q", len(content))
        )
        self.connection.sendall(bytes([129]) + size + (bytes(4) if self._masks else b"") + content)

    def receive(self) -> list[Record]:
        """The messages that are there; EOFError at the end."""
        data = self.connection.recv(1 << 16)
        if not data:
            raise EOFError
        self._data += data
        found = []
        while (frame := self._frame()) is not None:
            found.append(json.loads(frame))
        return found

    def _frame(self) -> bytes | None:
        if len(self._data) < 2:
            return None
        masked, size, at = self._data[1] & 128, self._data[1] & 127, 2
        if size > 125:
            at = 4 if size == 126 else 10
            size = int.from_bytes(self._data[2:at], "big")
        end = at + (4 if masked else 0) + size
        if len(self._data) < end:
            return None
        content = self._data[end - size : end]
        if masked:
            key = self._data[at : at + 4]
            content = bytes(byte ^ key[number % 4] for number, byte in enumerate(content))
        self._data = self._data[end:]
        return content


def _head(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1)
    return data


class FakeCodexServer(FakeCodex):
    """`codex app-server --listen unix://PATH`: what it says goes to all its clients, and the first answer counts."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(words[words.index("--listen") + 1].removeprefix("unix://"))
        self._listener.listen()
        self._clients: list[Frames] = []
        self._messages: list[Record] = []
        self._asked: Record | None = None  # shown to a client that comes later, too

    def out(self, record: Record) -> None:
        if "method" in record and "id" in record:
            self._asked = record
        elif record.get("method") == "serverRequest/resolved":
            self._asked = None
        for client in self._clients:
            client.send(record)

    def next(self, seconds: float | None = None) -> Record | None:
        while not self._messages:
            ready = select.select([self._listener, *self._clients], [], [], seconds)[0]
            if not ready:
                return None
            for one in ready:
                if one is self._listener:
                    self._clients.append(_accept(self._listener))
                    if self._asked is not None:
                        self._clients[-1].send(self._asked)
                    continue
                try:
                    self._messages += one.receive()
                except (EOFError, OSError):
                    self._clients.remove(one)
        return self._messages.pop(0)


def _accept(listener: socket.socket) -> Frames:
    connection, _ = listener.accept()
    key = next(
        line.split(b": ")[1] for line in _head(connection).split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key")
    )
    accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    return Frames(connection, masks=False)


class FakeCodexScreen:
    """`codex resume --remote unix://PATH THREAD`."""

    def __init__(self, words: list[str]) -> None:
        self.thread = words[-1]
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(words[words.index("--remote") + 1].removeprefix("unix://"))
        connection.sendall(b"GET / HTTP/1.1\r\nSec-WebSocket-Key: eA==\r\n\r\n")
        _head(connection)
        self.server = Frames(connection, masks=True)
        self.asked: object = None
        self.turn = ""

    def serve(self) -> None:
        tty.setcbreak(0)
        show("welcome")
        typed = ""
        while True:
            for one in select.select([0, self.server], [], [])[0]:
                if one == 0:
                    typed = self.press(typed + os.read(0, 1 << 16).decode())
                    continue
                for message in self.server.receive():
                    self.take(message)

    def press(self, typed: str) -> str:
        """Act on what was typed; what is left of it."""
        if self.asked is not None and typed[:1] in ("y", "n"):
            self.server.send({"id": self.asked, "result": {"decision": "accept" if typed[0] == "y" else "decline"}})
            return ""
        if typed == "\x1b":
            self.server.send({"id": "screen", "method": "turn/interrupt", "params": {"threadId": self.thread}})
            return ""
        text, enter, rest = typed.replace("\n", "\r").partition("\r")
        if enter:
            given = {"threadId": self.thread, "input": [{"type": "text", "text": text}]}
            self.server.send({"id": f"screen-{uuid.uuid4()}", "method": "turn/start", "params": given})
        return rest if enter else typed

    def take(self, message: Record) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "item/commandExecution/requestApproval":
            self.asked = message["id"]
            show(f"May it run {params['command']}?")
        elif method == "serverRequest/resolved":
            self.asked = None
        elif method == "item/completed" and params["item"]["type"] == "agentMessage":
            show(params["item"]["text"])


def show(text: str) -> None:
    sys.stdout.write(f"{text}\r\n")
    sys.stdout.flush()


class FakeOpencode(FakeAgent):
    """`opencode --port N [-s ID] [--prompt=TEXT]`: its screen, which serves HTTP."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.session = words[words.index("--session") + 1] if "--session" in words else ""
        self.folder = os.path.join(os.environ["HOME"], ".opencode-fake")
        self.prompt = next((word.removeprefix("--prompt=") for word in words if word.startswith("--prompt=")), "")
        self.port = int(words[words.index("--port") + 1])
        self.given: Queue[Record] = Queue()  # keys and requests
        self.listeners: list[Queue[Record]] = []
        self.asked: list[Record] = []
        self.busy = False
        self.number = 0

    def serve(self) -> None:
        tty.setcbreak(0)
        show("welcome")
        handler = type("FakeOpencodeHandler", (_Handler,), {"fake": self})
        server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        server.daemon_threads = True
        for target in (server.serve_forever, self.read_keys):
            threading.Thread(target=target, daemon=True).start()
        text = self.prompt
        while True:
            if text:
                self.run_turn(text)
            text = str(self.given.get(timeout=_LIMIT).get("prompt") or "")

    def read_keys(self) -> None:
        typed = ""
        while True:
            typed += os.read(0, 1 << 16).decode().replace("\n", "\r")
            if self.asked and typed[:1] in ("y", "n"):
                self.given.put({"reply": "once" if typed[0] == "y" else "reject", "id": self.asked[0]["id"]})
                typed = ""
            elif typed == "\x1b":
                self.given.put({"abort": True})
                typed = ""
            elif "\r" in typed:
                text, _, typed = typed.partition("\r")
                self.given.put({"prompt": text})

    def run_turn(self, prompt: str) -> None:
        if not self.session:
            self.session = f"ses_{uuid.uuid4().hex[:20]}"
            os.makedirs(self.folder, exist_ok=True)
            open(os.path.join(self.folder, self.session), "w").close()
        self.emit("session.updated", info=self.info())
        self.busy = True
        user = self.message("user")
        self.part(user, {"type": "text", "text": prompt})
        self.status("busy")
        self.answer = self.message("assistant")
        end = self.act(prompt)
        if end == "interrupted":
            self.emit("session.error", error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})
        self.message("assistant", self.answer, time={"created": 1, "completed": 2}, finish="stop")
        self.busy = False
        self.status("idle")

    def info(self) -> Record:
        return {"id": self.session, "directory": os.getcwd(), "title": "A title.", "version": "1.18.33"}

    def emit(self, kind: str, **properties: Any) -> None:
        for each in self.listeners:
            each.put({"type": kind, "properties": {"sessionID": self.session, **properties}})

    def status(self, kind: str) -> None:
        self.emit("session.status", status={"type": kind})

    def message(self, role: str, ident: str = "", **more: Any) -> str:
        ident = ident or f"msg_{uuid.uuid4().hex[:16]}"
        info = {"id": ident, "sessionID": self.session, "role": role, "time": {"created": 1_795_123_793_000}, **more}
        self.emit("message.updated", info=info)
        return ident

    def part(self, message: str, part: Record) -> None:
        self.number += 1
        given = {"id": f"prt_{self.number}", "messageID": message, "sessionID": self.session, **part}
        self.emit("message.part.updated", part=given, time=1_795_123_793_000)

    def say(self, text: str) -> None:
        show(text)
        self.part(self.answer, {"type": "text", "text": text, "time": {"start": 1, "end": 2}})

    def tool(self, command: str) -> str:
        state = {"status": "running", "input": {"command": command}, "time": {"start": 1_795_123_793_000}}
        self.part(self.answer, {"type": "tool", "tool": "bash", "callID": f"call_{self.number}", "state": state})
        return f"prt_{self.number}"

    def ask(self, command: str) -> bool:
        call = self.tool(command)
        one = {"id": f"per_{uuid.uuid4().hex[:12]}", "sessionID": self.session, "permission": "bash"}
        one |= {"patterns": [command], "metadata": {"command": command}}
        self.asked = [one]
        show(f"May it run {command}?")
        self.emit("permission.asked", **one)
        while (given := self.given.get(timeout=_LIMIT)).get("id") != one["id"]:
            pass
        self.asked = []
        self.emit("permission.replied", requestID=one["id"], reply=given["reply"])
        done = {"status": "completed" if given["reply"] == "once" else "error", "input": {"command": command}}
        part = {"type": "tool", "tool": "bash", "callID": "call", "id": call, "state": {**done, "output": "ok"}}
        self.part(self.answer, part)
        return bool(given["reply"] == "once")

    def next(self, seconds: float | None = None) -> Record | None:
        try:
            return self.given.get(timeout=seconds)
        except Empty:
            return None

    def is_interrupt(self, message: Record) -> bool:
        return bool(message.get("abort"))


class _Handler(BaseHTTPRequestHandler):
    fake: FakeOpencode
    protocol_version = "HTTP/1.1"

    def log_message(self, *values: object) -> None:
        pass

    def do_GET(self) -> None:
        fake, path = self.fake, self.path.partition("?")[0]
        if not self.allowed():
            return
        if path == "/event":
            self.stream()
            return
        found: dict[str, Callable[[], object]] = {
            "/session/status": lambda: {fake.session: {"type": "busy"}} if fake.busy else {},
            "/permission": lambda: fake.asked,
            "/question": lambda: [],
            f"/session/{fake.session}": fake.info,
            f"/session/{fake.session}/message": lambda: [],
        }
        self.answer(found.get(path, dict)())

    def do_POST(self) -> None:
        if not self.allowed():
            return
        given = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        parts = self.path.strip("/").split("/")
        if parts[-1] == "reply":
            self.fake.given.put({"id": parts[1], "reply": given["reply"]})
        elif parts[-1] == "abort":
            self.fake.given.put({"abort": True})
        else:
            self.fake.given.put({"prompt": given["parts"][0]["text"]})
        self.answer(True)

    def allowed(self) -> bool:
        wanted = f"opencode:{os.environ['OPENCODE_SERVER_PASSWORD']}".encode()
        if self.headers.get("authorization") == f"Basic {base64.b64encode(wanted).decode()}":
            return True
        self.send_error(401)
        return False

    def answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        mine: Queue[Record] = Queue()
        self.fake.listeners.append(mine)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        mine.put({"type": "server.connected", "properties": {}})
        while True:
            self.wfile.write(f"data: {json.dumps(mine.get(timeout=_LIMIT))}\n\n".encode())
            self.wfile.flush()


class FakeCopilot(FakeAgent):
    """`copilot --session-id ID --interactive=TEXT`: its screen, and the files in which it records its session."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.session = words[words.index("--session-id") + 1]
        self.prompt = next((word.removeprefix("--interactive=") for word in words if word.startswith("--i")), "")
        home = os.path.join(os.environ["HOME"], ".copilot")
        self.folder = os.path.join(home, "session-state", self.session)
        os.makedirs(self.folder)
        for path, text in (
            (f"{home}/config.json", json.dumps({"trustedFolders": [os.getcwd()]})),
            (f"{self.folder}/workspace.yaml", f"cwd: {os.getcwd()}\n"),
            (f"{self.folder}/inuse.{os.getpid()}.lock", ""),
        ):
            with open(path, "w") as file:
                file.write(text)

    def serve(self) -> None:
        tty.setcbreak(0)
        self.event("session.start", version=1, context={"cwd": os.getcwd()})
        text = self.prompt
        while True:
            if text:
                self.event("user.message", content=text)
                self.event("assistant.turn_start", turnId="0")
                self.act(text)
                self.event("assistant.turn_end", turnId="0")
            text = os.read(0, 1 << 16).decode().strip("\r\n")

    def event(self, kind: str, **data: Any) -> None:
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with open(f"{self.folder}/events.jsonl", "a") as file:
            file.write(json.dumps({"type": kind, "data": data, "id": uuid.uuid4().hex, "timestamp": moment}) + "\n")

    def say(self, text: str) -> None:
        show(text)
        self.event("assistant.message", content=text)

    def ask(self, command: str) -> bool:
        asked = {"kind": "shell", "fullCommandText": command, "toolCallId": "call"}
        self.event("permission.requested", requestId="ask", permissionRequest=asked)
        show(
            f"\x1b[2J\x1b[H╭──╮\r\n│ {command} │\r\n│ Do you want to run it? │\r\n│ ❯ 1. Yes │\r\n│   2. No (Esc) │\r\n╰──╯"
        )
        while (key := os.read(0, 8)) not in (b"1", b"2", b"\x1b"):
            pass
        show("\x1b[2J\x1b[Hwelcome")
        self.event("permission.completed", requestId="ask", result={"kind": "approved" if key == b"1" else "denied"})
        return key == b"1"


class FakeGeminiScreen:
    """`gemini --resume ID`, which refuses every session, and `gemini --session-id ID --prompt-interactive=TEXT`."""

    def __init__(self, words: list[str]) -> None:
        if "--resume" in words:
            sys.stderr.write(f'Error resuming session: Invalid session identifier "{words[1]}"\n')
            sys.exit(42)
        self.words = words

    def serve(self) -> None:
        tty.setcbreak(0)
        show(next(word.partition("=")[2] for word in self.words if word.startswith("--prompt-interactive=")))
        while os.read(0, 1 << 16):
            pass


def program(name: str, words: list[str]) -> Any:
    """The program with a screen that these arguments start; None if they start none."""
    if name == "codex" and "--listen" in words:
        return FakeCodexServer(words)
    if name == "codex" and "--remote" in words:
        return FakeCodexScreen(words)
    if name == "copilot":
        return FakeCopilot(words)
    if name == "gemini":
        return FakeGeminiScreen(words)
    return FakeOpencode(words) if name == "opencode" and "--port" in words else None
