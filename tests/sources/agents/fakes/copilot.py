"""A stand-in for GitHub Copilot CLI: writes a session's folder in the order of the real one, told what to do on stdin.

Run as `copilot fakes/copilot.py HOME SESSION [--resume SESSION]`, in the worktree. Commands, one a line, each answered
with `ok`: prompt TEXT, turn, tool NAME TARGET, ask NAME TARGET, answer, deny, done, end TEXT, esc, fail TEXT, quit.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Fake:
    def __init__(self, home: Path, session: str, resumed: bool) -> None:
        self.folder = home / ".copilot/session-state" / session
        self.folder.mkdir(parents=True, exist_ok=True)
        holder = os.getppid() if "--lock-of-parent" in sys.argv else os.getpid()
        self.lock = self.folder / f"inuse.{holder}.lock"
        self.lock.write_text("")
        (self.folder / "workspace.yaml").write_text(
            f"id: {session}\ncwd: {os.getcwd()}\nbranch: main\nname: 'It''s tidy'\ncreated_at: {now()}\n"
        )
        self.parent: str | None = None
        self.calls: list[str] = []
        where = {"cwd": os.getcwd(), "gitRoot": os.getcwd(), "branch": "main"}
        start = {"version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.102", "selectedModel": "model-1"}
        self.event("session.resume" if resumed else "session.start", {**start, "startTime": now(), "context": where})

    def event(self, kind: str, data: dict[str, Any]) -> None:
        key = str(uuid.uuid4())
        line = json.dumps({"type": kind, "data": data, "id": key, "timestamp": now(), "parentId": self.parent})
        with (self.folder / "events.jsonl").open("a") as file:
            file.write(line + "\n")
        self.parent = key

    def prompt(self, text: str) -> None:
        self.event("user.message", {"content": text, "delivery": "idle"})
        self.turn()

    def turn(self, _: str = "") -> None:
        self.event("assistant.turn_start", {"turnId": "0"})
        usage = {"model": "model-1", "inputTokens": 4210, "outputTokens": 42, "cacheReadTokens": 3000}
        self.event("session.usage_record", {"usage": {**usage, "maxPromptTokens": 128000}})

    def use(self, text: str) -> None:
        name, _, target = text.partition(" ")
        call = f"call_{uuid.uuid4().hex[:8]}"
        self.calls.append(call)
        given = {"path" if name in ("edit", "create") else "command": target}
        request = {"toolCallId": call, "name": name, "arguments": given}
        self.event("assistant.message", {"content": "", "toolRequests": [request]})
        self.event("tool.execution_start", {"toolCallId": call, "toolName": name, "arguments": given})

    def ask(self, text: str) -> None:
        self.use(text)
        asked = {"kind": "shell", "toolCallId": self.calls[-1], "fullCommandText": text.partition(" ")[2]}
        self.request = str(uuid.uuid4())
        self.event("permission.requested", {"requestId": self.request, "permissionRequest": asked})

    def answer(self, _: str = "", kind: str = "approved") -> None:
        self.event("permission.completed", {"requestId": self.request, "result": {"kind": kind}})

    def deny(self, _: str = "") -> None:
        self.answer(kind="denied-interactively-by-user")
        self.event(
            "tool.execution_complete", {"toolCallId": self.calls.pop(), "success": False, "error": {"message": "no"}}
        )
        self.event("assistant.turn_end", {"turnId": "0"})

    def done(self, _: str = "") -> None:
        self.event(
            "tool.execution_complete", {"toolCallId": self.calls.pop(), "success": True, "result": {"content": "fine"}}
        )
        self.event("assistant.turn_end", {"turnId": "0"})

    def end(self, text: str) -> None:
        self.event("assistant.message", {"content": text, "toolRequests": []})
        self.event("assistant.turn_end", {"turnId": "0"})

    def esc(self, _: str = "") -> None:
        self.event("abort", {"reason": "user_initiated"})

    def fail(self, text: str) -> None:
        self.event("session.error", {"errorType": "quota", "message": text})

    def quit(self) -> None:
        self.event("session.shutdown", {"shutdownType": "routine"})
        self.lock.unlink()


def main() -> None:
    fake = Fake(Path(sys.argv[1]), sys.argv[2], "--resume" in sys.argv)
    verbs = {
        "prompt": fake.prompt,
        "turn": fake.turn,
        "tool": fake.use,
        "ask": fake.ask,
        "answer": fake.answer,
        "deny": fake.deny,
        "done": fake.done,
        "end": fake.end,
        "esc": fake.esc,
        "fail": fake.fail,
    }
    print("ok", flush=True)
    for line in sys.stdin:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "quit":
            break
        verbs[verb](rest)
        print("ok", flush=True)
    fake.quit()


if __name__ == "__main__":
    main()
