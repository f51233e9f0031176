"""The shared folder of Denker's agents: `workspace_metadata.json` lists files by agent, and nothing else about its session."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from imi_monitor.actions.board import workspace_files
from imi_monitor.model import session_record, times
from imi_monitor.model.agent import UNKNOWN
from imi_monitor.model.foreign_run import ForeignRun
from imi_monitor.model.session_record import WrittenFile
from imi_monitor.model.text import safe

PROGRAM = "denker"
REGISTRY = "workspace_metadata.json"
_MOST_FILES = 2000
_MOST_BYTES = 4 << 20


def read(folder: str) -> tuple[list[ForeignRun], list[str]]:
    """(the session of a shared folder, what cannot be read). Its times are local, without a zone."""
    text = workspace_files.read_text(folder, REGISTRY, most=_MOST_BYTES)
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return [], [f"{REGISTRY}: it is no JSON, or only a part of it"]
    changed = times.stamp(datetime.fromtimestamp(os.stat(os.path.join(folder, REGISTRY)).st_mtime, UTC))
    entries = found.get("files")
    listed = [one for one in entries.values() if isinstance(one, dict)] if isinstance(entries, dict) else []
    files = {file.path: file for one in listed[:_MOST_FILES] if (file := _file(one, changed)) is not None}
    name = str(found.get("session_id") or os.path.basename(folder))
    run = ForeignRun(
        name=f"{safe(name, 80)}@{safe(folder, 120)}",  # the session is always called "default"
        folder=folder,
        status=UNKNOWN,
        started_at=_moment(found.get("created")),
        updated_at=changed,
        prompt=None,
        log=None,
        program=PROGRAM,
        files=tuple(files.values()),
    )
    return [run], []


def _file(one: dict[str, object], changed: str) -> WrittenFile | None:
    path, size, agent = one.get("path"), one.get("size"), one.get("agent")
    if not isinstance(path, str) or not path:
        return None
    number = size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 50 else None
    shown = safe(path, 300)
    by = safe(agent, 80) if isinstance(agent, str) else None
    return WrittenFile(shown, session_record.file_kind(shown), _moment(one.get("created")) or changed, by, number)


def _moment(value: object) -> str | None:
    """A local time without a zone, as Denker writes it."""
    try:
        return times.stamp(datetime.fromisoformat(str(value)).astimezone(UTC))
    except (ValueError, OverflowError, OSError):
        return None
