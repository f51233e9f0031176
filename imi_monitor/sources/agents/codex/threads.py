"""Finding Codex's threads: the rollouts of today and yesterday, and what its index and its locks name beside them.

A resumed thread goes on in the folder of the day it began, so folders alone do not tell; all of them are never listed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents import loose, marks
from imi_monitor.sources.agents.base import Sighting
from imi_monitor.sources.agents.codex.course import Course
from imi_monitor.sources.agents.codex.index import Listed
from imi_monitor.sources.agents.codex.items import Context
from imi_monitor.sources.agents.codex.records import read
from imi_monitor.sources.agents.pairing import Unseen
from imi_monitor.sources.agents.tail import Tail

DAY = 86400.0
_NAME = re.compile(r"^rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$")
_LONGEST_HEAD = 1 << 20
_WINDOW = 64 << 10  # of a rollout's end, which is read first: enough for its state
_MOST_FILES = 400  # of one day, the newest


class Thread:
    """One rollout that matters: read on from where we were."""

    def __init__(self, ident: str, path: str, head: Context) -> None:
        self.id = ident
        self.path = path
        self.head = head
        self.listed: Listed | None = None
        self.heard_at = marks.moved_at(path) or 0.0  # when its file last grew
        self.begun = False  # it was read at all
        self.unseen = Unseen()
        self.read_count = 0  # how often something was read: what was told holds until it grows
        self.told: tuple[object, Sighting] | None = None
        self.tail = Tail(path, _WINDOW)
        self.course = self._fresh()
        self._before: Course | None = None
        self._older_news: tuple[AgentEvent, ...] = ()

    def _fresh(self) -> Course:
        course = Course(os.path.basename(self.path))
        course.begin(self.head)
        return course

    def read(self) -> bool:
        """What was added; False when nothing was."""
        self.begun = True
        lines = self.tail.new()
        if self.tail.begun_anew:
            self.course, self._before = self._fresh(), None
        if lines:
            self.heard_at = marks.moved_at(self.path) or self.heard_at
            self._feed(self.course, lines)
        if self.tail.has_older and self._before is None:
            self._before = Course(os.path.basename(self.path))
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

    def _feed(self, course: Course, lines: Iterable[bytes]) -> None:
        otherwise = loose.at(self.heard_at)
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


def head(path: str) -> Context | None:
    """What its first line tells; None while that line is not whole."""
    try:
        with open(path, "rb") as file:
            line = file.readline(_LONGEST_HEAD)
    except OSError:
        return None
    if not line.endswith(b"\n"):
        return None
    first = next((item for item in read(line, "") if isinstance(item, Context)), None)
    return first or Context()
