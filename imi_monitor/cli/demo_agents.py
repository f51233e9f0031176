"""Simulated agent programs for the demonstration: one process each, and the session files that the program would write.

The files have the formats of Claude Code, Codex and Gemini, as far as imi reads them, in the demonstration's own folder:
imi detects these agents in the same way as real ones.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
import uuid
from collections.abc import Callable

from imi_monitor import host
from imi_monitor.model import times

JsonRecord = dict[str, object]
_LONGEST_LIFE = "86400"


class FakeAgent:
    """One agent's process and session file. The order of calls: `prompt`, then `tool` and `done` repeatedly, then `finish`."""

    cli = ""

    def __init__(self, home: str, cwd: str, rng: random.Random) -> None:
        self.home, self.cwd, self.rng = home, cwd, rng
        self.session = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        # `sleep` under the agent's name: a process that imi detects and that can be killed
        self.process = subprocess.Popen(
            [self.cli, _LONGEST_LIFE], executable="/bin/sleep", cwd=cwd, start_new_session=True
        )
        self.calls = 0
        self.begin()

    def begin(self) -> None:
        """Write the records of the start."""

    def prompt(self, text: str) -> None:
        raise NotImplementedError

    def tool(self, name: str, target: str) -> None:
        """Write the start of a tool call: `Edit` on a file, or `Bash` with a command."""
        raise NotImplementedError

    def ask(self) -> None:
        """Write that the tool call waits for a permission, if the program records that."""

    def answered(self) -> None:
        """Write that the permission was given."""

    def done(self) -> None:
        """Write the end of the tool call."""
        raise NotImplementedError

    def finish(self, text: str) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def write(self, path: str, *records: JsonRecord) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write("".join(json.dumps(record) + "\n" for record in records))

    def call(self) -> str:
        return f"call-{self.session[:8]}-{self.calls}"


class FakeClaude(FakeAgent):
    cli = "claude"

    def begin(self) -> None:
        self._status("idle")

    def prompt(self, text: str) -> None:
        self._say("user", {"role": "user", "content": text}, permissionMode="default")
        self._status("busy")

    def tool(self, name: str, target: str) -> None:
        self.calls += 1
        wanted = {"command": target} if name == "Bash" else {"file_path": os.path.join(self.cwd, target)}
        self._answer({"type": "tool_use", "id": self.call(), "name": name, "input": wanted}, "tool_use")

    def ask(self) -> None:
        self._status("waiting", waitingFor="permission prompt")

    def answered(self) -> None:
        self._status("busy")

    def done(self) -> None:
        result = {"type": "tool_result", "tool_use_id": self.call(), "content": "done", "is_error": False}
        self._say("user", {"role": "user", "content": [result]}, toolUseResult={"stdout": "done", "stderr": ""})

    def finish(self, text: str) -> None:
        self._answer({"type": "text", "text": text}, "end_turn")
        self._status("idle")

    def end(self) -> None:
        super().end()
        os.unlink(self._registry)

    @property
    def _registry(self) -> str:
        return os.path.join(self.home, "claude", "sessions", f"{self.process.pid}.json")

    def _status(self, status: str, **more: object) -> None:
        now = times.clock() // 1_000_000
        entry = {
            "pid": self.process.pid,
            "sessionId": self.session,
            "cwd": self.cwd,
            "startedAt": now,
            "version": "2.1.326",
            "procStart": host.start_time(self.process.pid),
            "kind": "interactive",
            "entrypoint": "cli",
            "status": status,
            "updatedAt": now,
            "statusUpdatedAt": now,
            **more,
        }
        os.makedirs(os.path.dirname(self._registry), exist_ok=True)
        with open(self._registry + ".tmp", "w", encoding="utf-8") as file:
            json.dump(entry, file)
        os.replace(self._registry + ".tmp", self._registry)

    def _answer(self, block: JsonRecord, stop: str) -> None:
        usage = {"input_tokens": self.rng.randint(200, 4000), "output_tokens": self.rng.randint(40, 900)}
        usage |= {"cache_read_input_tokens": 20_000 + 700 * self.calls, "cache_creation_input_tokens": 0}
        self._say(
            "assistant",
            {
                "id": f"msg-{uuid.uuid4().hex[:12]}",
                "role": "assistant",
                "model": "claude-demo",
                "content": [block],
                "stop_reason": stop,
                "usage": usage,
            },
        )

    def _say(self, kind: str, message: JsonRecord, **more: object) -> None:
        path = os.path.join(self.home, "claude", "projects", "demo", f"{self.session}.jsonl")
        self.write(
            path,
            {
                "type": kind,
                "uuid": str(uuid.uuid4()),
                "timestamp": times.stamp(),
                "cwd": self.cwd,
                "sessionId": self.session,
                "version": "2.1.326",
                "isSidechain": False,
                "userType": "external",
                "message": message,
                **more,
            },
        )


class FakeCodex(FakeAgent):
    cli = "codex"

    def begin(self) -> None:
        self._record(
            "session_meta",
            {
                "session_id": self.session,
                "id": self.session,
                "cwd": self.cwd,
                "source": "cli",
                "originator": "codex-tui",
                "cli_version": "0.169.0",
            },
        )

    def prompt(self, text: str) -> None:
        self.turn = str(uuid.uuid4())
        self._event("task_started", turn_id=self.turn, model_context_window=200_000)
        self._record(
            "turn_context", {"turn_id": self.turn, "cwd": self.cwd, "model": "gpt-demo", "approval_policy": "never"}
        )
        content = [{"type": "text", "text": text}]
        self._event(
            "item_completed", turn_id=self.turn, item={"type": "UserMessage", "id": self.turn, "content": content}
        )

    def tool(self, name: str, target: str) -> None:
        self.calls += 1
        if name == "Bash":
            wanted = {"name": "exec_command", "arguments": json.dumps({"cmd": target})}
            self._record("response_item", {"type": "function_call", "call_id": self.call(), **wanted})
        else:
            patch = f"*** Begin Patch\n*** Update File: {target}\n@@\n*** End Patch\n"
            self._record(
                "response_item",
                {"type": "custom_tool_call", "call_id": self.call(), "name": "apply_patch", "input": patch},
            )
        self._patching = name != "Bash"

    def done(self) -> None:
        kind = "custom_tool_call_output" if self._patching else "function_call_output"
        self._record("response_item", {"type": kind, "call_id": self.call(), "output": "Exit code: 0\n"})
        used = {"input_tokens": 4000 + 900 * self.calls, "output_tokens": 60 * self.calls}
        self._event("token_count", info={"total_token_usage": used, "model_context_window": 200_000})

    def finish(self, text: str) -> None:
        self._event("task_complete", turn_id=self.turn, last_agent_message=text)

    def _event(self, kind: str, **payload: object) -> None:
        self._record("event_msg", {"type": kind, **payload})

    def _record(self, kind: str, payload: JsonRecord) -> None:
        day = time.strftime("%Y/%m/%d", time.localtime())
        path = os.path.join(self.home, "codex", "sessions", day, f"rollout-2026-01-01T00-00-00-{self.session}.jsonl")
        self.write(path, {"timestamp": times.stamp(), "type": kind, "payload": payload})


class FakeGemini(FakeAgent):
    """A Gemini of the demo: it records tool calls only at their end and no questions, like Gemini itself."""

    cli = "gemini"

    def begin(self) -> None:
        folder = os.path.join(self.home, ".gemini")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "projects.json"), "w", encoding="utf-8") as file:
            json.dump({"projects": {self.cwd: "demo"}}, file)
        self._write(
            {"sessionId": self.session, "startTime": times.stamp(), "lastUpdated": times.stamp(), "kind": "main"}
        )

    def prompt(self, text: str) -> None:
        self._write({"id": str(uuid.uuid4()), "timestamp": times.stamp(), "type": "user", "content": [{"text": text}]})

    def tool(self, name: str, target: str) -> None:
        self.calls += 1
        kind, words = ("run_shell_command", "command") if name == "Bash" else ("write_file", "file_path")
        self._open = {"id": self.call(), "name": kind, "args": {words: target}, "status": "success"}

    def done(self) -> None:
        self._said("", toolCalls=[self._open])

    def finish(self, text: str) -> None:
        self._said(text)

    def _said(self, text: str, **more: object) -> None:
        used = {"input": 4000, "output": self.rng.randint(40, 400), "cached": 3000, "thoughts": 0, "tool": 0}
        tokens = {**used, "total": used["input"] + used["output"]}
        self._write(
            {
                "id": str(uuid.uuid4()),
                "timestamp": times.stamp(),
                "type": "gemini",
                "content": text,
                "tokens": tokens,
                "model": "gemini-demo",
                **more,
            }
        )

    def _write(self, record: JsonRecord) -> None:
        name = f"session-2026-01-01T00-00-{self.session[:8]}.jsonl"
        self.write(os.path.join(self.home, ".gemini", "tmp", "demo", "chats", name), record)


FAKE_AGENTS: dict[str, Callable[[str, str, random.Random], FakeAgent]] = {
    "claude": FakeClaude,
    "codex": FakeCodex,
    "gemini": FakeGemini,
}


def environment(home: str) -> dict[str, str]:
    """Environment variables that lead the agent readers to the demonstration's session files instead of the user's."""
    return {
        "CLAUDE_CONFIG_DIR": os.path.join(home, "claude"),
        "CODEX_HOME": os.path.join(home, "codex"),
        "GEMINI_CLI_HOME": home,
    }
