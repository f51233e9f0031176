"""Records what a real program writes while it is driven: the recordings that tests/sources/agents/test_recordings.py replays.

A recording has a line for each change: a file, a lock, rows of a database, the running processes, and the steps with the state
that the screen shows. Paths are replaced by placeholders, long texts are cut, and what no reader uses is left out.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from imi_monitor.sources.agents import process_scanner
from imi_monitor.sources.agents.claude.live_registry import slug
from imi_monitor.sources.agents.codex.thread_owners import ThreadLocks

FOLDER = Path(__file__).parents[1] / "sources" / "agents" / "recordings"
DATABASE = ".local/share/opencode/opencode.db"
_FILES = {
    "claude": (".claude/sessions/*.json", ".claude/projects/*/*.jsonl"),
    "codex": (".codex/sessions/*/*/*/rollout-*.jsonl",),
    "gemini": (
        ".gemini/settings.json",
        ".gemini/trustedFolders.json",
        ".gemini/projects.json",
        ".gemini/tmp/*/logs.json",
        ".gemini/tmp/*/chats/*.json*",
    ),
    "opencode": (".local/share/opencode/log/opencode.log",),
    "qwen": (".qwen/sessions/*.json", ".qwen/projects/*/chats/*.jsonl"),
    "kimi": (
        ".kimi-code/workspaces.json",
        ".kimi-code/workspace-trust/*",
        ".kimi-code/sessions/*/*/agents/main/wire.jsonl",
    ),
    "copilot": (
        ".copilot/config.json",
        ".copilot/logs/process-*.log",
        ".copilot/session-state/*/events.jsonl",
        ".copilot/session-state/*/workspace.yaml",
        ".copilot/session-state/*/inuse.*.lock",
    ),
}
_UNUSED = re.compile(
    r'"type": ?"(api-request[a-z-]*|attachment|file-history-snapshot|atis-latch|world_state'
    r'|profile\.bind|llm\.tools_snapshot|agent\.message\.appended)"'
)
_UNUSED_KEYS = frozenset(
    {
        "ipcToken",
        "ipcPath",
        "messagingSocketPath",
        "systemPayload",
        "base_instructions",
        "internal_chat_message_metadata_passthrough",
    }
)
_MOST_TEXT, _MOST_ITEMS, _MOST_LINE = 160, 6, 300
_PAUSE = 0.03  # seconds between two looks


class Recorder:
    """Follows the files below one home until it is closed."""

    def __init__(self, cli: str, home: Path, tree: Path) -> None:
        self._cli, self._home, self._tree = cli, home, tree
        self._known: dict[Path, tuple[int, int]] = {}  # file -> (inode, bytes recorded)
        self._whole: dict[str, str] = {}
        self._rows: dict[tuple[str, str], str] = {}
        self._scan, self._scan_at = process_scanner(), 0.0
        self._lines: list[str] = []
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def step(self, name: str, terminal: int, pids: Collection[int], expected: Collection[str]) -> None:
        """The screen of a terminal shows one of these states from now on."""
        self._add({"step": name, "terminal": terminal, "pids": sorted(pids), "expected": sorted(expected)})

    def leave(self, terminal: int) -> None:
        """The state of a terminal may change from now on."""
        self._add({"leaves": terminal})

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{self._cli}.jsonl").write_text("".join(f"{line}\n" for line in self._lines))

    def _add(self, event: dict[str, Any]) -> None:
        line = json.dumps({"at": round(time.time(), 3), **event}, ensure_ascii=False, separators=(",", ":"))
        for path, placeholder in (
            (str(self._tree), "@TREE@"),
            (slug(str(self._tree)), "@SLUG@"),
            (str(self._home), "@HOME@"),
        ):
            line = line.replace(path, placeholder)
        with self._lock:
            self._lines.append(line)

    def _follow(self) -> None:
        while not self._over.wait(_PAUSE):
            with suppress(OSError, sqlite3.Error):
                self._look()

    def _look(self) -> None:
        self._processes()
        for pattern in _FILES[self._cli]:
            for path in sorted(self._home.glob(pattern)):
                (self._grown if path.suffix in (".jsonl", ".log") else self._replaced)(path)
        for path in [path for path in self._known if not path.exists()]:
            del self._known[path]
            self._whole.pop(self._name(path), None)
            self._add({"gone": self._name(path)})
        if self._cli == "codex":
            self._locks()
        if self._cli == "opencode":
            self._database()

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._home))

    def _grown(self, path: Path) -> None:
        stat = path.stat()
        inode, done = self._known.get(path, (stat.st_ino, 0))
        if inode != stat.st_ino or stat.st_size < done:
            inode, done = stat.st_ino, 0
            self._add({"gone": self._name(path)})
        with path.open("rb") as file:
            file.seek(done)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._known[path] = inode, done + len(whole)
        lines = whole.decode("utf-8", "replace").splitlines()
        text = "".join(f"{_shortened(line)}\n" for line in lines if not _UNUSED.search(line[:400]))
        if text:
            self._add({"file": self._name(path), "append": text})

    def _replaced(self, path: Path) -> None:
        text, stat = path.read_text(), path.stat()
        self._known[path] = stat.st_ino, stat.st_size
        with suppress(ValueError):
            text = json.dumps(_cut(json.loads(text)), separators=(",", ":"))
        if self._whole.get(self._name(path)) != text:
            self._whole[self._name(path)] = text
            self._add({"file": self._name(path), "text": text})

    def _processes(self) -> None:
        if time.monotonic() - self._scan_at < 0.2:
            return
        self._scan_at = time.monotonic()
        found = [
            {"pid": one.pid, "started": one.started, "argv": one.argv[:1] + one.argv[2:] if one.argv[0] == "node" else one.argv,
             "began_at": round(one.began_at, 3), "family": sorted(one.family)}
            for one in self._scan()
            if one.cli == self._cli and one.cwd == os.path.realpath(self._tree)
        ]  # fmt: skip
        self._changed("processes", found)

    def _locks(self) -> None:
        locks = ThreadLocks(str(self._home / ".codex" / "thread-writer-locks"))
        locks.read(anew=True)
        self._changed("locks", {name: one.pid for name, one in locks.threads.items()})

    def _changed(self, name: str, value: object) -> None:
        text = json.dumps(value)
        if self._whole.get(name) != text:
            self._whole[name] = text
            self._add({name: value})

    def _database(self) -> None:
        path = self._home / DATABASE
        if not path.exists():
            return
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.2)) as book:
            rows = [row for table in ("session", "message", "part") for row in self._new_rows(book, table)]
        if rows:
            self._add({"rows": rows})

    def _new_rows(self, book: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
        cursor = book.execute(f"select * from {table}")
        names = [column[0] for column in cursor.description]
        for values in cursor:
            row = {
                name: _shortened(value) if isinstance(value, str) else value
                for name, value in zip(names, values, strict=True)
            }
            text = json.dumps(row)
            if self._rows.get((table, str(row["id"]))) != text:
                self._rows[table, str(row["id"])] = text
                yield {"table": table, **{name: value for name, value in row.items() if value is not None}}


def _shortened(line: str) -> str:
    """The line with its long texts cut; JSON stays JSON."""
    try:
        return json.dumps(_cut(json.loads(line)), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return line[:_MOST_LINE]


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        inner = _shortened(value) if value.startswith("{") and value.endswith("}") else value
        return inner if inner != value or len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}…"
    if isinstance(value, list):
        return [_cut(one) for one in value[:_MOST_ITEMS]]
    if isinstance(value, dict):
        return {name: _cut(one) for name, one in value.items() if name not in _UNUSED_KEYS}
    return value
