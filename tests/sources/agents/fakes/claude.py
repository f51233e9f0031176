#!/usr/bin/env python3
"""A fake Claude Code: writes the files that the real one writes, in the same order, driven by commands on stdin.

As a program it calls itself `claude`, answers each command with `ok`, and ends as it is told (`exit`, `crash`).
As a module it is the pen of the replays: the same records without a process. Only the standard library is used.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

VERSION = "2.1.326"
Record = dict[str, Any]


def slug(path: str) -> str:
    """Units of UTF-16, as in JavaScript: an emoji is two."""
    return "".join(re.sub("[^A-Za-z0-9]", "-" * (1 + (ord(one) > 0xFFFF)), one) for one in os.path.realpath(path))


def start_ticks(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def domain() -> str:
    try:
        with open("/etc/machine-id") as file:
            machine = file.read().strip()
    except OSError:
        machine = ""
    return f"linux:{machine}:{os.readlink('/proc/self/ns/pid')}"


class Claude:
    """One session after the other of one process. `clock` gives seconds since 1970."""

    def __init__(
        self,
        config: str,
        cwd: str,
        session: str | None = None,
        *,
        pid: int | None = None,
        clock: Callable[[], float] = time.time,
        version: str = VERSION,
        entrypoint: str = "cli",
        numbers: bool = False,
        registers: bool = True,
    ) -> None:
        self.config, self.cwd, self.clock, self.version, self.entrypoint = config, cwd, clock, version, entrypoint
        self.pid = os.getpid() if pid is None else pid
        self.tells_status = True
        self.registers = registers
        self.mode = "default"
        self._count = itertools.count(1)
        self._numbers = numbers  # counted identities instead of random ones
        self._parent: str | None = None
        self.message_id: str | None = None
        self.request_id = ""
        self._calls: list[tuple[str, str, Record]] = []
        self._asked = False
        self._turn = 0.0
        self._tokens = 1000
        self._background: list[tuple[str, str]] = []
        self._status: str | None = None
        self._waiting: str | None = None
        self._began = clock()
        self.extra: Record = {}
        self.session = session or self._ident()
        self.subagents: dict[str, Claude] = {}
        self.agent: str | None = None  # a subagent's own identity

    # -- where it writes ----------------------------------------------------------------------------------------------

    @property
    def transcript(self) -> str:
        return f"{self.config}/projects/{slug(self.cwd)}/{self.session}.jsonl"

    @property
    def path(self) -> str:
        if self.agent is not None:
            return f"{self.transcript.removesuffix('.jsonl')}/subagents/agent-{self.agent}.jsonl"
        return self.transcript

    @property
    def entry(self) -> str:
        return f"{self.config}/sessions/{self.pid}.json"

    def _ident(self) -> str:
        return str(uuid.UUID(int=next(self._count) << 64 | 4242)) if self._numbers else str(uuid.uuid4())

    def stamp(self) -> str:
        now = self.clock()
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"

    def line(self, record: Record) -> None:
        self.raw(json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(data)

    def record(self, kind: str, **fields: Any) -> Record:
        record: Record = {"parentUuid": self._parent, "isSidechain": self.agent is not None}
        if self.agent is not None:
            record["agentId"] = self.agent
        self._parent = self._ident()
        record |= {"type": kind, **fields, "uuid": self._parent, "timestamp": self.stamp()}
        record |= {"userType": "external", "entrypoint": self.entrypoint, "cwd": self.cwd, "sessionId": self.session}
        record |= {"version": self.version, "gitBranch": "feat/one"}
        self.line(record)
        return record

    def aside(self) -> None:
        """The records between turns, which only Claude uses."""
        self.line({"type": "last-prompt", "lastPrompt": "…", "leafUuid": self._parent, "sessionId": self.session})
        self.line({"type": "mode", "mode": "normal", "sessionId": self.session})
        self.line({"type": "permission-mode", "permissionMode": self.mode, "sessionId": self.session})
        self.line({"type": "atis-latch", "atis": "", "sessionId": self.session})

    def snapshot(self, size: int = 2000) -> None:
        """A copy of what was sent to the model: most bytes of a transcript."""
        params = {"model": "claude-opus-5-5", "max_tokens": 128000, "text": "x" * size}
        self.request_id = self._ident()
        self.line({"type": "api-request", "sessionId": self.session, "id": self.request_id, "params": params})

    def register(self, status: str | None = None, waiting_for: str | None = None) -> None:
        if not self.registers:
            return
        self._status, self._waiting = status, waiting_for
        now = int(self.clock() * 1000)
        entry: Record = {"pid": self.pid, "sessionId": self.session, "cwd": self.cwd}
        entry |= {"startedAt": int(self._began * 1000), "procStart": start_ticks(self.pid), "version": self.version}
        entry |= {"peerProtocol": 1, "kind": "interactive", "entrypoint": self.entrypoint, "pidDomain": domain()}
        entry |= {"name": "wt-88", "nameSource": "derived", **self.extra}
        if status is not None and self.tells_status:
            entry |= {"status": status, "updatedAt": now, "statusUpdatedAt": now}
            entry |= {"waitingFor": waiting_for} if waiting_for else {}
        os.makedirs(os.path.dirname(self.entry), exist_ok=True)
        with open(self.entry, "w") as file:
            json.dump(entry, file)

    # -- what it does -------------------------------------------------------------------------------------------------

    def start(self, status: str | None = "idle") -> None:
        self.register(None)
        if status is not None:
            self.register(status)

    def prompt(self, words: str, mode: str | None = None, origin: str = "human") -> None:
        self.mode = mode or self.mode
        self._turn = self.clock()
        self._calls.clear()
        self.register("busy")
        self.snapshot(10)
        source = {"human": "typed", "task_notification": "system", "sdk": "sdk"}[origin]
        self.record(
            "user",
            message={"role": "user", "content": words},
            permissionMode=self.mode,
            promptSource=source,
            turnOrigin=origin,
        )
        self._attachment()

    def _attachment(self) -> None:
        self._parent = self._ident()
        record = {"parentUuid": None, "isSidechain": False, "attachment": {"type": "date", "date": "2026-11-18"}}
        record |= {"type": "attachment", "uuid": self._parent, "timestamp": self.stamp(), "cwd": self.cwd}
        self.line(record | {"sessionId": self.session, "version": self.version})

    def _assistant(self, block: Record, stop: str | None, **fields: Any) -> None:
        if self.message_id is None:
            self.message_id = f"msg_{self._ident()}"
            self._tokens += 10
        usage = {"input_tokens": self._tokens, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000}
        message = {"id": self.message_id, "type": "message", "role": "assistant", "model": "claude-opus-5-5"}
        message |= {
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage | {"output_tokens": 42},
        }
        self.record("assistant", message=message, requestRef=self.request_id, **fields)

    def say(self, words: str, stop: str | None = "tool_use") -> None:
        self._assistant({"type": "text", "text": words}, stop)

    def tool(self, name: str, **arguments: Any) -> str:
        """A tool call; the file does not show whether it runs or waits for permission."""
        ident = f"toolu_{self._ident()}"
        self._calls.append((ident, name, arguments))
        self._assistant({"type": "tool_use", "id": ident, "name": name, "input": arguments}, "tool_use")
        return ident

    def ask(self) -> None:
        """The permission dialog of the open call."""
        self.register("waiting", "permission prompt")
        self.aside()

    def question(self, words: str) -> None:
        asked = {
            "question": words,
            "header": "Q",
            "multiSelect": False,
            "options": [{"label": "Red"}, {"label": "Blue"}],
        }
        self.tool("AskUserQuestion", questions=[asked])
        self.register("waiting", "input needed")

    def plan(self, words: str) -> None:
        self.tool("ExitPlanMode", plan=words)
        self.register("waiting", "permission prompt")
        self.aside()

    def result(self, words: str = "done", ok: bool = True, **told: Any) -> None:
        """Write the result of the oldest open call."""
        ident, name, arguments = self._calls.pop(0)
        if name in ("Write", "Edit"):
            told = {"type": "update", "filePath": arguments["file_path"], "structuredPatch": []} | told
        if name == "ExitPlanMode" and ok:
            self.mode = "default"
            told = {"plan": None, "isAgent": False, "filePath": f"{self.config}/plans/think.md"} | told
        self.register("busy")
        block: Record = {"tool_use_id": ident, "type": "tool_result", "content": words}
        block |= {} if ok else {"is_error": True}
        outcome: Any = {"stdout": words, "stderr": "", "interrupted": False} | told if ok else f"Error: {words}"
        self.record("user", message={"role": "user", "content": [block]}, toolUseResult=outcome)
        if not self._calls:
            self.message_id = None

    def finish(self, words: str) -> None:
        """The last message of a turn, and the end of the turn."""
        self.message_id = None
        self.snapshot(10)
        self.say(words, "end_turn")
        if self.agent is not None:
            return
        self.record("system", subtype="stop_hook_summary", hookCount=1, hookErrors=[], preventedContinuation=False)
        self._turn_over()

    def _turn_over(self) -> None:
        took = int((self.clock() - self._turn) * 1000)
        pending = {"pendingBackgroundAgentCount": len(self.subagents)} if self.subagents else {}
        self.record("system", subtype="turn_duration", durationMs=took, messageCount=9, **pending, isMeta=False)
        self.message_id = None
        self.register("busy" if self.subagents else "shell" if self._background else "idle")

    def esc(self) -> None:
        for_tool = bool(self._calls)
        while self._calls:
            ident, _, _ = self._calls.pop(0)
            refused = {"type": "tool_result", "content": "The user doesn't want to proceed.", "is_error": True}
            self.record(
                "user",
                message={"role": "user", "content": [refused | {"tool_use_id": ident}]},
                toolUseResult="User rejected tool use",
                toolDenialKind="user-rejected",
            )
        words = "[Request interrupted by user" + (" for tool use]" if for_tool else "]")
        self.record("user", message={"role": "user", "content": [{"type": "text", "text": words}]})
        self.message_id = None
        self.register("idle")

    def esc_while_retrying(self) -> None:
        """Only the registry is written."""
        self.register("idle")

    def retry(self, attempt: int = 1, most: int = 10) -> None:
        error = {"message": "Connection error.", "formatted": "Connection dropped (ECONNRESET)"}
        self.record(
            "system",
            subtype="api_error",
            level="error",
            error=error,
            retryInMs=519,
            retryAttempt=attempt,
            maxRetries=most,
        )

    def fail(self, words: str) -> None:
        message = {"id": self._ident(), "model": "<synthetic>", "role": "assistant", "stop_reason": "stop_sequence"}
        message |= {"type": "message", "usage": {"input_tokens": 0, "output_tokens": 0}}
        message |= {"content": [{"type": "text", "text": words}]}
        self.record("assistant", message=message, error="unknown", isApiErrorMessage=True, apiErrorStatus=400)
        self.message_id = None
        self.register("idle")

    def background(self, command: str) -> str:
        """A command that goes on after the end of the turn."""
        task = f"b{next(self._count)}"
        ident = self.tool("Bash", command=command, run_in_background=True)
        self.result(f"Command running in background with ID: {task}.", backgroundTaskId=task)
        self._background.append((task, ident))
        return task

    def background_over(self) -> None:
        task, ident = self._background.pop(0)
        self.notify(task, ident)

    def notify(self, task: str, ident: str) -> None:
        words = (
            f"<task-notification>\n<task-id>{task}</task-id>\n<tool-use-id>{ident}</tool-use-id>\n</task-notification>"
        )
        for operation in ({"operation": "enqueue", "content": words}, {"operation": "dequeue"}):
            self.line({"type": "queue-operation", "timestamp": self.stamp(), "sessionId": self.session, **operation})
        self.prompt(words, origin="task_notification")

    def subagent(self, description: str = "look around") -> Claude:
        """A subagent in the background, with a conversation of its own."""
        ident = self.tool("Agent", description=description, prompt="look", subagent_type="general-purpose")
        below = Claude(self.config, self.cwd, self.session, pid=self.pid, clock=self.clock, registers=False)
        below.agent = f"a{next(self._count):016x}"
        below._count = itertools.count(10000 + next(self._count) * 1000)
        below._numbers = self._numbers
        self.subagents[below.agent] = below
        below._meta(description, ident)
        below.prompt("look")
        self.result("Async agent launched successfully.", isAsync=True, status="async_launched", agentId=below.agent)
        below._tool = ident
        return below

    def _meta(self, description: str, ident: str, finished: bool = False) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path.removesuffix(".jsonl") + ".meta.json", "w") as file:
            meta = {"agentType": "general-purpose", "description": description, "toolUseId": ident}
            json.dump(meta | ({"finished": True} if finished else {}), file)

    def subagent_over(self, below: Claude) -> None:
        below.finish("found it")
        assert below.agent is not None
        below._meta("look around", below._tool, finished=True)
        del self.subagents[below.agent]
        self.notify(below.agent, below._tool)

    _tool = ""

    def compact(self) -> None:
        self.record("system", subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 150000})
        self.record("user", message={"role": "user", "content": "This session is continued."}, isCompactSummary=True)

    def command(self, name: str) -> None:
        """One of Claude's own commands, which starts no turn."""
        self.record("user", message={"role": "user", "content": f"<command-name>/{name}</command-name>"})
        self.record("user", message={"role": "user", "content": "<local-command-stdout>ok</local-command-stdout>"})

    def clear(self) -> None:
        self.session = self._ident()
        self._parent = None
        self.register("idle")

    def leave(self) -> None:
        """Write the records of a normal end."""
        took = int((self.clock() - self._began) * 1000)
        cost = {"totalCostUSD": 0.25, "totalDuration": took, "startTime": int(self._began * 1000)}
        if os.path.exists(self.path):
            self.line({"type": "cost-state", "sessionId": self.session, **cost})
        if self.registers and os.path.exists(self.entry):
            os.unlink(self.entry)


def main() -> None:
    """argv: config folder, cwd, session or `-`. One command a line; `ok` after each."""
    ctypes.CDLL(None).prctl(15, b"claude", 0, 0, 0)
    config, cwd, session = sys.argv[-3:]
    os.chdir(cwd)
    fake = Claude(config, cwd, None if session == "-" else session)
    print(fake.session, flush=True)
    for line in sys.stdin:
        name, _, rest = line.strip().partition(" ")
        if name == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "exit":
            fake.leave()
            break
        elif name == "tool":
            tool, _, aim = rest.partition(" ")
            fake.tool(tool, **{"command" if tool == "Bash" else "file_path": aim})
        else:
            getattr(fake, name)(*([rest] if rest else []))
        print("ok", flush=True)


if __name__ == "__main__":
    main()
