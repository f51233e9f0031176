"""opencode's own log: which run works on which session, and which permission or question is open.

Every process is a run with an id of its own; its first line is written as it starts. A run names the sessions it works on, so
a session has the process whose start fits its run. An open permission is in no database: the log has it when it is asked
for. The answer to a permission is not logged; the next step of the run shows that it was given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess
from imi_monitor.sources.agents.foreign_files import FileStamp, Tail, stamp_of
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace

_WINDOW = 8 << 20
_LINE = re.compile(r'timestamp=(\S+) level=\S+ run=([0-9a-f]+) message=("(?:[^"\\]|\\.)*"|\S+)(.*)')
_FIELD = re.compile(r' ([A-Za-z][\w.]*)=("(?:[^"\\]|\\.)*"|\S*)')
_FIRST = "creating instance"
_STEPS = frozenset({"loop", "process", "cancel", "exiting loop"})  # no dialog is open behind one of these
_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class OpenDialog:
    """A permission or a question that is not answered."""

    id: str
    at: str
    kind: str  # permission, question
    about: str | None  # the name of the permission: bash, edit


@dataclass(slots=True)
class OpenCodeRun:
    """One process, as far as its lines show it."""

    ident: str
    began: float | None  # None: its first line was not read
    written: float
    folder: str | None = None
    sessions: dict[str, str] = field(default_factory=dict)  # each with the time of its last line
    session: str | None = None  # the one it works on
    dialogs: dict[str, OpenDialog] = field(default_factory=dict)
    cancelled: dict[str, str] = field(default_factory=dict)  # session -> when it was stopped by a person


class RunLog:
    def __init__(self, path: str) -> None:
        self.path = path
        self.runs: dict[str, OpenCodeRun] = {}
        self.parents: dict[str, str] = {}  # session of a subagent -> session that it works for
        self._tail = Tail(path, _WINDOW)
        self._stamp: FileStamp | None = None
        self._pairs = SessionPairs(moves=False)
        self._owners: dict[str, SessionProcess] = {}

    def read(self, processes: Sequence[AgentProcess], now: float) -> None:
        """Read what was added, and find the process of each run."""
        stamp = stamp_of(self.path)
        if stamp is not None and (stamp != self._stamp or self._tail.has_more):
            self._stamp = stamp
            lines = self._tail.read_new()
            if self._tail.restarted:
                self.runs = {}
            for line in lines:
                self._add(line.decode("utf-8", "replace"))
        if len(self.runs) > _MOST_RUNS:
            last = sorted(self.runs.values(), key=lambda one: one.written)[-_MOST_RUNS:]
            self.runs = {one.ident: one for one in last}
        traces = [
            SessionTrace(one.ident, os.path.realpath(one.folder), one.written, one.began)
            for one in self.runs.values()
            if one.folder is not None
        ]
        self._owners = self._pairs.find(traces, processes, now)

    def run_of(self, session: str) -> OpenCodeRun | None:
        """The run that worked last on a session."""
        known = [one for one in self.runs.values() if session in one.sessions]
        return max(known, key=lambda one: one.sessions[session], default=None)

    def owner_of(self, session: str) -> SessionProcess | None:
        """The process of the run that worked last on a session; None if no line names the session."""
        run = self.run_of(session)
        return self._owners.get(run.ident) if run is not None else None

    def run_by(self, process: AgentProcess) -> OpenCodeRun | None:
        """The run of a process; None if it is not certain."""
        for ident, owner in self._owners.items():
            if owner.process is not None and owner.alive and owner.process.pid == process.pid and not owner.tied:
                return self.runs[ident]
        return None

    def dialog_of(self, session: str) -> OpenDialog | None:
        """The dialog that is open in a session, or in a subagent of it."""
        run = self.run_of(session)
        if run is None or not run.dialogs or self._top(run.session) != session:
            return None
        return list(run.dialogs.values())[-1]

    def _top(self, session: str | None) -> str | None:
        for _ in range(len(self.parents)):
            if session not in self.parents:
                break
            session = self.parents[session]
        return session

    def _add(self, line: str) -> None:
        match = _LINE.match(line)
        at = fields.moment(match[1]) if match else None
        if match is None or at is None:
            return
        message = match[3].strip('"')
        written = fields.seconds(at) or 0.0
        run = self.runs.get(match[2])
        if run is None:
            run = self.runs[match[2]] = OpenCodeRun(match[2], written if message == _FIRST else None, written)
        run.written = max(run.written, written)
        values = {name: value.strip('"') for name, value in _FIELD.findall(match[4])}
        if message == _FIRST and run.folder is None:
            run.folder = values.get("directory")
        self._follow(run, message, values, at)

    def _follow(self, run: OpenCodeRun, message: str, values: dict[str, str], at: str) -> None:
        session = values.get("id") if message == "created" else values.get("session.id")
        if session is not None and session.startswith("ses_"):
            run.sessions[session] = at
            if message in ("created", "loop", "process"):
                run.session = session
            if message == "created" and values.get("parentID", "").startswith("ses_"):
                self.parents[session] = values["parentID"]
            if message == "cancel":
                run.cancelled[session] = at
        ident = values.get("id") or values.get("requestID") or ""
        if message == "asking":
            kind = "question" if ident.startswith("que_") else "permission"
            run.dialogs[ident] = OpenDialog(ident, at, kind, fields.text(values.get("permission"), 100))
        elif message in ("replied", "rejected"):
            run.dialogs.pop(values.get("requestID") or ident, None)
        elif message in _STEPS:
            run.dialogs.clear()
