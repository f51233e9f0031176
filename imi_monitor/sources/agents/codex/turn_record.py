"""The files of a Codex thread's last turn: its rollout has every patch that was applied, so they are taken back in turn.

A file that something else changed behind a patch does not fit the patch any more; its content before is then unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from imi_monitor.model.turn_files import TurnFiles
from imi_monitor.sources.agents import fields, turn_records
from imi_monitor.sources.agents.codex.session import index_rows, thread_of

_PARTS = (b'"FileChange"', b'"patch_apply_end"')  # of the lines that say something
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = b"\\ No newline at end of file"
_UNKNOWN = object()


def read_files(session: str, cwd: str | None, began: float, home: str, env: Mapping[str, str]) -> TurnFiles:
    """Return what the thread's rollout says about the files that it patched since that moment."""
    folder = env.get("CODEX_HOME") or os.path.join(home, ".codex")
    rollout = _rollout(folder, session, began)
    changes = [change for line in turn_records.lines_since(rollout, began) for change in _changes(line, began)]
    if len(changes) > turn_records.MOST_FILES:
        return TurnFiles({})
    state: dict[str, Any] = {}
    for path, change in reversed(changes):
        _take_back(state, os.path.join(cwd or "/", path), change)
    return TurnFiles({path: content for path, content in state.items() if content is not _UNKNOWN})


def _rollout(folder: str, session: str, began: float) -> str:
    """The rollout of the thread; an empty path if there is none."""
    named = (row.path for row in index_rows(folder, began, [session]) if row.id == session)
    listed = (
        path for path in turn_records.matching(folder, "sessions/*/*/*/rollout-*.jsonl") if thread_of(path) == session
    )
    return next((path for path in (*named, *listed) if path and os.path.exists(path)), "")


def _changes(line: bytes, began: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """The changes of one record: path, and its kind with what belongs to it."""
    record = fields.record(line) if any(part in line for part in _PARTS) else None
    at = turn_records.moment_of(record) if record else None
    if record is None or at is None or at < began:
        return
    payload = fields.table(record.get("payload"))
    item = fields.table(payload.get("item")) if payload.get("type") == "item_completed" else payload
    applied = item.get("status") == "completed" if item is not payload else payload.get("success") is True
    if not applied or not (item.get("type") == "FileChange" or payload.get("type") == "patch_apply_end"):
        return
    for path, change in fields.table(item.get("changes")).items():
        one = fields.table(change)
        if fields.path(path) is not None:
            kind = next((kind for kind in ("add", "delete", "update") if kind in one), None)
            yield path, ({"type": kind, **fields.table(one[kind])} if kind is not None else one)


def _take_back(state: dict[str, Any], path: str, change: dict[str, Any]) -> None:
    kind, moved = change.get("type"), fields.path(change.get("move_path"))
    text = change.get("content" if kind == "delete" else "unified_diff")
    before: object = _UNKNOWN
    if kind == "add":
        before = None
    elif kind == "delete" and isinstance(text, str):
        before = _bytes(text)
    elif kind == "update" and isinstance(text, str):
        now = _content(state, os.path.realpath(os.path.join(os.path.dirname(path), moved)) if moved else _real(path))
        before = take_patch_back(now, _bytes(text)) if isinstance(now, bytes) else _UNKNOWN
        before = _UNKNOWN if before is None else before
    if moved:
        state[os.path.realpath(os.path.join(os.path.dirname(path), moved))] = None
    state[_real(path)] = before


def _content(state: dict[str, Any], real: str) -> object:
    return state[real] if real in state else turn_records.read_whole(real)


def _real(path: str) -> str:
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def take_patch_back(now: bytes, patch: bytes) -> bytes | None:
    """Return the content before the patch; None if its lines are not where it put them."""
    lines = _split(now)
    before: list[bytes] = []
    at = 0  # in `lines`
    for start, old, new in _hunks(patch):
        if start < at or lines[start : start + len(new)] != new:
            return None
        before += [*lines[at:start], *old]
        at = start + len(new)
    return b"".join([*before, *lines[at:]])


def _split(content: bytes) -> list[bytes]:
    """The lines, which end at \\n alone."""
    parts = content.split(b"\n")
    return [*(part + b"\n" for part in parts[:-1]), *([parts[-1]] if parts[-1] else [])]


def _hunks(patch: bytes) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
    """Each hunk: the index of its first line in the new file, its old lines, its new ones."""
    start, old, new, last = 0, list[bytes](), list[bytes](), b""
    for line in _split(patch):
        found = _HUNK.match(line)
        if found:
            if old or new:
                yield start, old, new
            start = int(found[3]) - (1 if found[4] != b"0" else 0)
            old, new = [], []
        elif line.startswith(_NO_NEWLINE):
            for side in [old] if last == b"-" else [new] if last == b"+" else [old, new]:
                side[-1] = side[-1].removesuffix(b"\n")
        elif line[:1] in (b" ", b"-", b"+"):
            last = line[:1]
            if last != b"+":
                old.append(line[1:])
            if last != b"-":
                new.append(line[1:])
    if old or new:
        yield start, old, new
