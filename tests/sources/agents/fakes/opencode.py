"""A stand-in for opencode: writes opencode.db in the order of the real one, told what to do on stdin.

Run as `opencode fakes/opencode.py DB [--port N]`, in the worktree. Commands, one a line, each answered with `ok`:
prompt TEXT, step, say TEXT, tool NAME TARGET, answer, refuse, finish REASON, esc, fail TEXT, cut (Esc in a retry), quit.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TABLES = """
create table if not exists session (id text primary key, parent_id text, directory text not null, title text not null,
  version text not null, summary_diffs text, cost real not null default 0, tokens_input integer not null default 0,
  tokens_output integer not null default 0, tokens_cache_read integer not null default 0, agent text, model text,
  time_created integer not null, time_updated integer not null, time_archived integer);
create table if not exists message (id text primary key, session_id text not null, time_created integer not null,
  time_updated integer not null, data text not null);
create table if not exists part (id text primary key, message_id text not null, session_id text not null,
  time_created integer not null, time_updated integer not null, data text not null);
create index if not exists message_of on message (session_id, time_created, id);
create index if not exists part_of on part (message_id, id);
"""


def open_book(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    book = sqlite3.connect(path, isolation_level=None)
    book.execute("pragma journal_mode = wal")
    book.executescript(TABLES)
    return book


def put(book: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    """Insert or replace a row, as opencode does."""
    values = {key: _text(value) for key, value in row.items()}
    names, places = ", ".join(values), ", ".join("?" * len(values))
    changes = ", ".join(f"{key} = excluded.{key}" for key in values if key not in ("id", "time_created"))
    question = f"insert into {table} ({names}) values ({places}) on conflict (id) do update set {changes}"
    book.execute(question, list(values.values()))


def _text(value: Any) -> Any:
    """As opencode's own JSON is: without any space."""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, list)) else value


def now() -> int:
    return time.time_ns() // 1_000_000


class Fake:
    def __init__(self, path: Path) -> None:
        self.book = open_book(path)
        self.number = 0
        self.session: dict[str, Any] | None = None
        self.message: dict[str, Any] = {}
        self.tool: dict[str, Any] | None = None
        self.asks = False
        self.busy = False

    def id(self, kind: str) -> str:
        self.number += 1
        return f"{kind}_{now():x}{self.number:04d}{os.getpid()}"

    def prompt(self, text: str) -> None:
        if self.session is None:
            self.session = {
                "id": self.id("ses"),
                "parent_id": None,
                "directory": os.getcwd(),
                "title": "New session - x",
                "version": "1.18.33",
                "agent": "build",
                "model": '{"id": "model-1"}',
                "time_created": now(),
            }
        self.busy = True
        self._session()
        user = {"role": "user", "time": {"created": now()}, "agent": "build"}
        self.user = self.id("msg")
        self._put("message", {"id": self.user, "time_created": now(), "data": user})
        self._put(
            "part",
            {
                "id": self.id("prt"),
                "message_id": self.user,
                "time_created": now(),
                "data": {"type": "text", "text": text},
            },
        )
        self._session()

    def step(self, _: str = "") -> None:
        data = {
            "parentID": self.user,
            "role": "assistant",
            "mode": "build",
            "agent": "build",
            "modelID": "model-1",
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "time": {"created": now()},
        }
        self.message = {"id": self.id("msg"), "time_created": now(), "data": data}
        self._put("message", self.message)
        self._part({"type": "step-start"})

    def say(self, text: str) -> None:
        part = self._part({"type": "text", "text": "", "time": {"start": now()}})
        self._part({"type": "text", "text": text, "time": {"start": now(), "end": now()}}, part)

    def use(self, text: str) -> None:
        name, _, target = text.partition(" ")
        self.tool = {"type": "tool", "tool": name, "callID": self.id("call")}
        self.given, self.began = {"command": target}, now()
        self.part = self._part({**self.tool, "state": {"status": "pending", "input": {}, "raw": ""}})
        self._tool("running")

    def ask(self, text: str) -> None:
        self.use(text)
        self.asks = True

    def answer(self, _: str = "") -> None:
        self.asks = False
        self._tool("completed", output="done")

    def refuse(self, _: str = "") -> None:
        self.asks = False
        self._tool("error", error="The user rejected permission to use this specific tool call.")

    def finish(self, reason: str) -> None:
        self.message["data"]["tokens"] = {
            "input": 1210,
            "output": 42,
            "reasoning": 0,
            "cache": {"read": 3000, "write": 0},
        }
        self._part({"type": "step-finish", "reason": reason})
        self.message["data"]["finish"] = reason
        self._put("message", self.message)
        self.cut()

    def esc(self, _: str = "") -> None:
        self.message["data"]["error"] = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
        if self.tool is not None:
            self._tool("error", error="Tool execution aborted")
        self.cut()

    def fail(self, text: str) -> None:
        self.message["data"]["error"] = {"name": "APIError", "data": {"message": text}}
        self.cut()

    def cut(self, _: str = "") -> None:
        self.message["data"]["time"]["completed"] = now()
        self.tool, self.asks = None, False
        self._put("message", self.message)
        self.busy = self.message["data"].get("finish") == "tool-calls"
        self._session(tokens_input=1210, tokens_output=42)

    def _tool(self, status: str, **more: str) -> None:
        moment = {"start": self.began, **({} if status == "running" else {"end": now()})}
        self._part(
            {**(self.tool or {}), "state": {"status": status, "input": self.given, "time": moment, **more}}, self.part
        )

    def _part(self, data: dict[str, Any], part: str | None = None) -> str:
        part = part or self.id("prt")
        self._put("part", {"id": part, "message_id": self.message["id"], "time_created": now(), "data": data})
        return part

    def _put(self, table: str, row: dict[str, Any]) -> None:
        assert self.session is not None
        put(self.book, table, {**row, "session_id": self.session["id"], "time_updated": now()})

    def _session(self, **more: int) -> None:
        assert self.session is not None
        self.session |= more
        put(self.book, "session", {**self.session, "time_updated": now()})

    def told(self, path: str) -> Any:
        """What its port answers."""
        session = self.session["id"] if self.session else ""
        call = {"callID": (self.tool or {}).get("callID")}
        if path == "/permission":
            return [{"id": "per_1", "sessionID": session, "permission": "bash", "tool": call}] if self.asks else []
        return {session: {"type": "busy"}} if path == "/session/status" and self.busy else {}


def serve(fake: Fake, port: int) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(fake.told(self.path)).encode()
            self.send_response(200 if self.path != "/question" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever, daemon=True).start()


def main() -> None:
    fake = Fake(Path(sys.argv[1]))
    if "--port" in sys.argv:
        serve(fake, int(sys.argv[sys.argv.index("--port") + 1]))
    verbs = {
        "prompt": fake.prompt,
        "step": fake.step,
        "say": fake.say,
        "tool": fake.use,
        "ask": fake.ask,
        "answer": fake.answer,
        "refuse": fake.refuse,
        "finish": fake.finish,
        "esc": fake.esc,
        "fail": fake.fail,
        "cut": fake.cut,
    }
    print("ok", flush=True)
    for line in sys.stdin:
        verb, _, rest = line.rstrip("\n").partition(" ")
        if verb == "quit":
            break
        verbs[verb](rest)
        print("ok", flush=True)
    fake.book.close()


if __name__ == "__main__":
    main()
