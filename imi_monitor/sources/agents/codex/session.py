"""Finding Codex's threads: the rollouts of today and yesterday, and what its index and its locks name beside them.

A resumed thread goes on in the folder of the day it began, so folders alone do not tell; all of them are never listed.

Codex's own index of its threads, in SQLite: which file, which folder, which title, how the last turn ended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RUNNING, AgentEvent, Evidence
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.codex.record_types import ThreadContext, why
from imi_monitor.sources.agents.codex.records import read
from imi_monitor.sources.agents.codex.reducer import CodexReducer
from imi_monitor.sources.agents.foreign_db import placeholders, rows
from imi_monitor.sources.agents.foreign_files import Tail
from imi_monitor.sources.agents.session_owners import ProcessHistory

DAY = 86400.0
_NAME = re.compile(r"^rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$")
_LONGEST_HEAD = 1 << 20
_WINDOW = 64 << 10  # of a rollout's end, which is read first: enough for its state
_MOST_FILES = 400  # of one day, the newest


class CodexThread:
    """One rollout that matters: read on from where we were."""

    def __init__(self, ident: str, path: str, head: ThreadContext) -> None:
        self.id = ident
        self.path = path
        self.head = head
        self.listed: IndexRow | None = None
        self.heard_at = foreign_files.modified_at(path) or 0.0  # when its file last grew
        self.begun = False  # it was read at all
        self.unseen = ProcessHistory()
        self.read_count = 0  # how often something was read: what was told holds until it grows
        self.told: tuple[object, Sighting] | None = None
        self.tail = Tail(path, _WINDOW)
        self.course = self._fresh()
        self._before: CodexReducer | None = None
        self._older_news: tuple[AgentEvent, ...] = ()

    def _fresh(self) -> CodexReducer:
        course = CodexReducer(os.path.basename(self.path))
        course.begin(self.head)
        return course

    def read(self) -> bool:
        """What was added; False when nothing was."""
        self.begun = True
        lines = self.tail.new()
        if self.tail.begun_anew:
            self.course, self._before = self._fresh(), None
        if lines:
            self.heard_at = foreign_files.modified_at(self.path) or self.heard_at
            self._feed(self.course, lines)
        if self.tail.has_older and self._before is None:
            self._before = CodexReducer(os.path.basename(self.path))
        return bool(lines)

    @property
    def unread(self) -> bool:
        return self.tail.behind or self._before is not None

    def read_older(self) -> None:
        """One slice of what lies before the part that was read first."""
        if self.tail.behind:
            self.read()
        if self._before is None:
            return
        self._feed(self._before, self.tail.older())
        self._older_news += self._before.take_news()
        if not self.tail.has_older:
            self.course.inherit(self._before)
            self._before = None

    def take_news(self) -> tuple[AgentEvent, ...]:
        """What was read since it was asked last."""
        older, self._older_news = self._older_news, ()
        return older + self.course.take_news()

    def _feed(self, course: CodexReducer, lines: Iterable[bytes]) -> None:
        otherwise = fields.at(self.heard_at)
        self.read_count += 1
        for line in lines:
            course.add(line, otherwise)

    @property
    def cwd(self) -> str | None:
        return self.course.context.cwd or (self.listed.cwd if self.listed else None)


def thread_of(path: str) -> str | None:
    """The thread whose rollout it is, by its name."""
    match = _NAME.match(os.path.basename(path))
    return match[1] if match else None


def day_folders(sessions: str, now: float) -> list[str]:
    """Today's and yesterday's, by this machine's clock and by UTC: which one Codex uses depends on its version."""
    local, utc = datetime.fromtimestamp(now), datetime.fromtimestamp(now, UTC)
    days = {moment.strftime("%Y/%m/%d") for moment in (local, utc, local - timedelta(days=1), utc - timedelta(days=1))}
    return [os.path.join(sessions, day) for day in sorted(days)]


def recent(folders: Iterable[str], since: float) -> Iterator[str]:
    """Rollouts in these folders that moved since then."""
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


def head(path: str) -> ThreadContext | None:
    """What its first line tells; None while that line is not whole."""
    try:
        with open(path, "rb") as file:
            line = file.readline(_LONGEST_HEAD)
    except OSError:
        return None
    if not line.endswith(b"\n"):
        return None
    first = next((item for item in read(line, "") if isinstance(item, ThreadContext)), None)
    return first or ThreadContext()


_MOST = 300
_TURNS = {"inProgress": RUNNING, "completed": COMPLETED, "interrupted": CANCELLED, "failed": FAILED}


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A row of `threads`."""

    id: str
    path: str | None
    cwd: str | None
    title: str | None
    archived: bool


def threads(home: str, since: float, also: Iterable[str]) -> list[IndexRow]:
    """Those that moved since then, and those that are named. Every column but these may come and go."""
    database = _newest(home, "state")
    if database is None:
        return []
    named = [name for name in also if len(name) < 100][:_MOST]
    question = (
        f"SELECT * FROM threads WHERE updated_at >= ? OR id IN ({placeholders(named)}) ORDER BY updated_at DESC LIMIT ?"
    )
    return [one for row in rows(database, question, int(since), *named, _MOST) if (one := _listed(row))]


def last_turn(home: str, thread: str) -> Evidence | None:
    """How its last turn stands, for a rollout that we cannot read."""
    database = _newest(home, "thread_history")
    question = "SELECT * FROM thread_turns WHERE thread_id = ? ORDER BY started_at DESC, rollout_ordinal DESC LIMIT 1"
    row = next(iter(rows(database, question, thread)), None) if database else None
    state = _TURNS.get(str(row.get("status"))) if row else None
    if row is None or state is None:
        return None
    at = fields.moment(row.get("completed_at")) or fields.moment(row.get("started_at"))
    error = fields.record(str(row.get("error_json") or ""))
    says = f"{os.path.basename(database or '')} says its last turn is {row.get('status')}"
    return Evidence("transcript", state, at, says, why(error)) if at else None


def _listed(row: dict[str, object]) -> IndexRow | None:
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


def _newest(home: str, name: str) -> str | None:
    """`state_5.sqlite`: the number grows with versions, the old file stays."""
    shape = re.compile(rf"{name}_(\d+)\.sqlite$")
    try:
        found = [(int(match[1]), entry) for entry in os.listdir(home) if (match := shape.match(entry))]
    except OSError:
        return None
    return os.path.join(home, max(found)[1]) if found else None
