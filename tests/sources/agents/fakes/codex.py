"""A fake Codex: writes rollouts, locks, an index and a daemon's socket as the real one does, told what to do on stdin.

    python codex.py                                as a terminal: holds its thread's lock itself
    python codex.py app-server --listen unix://    as the daemon: holds the locks, answers on the socket

One command a line (`new DIR [ID]`, `resume ID`, `prompt TEXT`, `plan TEXT`, `say`, `tool CMD`, `ask CMD`, `patch FILE`,
`question TEXT`, `answer TEXT`, `finish TEXT`, `fail TEXT`, `esc`, `quit`, `crash`), each answered by a line on stdout.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

VERSION = "0.169.0"
_USAGE = {
    "input_tokens": 1000,
    "cached_input_tokens": 600,
    "cache_write_input_tokens": 0,
    "output_tokens": 50,
    "reasoning_output_tokens": 10,
    "total_tokens": 1050,
}


class Rollout:
    """Writes what Codex writes, record by record, in its order."""

    def __init__(
        self, write: Callable[[str], None], ident: str, cwd: str, clock: Callable[[], float] = time.time
    ) -> None:
        self.write, self.id, self.cwd, self.clock = write, ident, cwd, clock
        self.ordinal = 0
        self.turn = ""
        self.started = 0
        self.calls = 0
        self.call = ""
        self.open: tuple[str, str] | None = None
        self.turns_tokens = 0
        self.policy = "on-request"
        self.mode = "default"
        self.models_said = ""

    def _uuid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.id}/{self.ordinal}/{self.calls}"))

    def record(self, kind: str, payload: dict[str, Any]) -> None:
        at = datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"timestamp": at, "ordinal": self.ordinal, "type": kind, "payload": payload})
        self.ordinal += 1
        self.write(line + "\n")

    def event(self, kind: str, **payload: Any) -> None:
        self.record("event_msg", {"type": kind, **payload})

    def item(self, kind: str, **item: Any) -> None:
        now = int(self.clock() * 1000)
        self.event(
            "item_completed",
            thread_id=self.id,
            turn_id=self.turn,
            item={"type": kind, **item},
            started_at_ms=now,
            completed_at_ms=now,
        )

    def response(self, kind: str, **payload: Any) -> None:
        self.record("response_item", {"type": kind, **payload})

    def meta(self, source: Any = "cli", padding: int = 4000, **more: Any) -> None:
        at = datetime.fromtimestamp(self.clock() - 30, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.record(
            "session_meta",
            {
                "account_scoped": True,
                "session_id": self.id,
                "id": self.id,
                "timestamp": at,
                "cwd": self.cwd,
                "runtime_workspace_roots": [self.cwd],
                "originator": "codex-tui",
                "cli_version": VERSION,
                "source": source,
                "thread_source": "user",
                "model_provider": "fake",
                "base_instructions": {"text": "You help with code. " * (padding // 20)},
                "history_mode": "paginated",
                "context_window": {"window_id": self._uuid()},
                "git": {"commit_hash": "0" * 40, "branch": "feat/fake"},
                **more,
            },
        )

    def prompt(self, text: str, mode: str = "default") -> None:
        self.turn, self.mode, self.started = self._uuid(), mode, int(self.clock())
        self.event(
            "task_started",
            turn_attribution={"turn_id": self.turn, "turn_trigger": "user"},
            turn_id=self.turn,
            root_turn_id=self.turn,
            started_at=self.started,
            model_context_window=200000,
            collaboration_mode_kind=mode,
        )
        self.response(
            "message",
            id="msg_env",
            role="user",
            content=[
                {
                    "type": "input_text",
                    "text": f"<environment_context>\n  <cwd>{self.cwd}</cwd>\n</environment_context>",
                }
            ],
        )
        self.record("world_state", {"full": True, "state": {"collaboration_mode": {"mode": mode}}})
        self.record(
            "turn_context",
            {
                "turn_id": self.turn,
                "cwd": self.cwd,
                "approval_policy": self.policy,
                "model": "fake-1",
                "collaboration_mode": {"mode": mode},
            },
        )
        self.event("thread_settings_applied", thread_id=self.id, thread_settings={"model": "fake-1"})
        self.response("message", id=f"msg_{self._uuid()}", role="user", content=[{"type": "input_text", "text": text}])
        self.item("UserMessage", id=self._uuid(), content=[{"type": "text", "text": text, "text_elements": []}])

    def say(self, text: str) -> None:
        ident = f"msg_{self._uuid()}"
        self.item("AgentMessage", id=ident, content=[{"type": "Text", "text": text}])
        self.response(
            "message",
            status="completed",
            id=ident,
            role="assistant",
            content=[{"type": "output_text", "text": text, "annotations": []}],
        )

    def _calls(self, name: str, arguments: dict[str, Any]) -> None:
        self.calls += 1
        self.call = f"call_{self.id[:4]}_{self.calls}"
        self.response(
            "function_call",
            status="completed",
            id=f"fc_{self.call}",
            name=name,
            arguments=json.dumps(arguments),
            call_id=self.call,
        )
        self._used()

    def _used(self) -> None:
        self.turns_tokens += 1
        total = {name: count * self.turns_tokens for name, count in _USAGE.items()}
        self.record(
            "token_usage_record",
            {
                "thread_id": self.id,
                "turn_id": self.turn,
                "usage": _USAGE,
                "turn_token_usage": total,
                "thread_token_usage": total,
            },
        )

    def _counted(self) -> None:
        total = {name: count * self.turns_tokens for name, count in _USAGE.items()}
        self.event(
            "token_count",
            info={"total_token_usage": total, "last_token_usage": _USAGE, "model_context_window": 200000},
            rate_limits={"limit_id": "codex"},
        )

    def tool(self, command: str) -> None:
        self._calls("exec_command", {"cmd": command})
        self.open = ("CommandExecution", command)

    def ask(self, command: str, why: str = "It writes outside.") -> None:
        self._calls("exec_command", {"cmd": command, "sandbox_permissions": "require_escalated", "justification": why})
        self.open = ("CommandExecution", command)

    def question(self, text: str) -> None:
        self._calls("request_user_input", {"questions": [{"id": "one", "question": text, "options": []}]})
        self.open = ("Question", text)

    def patch(self, name: str) -> None:
        self.calls += 1
        self.call = f"call_{self.id[:4]}_{self.calls}"
        self.response(
            "custom_tool_call",
            id=f"ctc_{self.call}",
            status="completed",
            call_id=self.call,
            name="apply_patch",
            input=f"*** Begin Patch\n*** Update File: {name}\n@@\n-a\n+b\n*** End Patch\n",
        )
        self._used()
        self.open = ("FileChange", name)

    def answer(self, text: str = "", code: int = 0) -> None:
        """The open call has its result."""
        kind, what = self.open or ("", "")
        self.open = None
        if kind == "Question":
            self.record("retained_context", {"type": "verified_answer", "turn_id": self.turn, "call_id": self.call})
            output = json.dumps({"answers": {"one": {"answers": [text]}}})
            self.response("function_call_output", id=f"fco_{self.call}", call_id=self.call, output=output)
        elif kind == "FileChange":
            path = os.path.join(self.cwd, what)
            self.item(
                "FileChange",
                id=self.call,
                changes={path: {"type": "update", "unified_diff": ""}},
                status="completed",
                stdout=f"M {what}\n",
                stderr="",
            )
            self.response("custom_tool_call_output", id=f"ctco_{self.call}", call_id=self.call, output="Exit code: 0\n")
        else:
            self.item(
                "CommandExecution",
                id=self.call,
                command=["/bin/bash", "-lc", what],
                cwd=f"file://{self.cwd}",
                status="completed" if code == 0 else "failed",
                aggregated_output=text,
                exit_code=code,
            )
            output = f"Wall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n{text}"
            self.response("function_call_output", id=f"fco_{self.call}", call_id=self.call, output=output)
        self._counted()

    def finish(self, text: str) -> None:
        self.say(text)
        self._used()
        self._counted()
        self.event(
            "task_complete",
            root_turn_id=self.turn,
            turn_id=self.turn,
            last_agent_message=text,
            started_at=self.started,
            completed_at=int(self.clock()),
            duration_ms=10,
        )

    def fail(self, text: str) -> None:
        error = {"message": json.dumps({"error": {"message": text, "code": "fake"}}), "codex_error_info": "other"}
        self.event(
            "task_complete",
            root_turn_id=self.turn,
            turn_id=self.turn,
            last_agent_message=None,
            error=error,
            started_at=self.started,
            completed_at=int(self.clock()),
            duration_ms=10,
        )

    def esc(self) -> None:
        if self.open:
            self.response(
                "function_call_output",
                id=f"fco_{self.call}",
                call_id=self.call,
                output="Wall time: 3.9 seconds\naborted by user",
            )
            self.open = None
        self._counted()
        self.response(
            "message",
            id="msg_abort",
            role="user",
            content=[{"type": "input_text", "text": "<turn_aborted>\nStopped.\n</turn_aborted>"}],
        )
        self.event(
            "turn_aborted",
            root_turn_id=self.turn,
            turn_id=self.turn,
            reason="interrupted",
            started_at=self.started,
            completed_at=int(self.clock()),
            duration_ms=10,
        )

    def late_result(self, command: str) -> None:
        """A command of an interrupted turn ends during the next turn."""
        self.item(
            "CommandExecution",
            id="call_of_another_turn",
            command=["/bin/bash", "-lc", command],
            cwd=f"file://{self.cwd}",
            status="completed",
            aggregated_output="",
            exit_code=0,
        )


class Fake:
    """The program around the rollout: files, locks, index; `status` is what its daemon would say."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.rollout: Rollout | None = None
        self.threads: dict[str, dict[str, Any]] = {}
        self.changed: Callable[[str], None] = lambda thread: None
        self.ends: list[Callable[[], None]] = []
        self._lock: int | None = None

    def do(self, line: str) -> str:
        word, _, rest = line.strip().partition(" ")
        if word == "new":
            cwd, _, ident = rest.partition(" ")
            return self.new(os.path.realpath(cwd), ident or str(uuid.uuid4()))
        if word == "resume":
            return self.resume(rest)
        if word in ("quit", "crash"):
            self.leave(word == "crash")
        rollout = self.rollout
        assert rollout is not None, "say `new` first"
        if word == "plan":
            rollout.prompt(rest, "plan")
        else:
            arguments = () if word in ("esc",) else (rest,)
            getattr(rollout, word)(*arguments)
        self._status(word, rollout)
        return rollout.id

    def _status(self, word: str, rollout: Rollout) -> None:
        status: dict[str, Any] = {"type": "active", "activeFlags": []}
        if word in ("finish", "fail", "esc"):
            status = {"type": "idle"}
        if word in ("ask", "question"):
            status["activeFlags"] = ["waitingOnApproval" if word == "ask" else "waitingOnUserInput"]
        self.threads[rollout.id]["status"] = status
        self.changed(rollout.id)

    def new(self, cwd: str, ident: str) -> str:
        now = datetime.now()
        folder = os.path.join(self.home, "sessions", now.strftime("%Y/%m/%d"))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"rollout-{now:%Y-%m-%dT%H-%M-%S}-{ident}.jsonl")
        self._load(ident, cwd, path)
        assert self.rollout is not None
        self.rollout.meta()
        self._index(ident, cwd, path)
        return ident

    def resume(self, ident: str) -> str:
        """Continue in the file of the day on which the thread began."""
        with contextlib.closing(sqlite3.connect(os.path.join(self.home, "state_5.sqlite"))) as database:
            path, cwd = database.execute("SELECT rollout_path, cwd FROM threads WHERE id = ?", (ident,)).fetchone()
        self._load(ident, cwd, path)
        assert self.rollout is not None
        with open(path, encoding="utf-8") as file:
            self.rollout.ordinal = len(file.readlines())
        self._index(ident, cwd, path)
        return ident

    def _load(self, ident: str, cwd: str, path: str) -> None:
        locks = os.path.join(self.home, "thread-writer-locks")
        os.makedirs(locks, exist_ok=True)
        self._lock = os.open(os.path.join(locks, f"{ident}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

        def write(line: str) -> None:
            with open(path, "a", encoding="utf-8") as file:
                file.write(line)

        self.rollout = Rollout(write, ident, cwd)
        self.threads[ident] = {"id": ident, "cwd": cwd, "path": path, "cliVersion": VERSION, "status": {"type": "idle"}}

    def _index(self, ident: str, cwd: str, path: str) -> None:
        with contextlib.closing(sqlite3.connect(os.path.join(self.home, "state_5.sqlite"))) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS threads (id TEXT PRIMARY KEY, rollout_path TEXT, created_at INTEGER, "
                "updated_at INTEGER, source TEXT, cwd TEXT, title TEXT, archived INTEGER, name TEXT)"
            )
            database.execute(
                "INSERT OR REPLACE INTO threads VALUES (?, ?, ?, ?, 'cli', ?, 'a fake task', 0, NULL)",
                (ident, path, int(time.time()), int(time.time()), cwd),
            )
            database.commit()

    def leave(self, crash: bool) -> None:
        for end in self.ends:
            end()
        if crash:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.rollout is not None:
            os.unlink(os.path.join(self.home, "thread-writer-locks", f"{self.rollout.id}.lock"))
        sys.exit(0)


class Server:
    """The daemon's side of the socket. `behave` makes it answer like an unknown version."""

    def __init__(self, path: str, threads: dict[str, dict[str, Any]], behave: str = "") -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.threads, self.behave = threads, behave
        self.asked: list[str] = []
        self.questions: dict[str, list[dict[str, Any]]] = {}  # of each thread: the open requests to its clients
        self.answers: list[dict[str, Any]] = []
        self.links: list[socket.socket] = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.folder = tempfile.mkdtemp(prefix="imi-fake-", dir="/tmp")  # a socket's address must be short
        self.socket.bind(os.path.join(self.folder, "s"))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.symlink(os.path.join(self.folder, "s"), path)
        self.socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for one in (self.socket, *self.links):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def push(self, thread: str) -> None:
        status = self.threads[thread]["status"]
        self.tell_all({"method": "thread/status/changed", "params": {"threadId": thread, "status": status}})

    def tell_all(self, message: dict[str, Any]) -> None:
        for link in self.links:
            with contextlib.suppress(OSError):
                link.sendall(_frame(json.dumps(message).encode()))

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self.socket.accept()
                threading.Thread(target=self._talk, args=(link,), daemon=True).start()

    def _talk(self, link: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError, AssertionError), link, link.makefile("rb") as file:
            key = ""
            while (line := file.readline().strip()) != b"":
                name, _, value = line.decode().partition(": ")
                key = value if name.lower() == "sec-websocket-key" else key
            if self.behave == "no websocket":
                link.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")
                return
            digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
            accept = base64.b64encode(digest).decode()
            link.sendall(
                f"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
                f"sec-websocket-accept: {accept}\r\n\r\n".encode()
            )
            self.links.append(link)
            while True:
                self._answer(link, json.loads(_read_frame(file.read)))

    def _answer(self, link: socket.socket, asked: dict[str, Any]) -> None:
        if "method" not in asked:
            self._close_question(asked)
            return
        self.asked.append(asked["method"])
        if "id" not in asked or self.behave == "silent":
            return
        answer: dict[str, Any] = {"id": asked["id"], "result": self._result(asked["method"], asked.get("params") or {})}
        if answer["result"] is None:
            answer = {"id": asked["id"], "error": {"code": -32600, "message": "Invalid request: unknown variant"}}
        data = b"[1]" if self.behave == "no objects" else json.dumps(answer).encode()
        if self.behave == "pieces":
            half = len(data) // 2
            link.sendall(_frame(data[:half], first=0x01) + _frame(b"hello", first=0x89))
            time.sleep(0.01)
            data_end = _frame(data[half:], first=0x80)
            link.sendall(data_end[:3])
            time.sleep(0.01)
            link.sendall(data_end[3:])
        else:
            link.sendall(_frame(data))
        if asked["method"] == "thread/resume":
            for one in self.questions.get(asked["params"]["threadId"], ()):
                link.sendall(_frame(json.dumps(one).encode()))

    def _close_question(self, answer: dict[str, Any]) -> None:
        self.answers.append(answer)
        for thread, open_now in self.questions.items():
            if any(one["id"] == answer["id"] for one in open_now):
                self.questions[thread] = [one for one in open_now if one["id"] != answer["id"]]
                self.tell_all(
                    {"method": "serverRequest/resolved", "params": {"threadId": thread, "requestId": answer["id"]}}
                )

    def ask(self, thread: str, number: int, item: str, command: str) -> None:
        """Ask all clients whether a command may run, and those that resume the thread later."""
        params = {"threadId": thread, "turnId": "t", "itemId": item, "command": f"/bin/bash -lc '{command}'"}
        one = {"id": number, "method": "item/commandExecution/requestApproval", "params": params}
        self.questions.setdefault(thread, []).append(one)
        self.tell_all(one)

    def _result(self, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            return {"userAgent": "fake", "codexHome": "", "platformFamily": "unix", "platformOs": "linux"}
        if method == "thread/loaded/list":
            return {"threads": []} if self.behave == "other names" else {"data": list(self.threads), "nextCursor": None}
        if method in ("thread/read", "thread/resume"):
            thread = self.threads.get(params.get("threadId", ""))
            return {"thread": thread} if thread else None
        return None


def _frame(data: bytes, first: int = 0x81) -> bytes:
    size = len(data)
    if size < 126:
        return bytes([first, size]) + data
    return (
        bytes([first, 126]) + size.to_bytes(2, "big") + data
        if size < 65536
        else (bytes([first, 127]) + size.to_bytes(8, "big") + data)
    )


def _read_frame(read: Callable[[int], bytes]) -> bytes:
    """One text frame of a client, unmasked; control frames are passed over."""
    while True:
        head = read(2)
        assert len(head) == 2 and head[1] & 128, "a client must mask"
        size = head[1] & 127
        if size > 125:
            size = int.from_bytes(read(2 if size == 126 else 8), "big")
        mask = read(4)
        data = bytes(byte ^ mask[number % 4] for number, byte in enumerate(read(size)))
        if head[0] & 15 == 1:
            return data


def main() -> None:
    home = os.environ["CODEX_HOME"]
    os.makedirs(home, exist_ok=True)
    fake = Fake(home)
    if "app-server" in sys.argv:
        server = Server(os.path.join(home, "app-server-control", "app-server-control.sock"), fake.threads)
        fake.changed = server.push
        fake.ends.append(server.close)
    print("ready", flush=True)
    for line in sys.stdin:
        print(fake.do(line), flush=True)


if __name__ == "__main__":
    main()
