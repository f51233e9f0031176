"""One session as its hooks tell it: the records that are there, their course, and the sighting they come to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from imi_monitor.model.agent import AgentEvent, SessionFacts
from imi_monitor.sources.agents.base import AgentProcess, Sighting, World
from imi_monitor.sources.agents.hooks.course import Course
from imi_monitor.sources.agents.hooks.evidence import evidence_of
from imi_monitor.sources.agents.hooks.news import told
from imi_monitor.sources.agents.hooks.records import ASKS, Record

_MOST_FILES = 200


@dataclass
class HookSession:
    records: list[Record] = field(default_factory=list)  # in order
    course: Course = field(default_factory=Course)
    facts: SessionFacts = field(default_factory=SessionFacts)
    news: list[AgentEvent] = field(default_factory=list)

    def add(self, new: Iterable[Record]) -> None:
        ordered = sorted(new, key=_order)
        if self.records and ordered[0].order < self.records[-1].order:  # late: an older slice, a hook that took longer
            self.records = sorted([*self.records, *ordered], key=_order)
            self.course = Course()
            self._feed(self.records, {record.name for record in ordered})
            return
        self.records += ordered
        self._feed(ordered, {record.name for record in ordered})

    def keep(self, records: Iterable[Record]) -> None:
        """These are all there are."""
        self.records = sorted(records, key=_order)
        self.course = Course()
        self._feed(self.records, set())

    def _feed(self, records: Iterable[Record], new: set[str]) -> None:
        """`new`: those that are news."""
        for record in records:
            if record.name in new:
                self.news += told(record, self.course.call_of(record) if record.kind == ASKS else None)
            self.course.feed(record)
        self.facts = _facts(self.course, self.records)


def _order(record: Record) -> tuple[int, str]:
    return record.order


def sighting_of(session: HookSession, world: World) -> Sighting | None:
    course, latest = session.course, session.records[-1]
    news, session.news = tuple(session.news), []
    cwd = next((record.cwd for record in reversed(session.records) if record.cwd), None)
    if not world.watched(cwd):
        return None
    pid, started, alive = (None, None, False) if course.ended else _process(session.records, world)
    return Sighting(
        latest.cli,
        latest.session,
        cwd,
        pid,
        started,
        alive,
        last_alive=latest.at if alive is False else None,
        evidence=evidence_of(course),
        facts=session.facts,
        news=news,
    )


def _process(records: Sequence[Record], world: World) -> tuple[int | None, str | None, bool | None]:
    """Whose hook it was: a living agent that was there when it fired; for Claude also that it is gone."""
    last = next((record for record in reversed(records) if record.pid), None)
    if last is None or last.pid is None or last.host not in ("", os.uname().nodename):
        return None, None, None
    for process in world.processes_of(last.cli):
        if last.pid == process.pid or last.pid in process.family:
            return _if_older(process, last)
    if last.cli == "claude" and world.start_time(last.pid) is None:
        return last.pid, None, False
    return None, None, None


def _if_older(process: AgentProcess, record: Record) -> tuple[int | None, str | None, bool | None]:
    """A process that began after the event only has the same number."""
    if process.began_at > record.ns / 1e9 + 1:
        return None, None, False if record.cli == "claude" else None
    return process.pid, process.started, True


def _facts(course: Course, records: Sequence[Record]) -> SessionFacts:
    newest = list(reversed(records))
    files = dict.fromkeys(path for record in records for path in record.files)
    return SessionFacts(
        model=next((one.model for one in newest if one.model), None),
        title=next((one.title for one in newest if one.title), None),
        started_at=course.started.at if course.started else None,
        ended_at=course.ended.at if course.ended else None,
        turn_at=course.prompt.at if course.prompt else None,
        prompt=course.prompt.text if course.prompt else None,
        last_message=course.said.text if course.said else None,
        files=tuple(files)[-_MOST_FILES:],
        subagents=len(course.helpers) or None,
        parent=next((one.parent for one in newest if one.parent), None),
        tmux=next((one.tmux for one in newest if one.tmux), None),
        zellij=next((one.zellij for one in newest if one.zellij), None),
    )
