"""Codex's threads: their rollout files, and the index of them that Codex keeps in SQLite.

A resumed thread goes on in the folder of the day it began, so new rollouts are found in the folders of today and
yesterday and, beyond them, through the index and the locks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RUNNING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.codex.record_types import ThreadContext, error_text
from imi_monitor.sources.agents.codex.records import parse
from imi_monitor.sources.agents.codex.reducer import CodexReducer
from imi_monitor.sources.agents.foreign_db import placeholders, rows
from imi_monitor.sources.agents.foreign_files import RecordFile

DAY = 86400.0
_NAME = re.compile(r"^rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$")
_LONGEST_HEAD = 1 << 20
_WINDOW = 64 << 10  # enough for the state
_MOST_FILES = 400  # of one day, the newest


class CodexThread(RecordFile[CodexReducer]):
    """One thread with its rollout."""

    def __init__(self, ident: str, path: str, head: ThreadContext) -> None:
        self.id = ident
        self.row: IndexRow | None = None
        self.was_read = False
        self.has_process = False  # at the last read
        self.reads = 0  # grows when something was read
        self.last: tuple[object, Sighting] | None = None  # of an ended thread: what it was made from, its sighting
        super().__init__(path, lambda: CodexReducer(os.path.basename(path), head), _WINDOW)

    def read(self) -> bool:
        self.was_read = True
        grew = super().read()
        self.reads += grew
        return grew

    def read_older(self) -> None:
        if self.tail.has_more:
            self.read()
        self.reads += 1
        super().read_older()

    @property
    def cwd(self) -> str | None:
        return self.reducer.context.cwd or (self.row.cwd if self.row else None)


def thread_of(path: str) -> str | None:
    """The thread of a rollout, from its file name."""
    match = _NAME.match(os.path.basename(path))
    return match[1] if match else None


def day_folders(sessions: str, now: float) -> list[str]:
    """The folders of today and yesterday, in local time and in UTC: which one Codex uses depends on its version."""
    local, utc = datetime.fromtimestamp(now), datetime.fromtimestamp(now, UTC)
    days = {moment.strftime("%Y/%m/%d") for moment in (local, utc, local - timedelta(days=1), utc - timedelta(days=1))}
    return [os.path.join(sessions, day) for day in sorted(days)]


def recent_rollouts(folders: Iterable[str], since: float) -> Iterator[str]:
    """Rollouts in these folders that were modified since then."""
    for folder in folders:
        found: list[tuple[float, str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if thread_of(entry.name) and (at := entry.stat().st_mtime) >= since:
                        found.append((at, entry.path))
        except OSError:
            continue
        yield from (path for _, path in sorted(found, reverse=True)[:_MOST_FILES])


def read_head(path: str) -> ThreadContext | None:
    """The first line of a rollout; None until it is complete."""
    try:
        with open(path, "rb") as file:
            line = file.readline(_LONGEST_HEAD)
    except OSError:
        return None
    if not line.endswith(b"\n"):
        return None
    first = next((item for item in parse(line, "") if isinstance(item, ThreadContext)), None)
    return first or ThreadContext()


# -- the index --------------------------------------------------------------------------------------------------------

_MOST_ROWS = 300
_TURN_STATES = {"inProgress": RUNNING, "completed": COMPLETED, "interrupted": CANCELLED, "failed": FAILED}


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A row of `threads`."""

    id: str
    path: str | None
    cwd: str | None
    title: str | None
    archived: bool


def index_rows(home: str, since: float, also: Iterable[str]) -> list[IndexRow]:
    """The threads updated since then, and those named in `also`. Columns that are missing in a version are None."""
    database = newest_database(home, "state")
    if database is None:
        return []
    named = [name for name in also if len(name) < 100][:_MOST_ROWS]
    question = (
        f"SELECT * FROM threads WHERE updated_at >= ? OR id IN ({placeholders(named)}) ORDER BY updated_at DESC LIMIT ?"
    )
    found = rows(database, question, int(since), *named, _MOST_ROWS)
    return [one for row in found if (one := _index_row(row))]


def last_turn(home: str, thread: str) -> Evidence | None:
    """The state of a thread's last turn, for a rollout in an unknown format."""
    database = newest_database(home, "thread_history")
    question = "SELECT * FROM thread_turns WHERE thread_id = ? ORDER BY started_at DESC, rollout_ordinal DESC LIMIT 1"
    row = next(iter(rows(database, question, thread)), None) if database else None
    state = _TURN_STATES.get(str(row.get("status"))) if row else None
    if row is None or state is None:
        return None
    at = fields.moment(row.get("completed_at")) or fields.moment(row.get("started_at"))
    error = fields.record(str(row.get("error_json") or ""))
    says = f"{os.path.basename(database or '')} says its last turn is {row.get('status')}"
    return Evidence("transcript", state, at, says, error_text(error)) if at else None


def _index_row(row: dict[str, object]) -> IndexRow | None:
    ident = fields.text(row.get("id"), 100)
    if ident is None:
        return None
    return IndexRow(
        ident,
        fields.path(row.get("rollout_path")),
        fields.path(row.get("cwd")),
        fields.one_line(fields.text(row.get("name")) or fields.text(row.get("title"))),
        bool(row.get("archived")),
    )


def newest_database(home: str, name: str) -> str | None:
    """`state_5.sqlite`: a new version uses a higher number and leaves the old file."""
    shape = re.compile(rf"{name}_(\d+)\.sqlite$")
    try:
        found = [(int(match[1]), entry) for entry in os.listdir(home) if (match := shape.match(entry))]
    except OSError:
        return None
    return os.path.join(home, max(found)[1]) if found else None
