"""A fake Gemini: writes chats and its list of projects as the real one does, told what to do on stdin.

One command a line (`new DIR [ID]`, `resume`, `prompt TEXT`, `words TEXT`, `call COMMAND`, `write FILE`, `done`,
`finish TEXT`, `esc`, `fail TEXT`, `quit`, `crash`), each answered by a line on stdout.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

_TOKENS = {"input": 1000, "output": 40, "cached": 600, "thoughts": 10, "tool": 0, "total": 1050}


class Chat:
    """Writes what Gemini writes, line by line, in its order."""

    def __init__(
        self, write: Callable[[str], None], ident: str, cwd: str, clock: Callable[[], float] = time.time
    ) -> None:
        self.write, self.id, self.cwd, self.clock = write, ident, cwd, clock
        self.count = 0
        self.messages: list[dict[str, Any]] = []
        self.open: dict[str, Any] | None = None
        self.last: dict[str, Any] = {}

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def line(self, value: dict[str, Any]) -> None:
        self.write(json.dumps(value, separators=(",", ":")) + "\n")

    def message(self, kind: str, content: Any, keep: bool = True, **more: Any) -> dict[str, Any]:
        self.count += 1
        ident = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.id}/{self.count}"))
        value = {"id": ident, "timestamp": self._now(), "type": kind, "content": content, **more}
        self.line(value)
        self.line({"$set": {"lastUpdated": self._now()}})
        if keep:
            self.messages.append(value)
        return value

    def start(self, kind: str = "main") -> None:
        digest = hashlib.sha256(self.cwd.encode()).hexdigest()
        self.line(
            {
                "sessionId": self.id,
                "projectHash": digest,
                "startTime": self._now(),
                "lastUpdated": self._now(),
                "kind": kind,
            }
        )
        first = {
            "id": "0" * 32,
            "timestamp": self._now(),
            "type": "user",
            "content": [{"text": "<session_context>\nA fake.\n</session_context>"}],
        }
        self.messages = [first]
        self._rewrite()

    def _rewrite(self) -> None:
        self.line({"$set": {"messages": self.messages, "lastUpdated": self._now()}})

    def prompt(self, text: str) -> None:
        self.message("user", [{"text": text}], keep=False)

    def words(self, text: str) -> None:
        self.last = self.message("gemini", text, thoughts=[], tokens=_TOKENS, model="fake-flash")

    def call(self, command: str) -> None:
        """The model calls a shell: nothing of it is written before it has finished."""
        if not self.last:
            self.words("")
        self.open = {"name": "run_shell_command", "args": {"command": command}}

    def write_file(self, name: str) -> None:
        if not self.last:
            self.words("")
        self.open = {"name": "write_file", "args": {"file_path": name, "content": "x"}}

    def done(self, output: str = "ok", status: str = "success") -> None:
        assert self.open is not None
        ident = f"{self.open['name']}_{self.count}_{self.id[:4]}"
        result = {"functionResponse": {"id": ident, "name": self.open["name"], "response": {"output": output}}}
        call = {"id": ident, **self.open, "result": [result], "status": status, "timestamp": self._now()}
        if self.open["name"] == "write_file":
            name = self.open["args"]["file_path"]
            call["resultDisplay"] = {"fileDiff": "", "fileName": name, "filePath": os.path.join(self.cwd, name)}
        self.line({**self.last, "toolCalls": [call]})
        self.open, self.last = None, {}
        self.message("user", [result])

    def finish(self, text: str) -> None:
        self.words(text)
        self.last = {}

    def esc(self) -> None:
        self.message("info", "Request cancelled.", keep=False)
        if self.open is None:
            self._rewrite()  # without the prompt that was cancelled
            return
        ident = f"{self.open['name']}_{self.count}_{self.id[:4]}"
        error = {"functionResponse": {"id": ident, "response": {"error": "[Operation Cancelled] Reason: by user"}}}
        call = {"id": ident, **self.open, "result": [error], "status": "cancelled", "timestamp": self._now()}
        self.open, self.last = None, {}
        self.message("gemini", "", toolCalls=[call], thoughts=[], model="fake-flash")
        self.message("user", [error])

    def fail(self, text: str) -> None:
        self._rewrite()
        error = json.dumps({"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}})
        self.message("error", f"[API Error: {error}]", keep=False)
        self.message("info", "This request failed. Press F12 for diagnostics.", keep=False)


class Fake:
    """The program around the chat."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.chat: Chat | None = None
        self.path = ""

    def do(self, line: str) -> str:
        word, _, rest = line.strip().partition(" ")
        if word == "new":
            cwd, _, ident = rest.partition(" ")
            return self.new(os.path.realpath(cwd), ident or str(uuid.uuid4()))
        if word == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "quit":
            sys.exit(0)
        assert self.chat is not None, "say `new` first"
        {"write": self.chat.write_file}.get(word, getattr(self.chat, word))(*([rest] if rest else []))
        return self.chat.id

    def new(self, cwd: str, ident: str) -> str:
        name = self._register(cwd)
        folder = os.path.join(self.home, ".gemini", "tmp", name, "chats")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(self.home, ".gemini", "tmp", name, ".project_root"), "w") as file:
            file.write(cwd)
        self.path = os.path.join(folder, f"session-{datetime.now(UTC):%Y-%m-%dT%H-%M}-{ident[:8]}.jsonl")
        fresh = not os.path.exists(self.path)
        self.chat = Chat(self._append, ident, cwd)
        if fresh:
            self.chat.start()
        else:  # resumed
            self.chat.line({"$set": {"sessionId": ident}})
            self.chat.count = 1000
        return ident

    def _append(self, line: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line)

    def _register(self, cwd: str) -> str:
        path = os.path.join(self.home, ".gemini", "projects.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        projects: dict[str, str] = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                projects = json.load(file)["projects"]
        projects.setdefault(cwd, f"{os.path.basename(cwd)}{f'-{len(projects)}' if projects else ''}")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"projects": projects}, file)
        return projects[cwd]


def main() -> None:
    fake = Fake(os.environ["GEMINI_CLI_HOME"])
    print("ready", flush=True)
    for line in sys.stdin:
        print(fake.do(line), flush=True)


if __name__ == "__main__":
    main()
