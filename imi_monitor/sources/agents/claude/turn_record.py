"""The files of a Claude session's last turn: the copies that Claude keeps for /rewind, and the originals in its transcript.

At each prompt Claude records a `file-history-snapshot` with a copy of every file that it changed so far, and before it changes
another one a `file-history-delta` (older versions: the snapshot again, as an update). The copies are exact. Sessions without a
screen (`claude -p`) keep none; there, and for subagents, the result of a tool has the original as text, with plain line ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from imi_monitor.model.turn_files import TurnFiles
from imi_monitor.sources.agents import fields, turn_records
from imi_monitor.sources.agents.agent_reader import ReadContext
from imi_monitor.sources.agents.claude.live_registry import ClaudePaths, config_folders, real_path
from imi_monitor.sources.agents.claude.records import session_id

_COPY = re.compile(r"[0-9A-Za-z]{1,64}@v[0-9]{1,6}\Z")
_PARTS = (b'"file-history-', b'"originalFile"')  # of the lines that say something


class _Recorded:
    """What the lines say, the first record about a file counts."""

    def __init__(self, copies: str, cwd: str | None, began: float) -> None:
        self._copies = copies
        self._cwd = cwd
        self._began = began
        self._has_snapshot = False
        self.before: dict[str, bytes | None] = {}
        self.inexact: set[str] = set()

    def add_line(self, line: bytes) -> None:
        record = fields.record(line) if any(part in line for part in _PARTS) else None
        if record is None or len(self.before) >= turn_records.MOST_FILES:
            return
        kind = record.get("type")
        if kind == "file-history-snapshot":
            self._add_snapshot(fields.table(record.get("snapshot")), update=record.get("isSnapshotUpdate") is True)
        elif kind == "file-history-delta" and self._has_snapshot and self._is_of_turn(record):
            self._add_copy(record.get("trackingPath"), fields.table(record.get("backup")))
        elif kind == "user" and self._is_of_turn(record):
            self._add_result(fields.table(record.get("toolUseResult")))

    def _is_of_turn(self, record: Mapping[str, Any]) -> bool:
        at = turn_records.moment_of(dict(record))
        return at is not None and at >= self._began

    def _add_snapshot(self, snapshot: dict[str, Any], *, update: bool) -> None:
        """The one at the prompt, and its updates; one that a later prompt within the turn adds says nothing new."""
        if not self._is_of_turn(snapshot) and not (update and self._has_snapshot):
            return
        self._has_snapshot = True
        for path, copy in fields.table(snapshot.get("trackedFileBackups")).items():
            self._add_copy(path, fields.table(copy))

    def _add_copy(self, name: object, copy: dict[str, Any]) -> None:
        path = fields.path(name)
        folder = fields.path(copy.get("realParentDir"))
        if path is None or "backupFileName" not in copy:
            return
        place = os.path.join(folder, os.path.basename(path)) if folder else os.path.join(self._cwd or "/", path)
        file, real = copy["backupFileName"], real_path(place)
        if real is None or (real in self.before and real not in self.inexact):
            return
        if file is None:
            self._set(real, None)
        elif isinstance(file, str) and _COPY.match(file):
            content = turn_records.read_whole(os.path.join(self._copies, file))
            if content is not None:
                self._set(real, content)

    def _add_result(self, result: dict[str, Any]) -> None:
        path = fields.path(result.get("filePath"))
        real = real_path(path) if path else None
        if real is None or real in self.before or "originalFile" not in result:
            return
        text = result["originalFile"]
        if isinstance(text, str):
            self._set(real, _as_on_disk(text, real), inexact=_loses_bytes(real))
        elif text is None and result.get("type") == "create":
            self._set(real, None)

    def _set(self, real: str, content: bytes | None, *, inexact: bool = False) -> None:
        self.before[real] = content
        (self.inexact.add if inexact else self.inexact.discard)(real)


def read_files(session: str, cwd: str | None, began: float, home: str, env: Mapping[str, str]) -> TurnFiles:
    """Return what the session records about the files it changed since that moment."""
    ident = session_id(session)
    context = ReadContext(began, home, env, ())
    before: dict[str, bytes | None] = {}
    inexact: set[str] = set()
    for folder in dict.fromkeys(config_folders(context)) if ident else ():
        for path in _transcripts(ClaudePaths(folder), str(ident), cwd):
            recorded = _Recorded(os.path.join(folder, "file-history", str(ident)), cwd, began)
            for line in turn_records.lines_since(path, began):
                recorded.add_line(line)
            new = recorded.before.keys() - before.keys()
            before |= {real: recorded.before[real] for real in new}
            inexact |= recorded.inexact & new
    return TurnFiles(before, frozenset(inexact))


def _transcripts(claude: ClaudePaths, session: str, cwd: str | None) -> list[str]:
    """The session's transcript, then those of its subagents."""
    found = [claude.transcript(cwd, session)] if cwd else []
    if not found or not os.path.exists(found[0]):
        found = turn_records.matching(claude.projects, f"*/{session}.jsonl")[:1]
    inside = [turn_records.matching(path.removesuffix(".jsonl"), "subagents/*.jsonl") for path in found]
    return [*found, *(path for each in inside for path in each)]


def _as_on_disk(text: str, path: str) -> bytes:
    """The text with the line ends that the file has now."""
    now = turn_records.read_whole(path) or b""
    plain = text.encode("utf-8", "surrogatepass")
    return plain.replace(b"\n", b"\r\n") if b"\r\n" in now and b"\r" not in plain else plain


def _loses_bytes(path: str) -> bool:
    """Whether the text says less than the bytes did."""
    now = turn_records.read_whole(path) or b""
    try:
        now.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return b"\r" in now or now.startswith(b"\xef\xbb\xbf")
