"""opencode: its sessions, from opencode.db, and its processes.

The state comes from the last messages. Whether a tool waits for permission is not in the database but in the log, which
also shows the process of a session; a process that was started with `--port` is asked for it.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from imi_monitor.model.agent import COMPLETED, NOTHING_ASKED, RUNNING, WAITING, AgentEvent, Evidence, SessionFacts
from imi_monitor.sources.agents import fields, foreign_db
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.child_processes import has_child_since
from imi_monitor.sources.agents.foreign_db import ForeignDatabase, Row, Unreadable
from imi_monitor.sources.agents.opencode import reducer
from imi_monitor.sources.agents.opencode.records import MessageWindow, sessions, updated
from imi_monitor.sources.agents.opencode.run_log import RunLog
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace

_DAY = 86_400.0
_UNSEEN = 5.0  # seconds after a write in which its process may be an invisible one, such as one in a container
_MOST_SESSIONS = 100
_LOGGED = 1.0  # seconds after the start of a tool in which the log has the permission that it needs
_CONTINUES = frozenset({"-c", "--continue"})

PROGRAM = AgentProgram(
    "opencode",
    ("/opencode-ai/",),
    frozenset({"auth", "upgrade", "models", "mcp"}),
    home_variables=("XDG_DATA_HOME", "OPENCODE_DB"),
)


def make() -> AgentReader:
    return OpenCodeReader()


class OpenCodeReader:
    cli = "opencode"
    has_more = False

    def __init__(self) -> None:
        self._databases: dict[str, SessionDatabase] = {}
        self._listed: tuple[str, int] | None = None
        self._names: Sequence[str] = ()
        self._client = PortClient()
        self._log = RunLog("")
        self._continued: dict[tuple[int, str], str] = {}  # (pid, start time) -> session that it was started to continue

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        wanted = {os.path.dirname(path) for path in (*self._paths(context), self._log.path)}
        return [folder for folder in wanted if os.path.isdir(folder)]

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        processes = context.processes_of(self.cli)
        log = f"{data_folder(context)}/log/opencode.log"
        if self._log.path != log:
            self._log = RunLog(log)
        self._log.read(processes, context.now)
        for path in self._paths(context):
            database = self._databases.setdefault(path, SessionDatabase(path))
            database.read(context, processes, whole=touched is None)
        shown = ProcessClues(self._log, self._answers(context, processes), self._find_continued(processes))
        found = [one for each in self._databases.values() for one in each.sightings(context, processes, shown)]
        return [*found, *self._ready(context, processes), *self._unreadable(context, processes)]

    def _find_continued(self, processes: Sequence[AgentProcess]) -> dict[str, int]:
        """session -> pid of a process that was started to continue it (`--continue`): the newest one at that time."""
        known, self._continued = self._continued, {}
        for process in processes:
            who = process.pid, process.started
            session = known.get(who)
            if session is None and not _CONTINUES.isdisjoint(process.argv[1:]):
                older = [one for each in self._databases.values() for one in each.before(process)]
                session = max(older)[1] if older else None
            if session is not None:
                self._continued[who] = session
        return {session: pid for (pid, _), session in self._continued.items()}

    def _ready(self, context: ReadContext, processes: Sequence[AgentProcess]) -> list[Sighting]:
        """The processes that no session is known of yet: their log shows that nothing was asked."""
        found = []
        for process in processes:
            run = self._log.run_by(process) if context.root_of_real(process.cwd) else None
            if run is None or run.sessions or run.began is None or (process.pid, process.started) in self._continued:
                continue
            says = f"opencode.log: run {run.ident} has no session yet"
            evidence = Evidence("transcript", COMPLETED, fields.at(run.began), says, NOTHING_ASKED)
            found.append(
                Sighting("opencode", None, process.cwd, process.pid, process.started, True, evidence=(evidence,))
            )
        return found

    def _paths(self, context: ReadContext) -> list[str]:
        """The databases, or the path of the first one to come. Each release channel has a database of its own."""
        folder = data_folder(context)
        given = context.env.get("OPENCODE_DB", "")
        if given:
            return [os.path.join(folder, given)]
        try:
            listed = (folder, os.stat(folder).st_mtime_ns)
        except OSError:
            return [f"{folder}/opencode.db"]
        if listed != self._listed:
            names = [name for name in os.listdir(folder) if name.startswith("opencode") and name.endswith(".db")]
            self._listed, self._names = listed, sorted({"opencode.db", *names})
        return [f"{folder}/{name}" for name in self._names]

    def _answers(self, context: ReadContext, processes: Sequence[AgentProcess]) -> dict[int, PortAnswers]:
        """pid -> what the process answers on its port."""
        found = {}
        for process in processes:
            number = port(process.argv)
            answer = self._client.ask(number, context.now) if number and context.root_of_real(process.cwd) else None
            if answer is not None:
                found[process.pid] = answer
        return found

    def _unreadable(self, context: ReadContext, processes: Sequence[AgentProcess]) -> list[Sighting]:
        """The processes, with the reason why their sessions are not readable; empty without a reason."""
        databases = self._databases.values()
        why = next((each.problem for each in databases if each.problem and not each.has_sessions), None)
        if why is None and not any(os.path.exists(path) for path in self._databases):
            old = os.path.isdir(f"{data_folder(context)}/storage/message")
            why = "its sessions are JSON files, as before version 1.2, and are not read" if old else None
        note = SessionFacts(format_note=f"unknown (format) opencode: {why}")
        return [
            Sighting("opencode", None, one.cwd, one.pid, one.started, True, facts=note)
            for one in processes
            if why is not None and context.root_of_real(one.cwd)
        ]


def data_folder(context: ReadContext) -> str:
    data = context.env.get("XDG_DATA_HOME", "")
    return f"{data if os.path.isabs(data) else context.home + '/.local/share'}/opencode"


@dataclass(slots=True)
class OpenCodeSession:
    """What was read of one session."""

    window: MessageWindow
    row: Row = field(default_factory=dict)
    facts: SessionFacts = field(default_factory=SessionFacts)
    reported: set[str] = field(default_factory=set)  # ids of events
    events: tuple[AgentEvent, ...] = ()

    def read(self, database: ForeignDatabase, row: Row) -> None:
        if not self.window.read(database) and row == self.row:
            return
        self.row = row
        self.facts = reducer.facts(row, self.window.messages)
        session, created = str(row["id"]), fields.moment(row.get("time_created")) or fields.at(0)
        began = AgentEvent("started", f"{session}:started", created)
        new = [one for one in (began, *reducer.events(self.window.changed)) if one.id not in self.reported]
        self.reported |= {one.id for one in new}
        self.events = (*self.events, *new)


class SessionDatabase:
    """One database, and what was read of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem: str | None = None
        self._stamp: foreign_db.DatabaseStamp | None = None
        self._roots: tuple[str, ...] = ()
        self._sessions: dict[str, OpenCodeSession] = {}
        self._places: dict[str, str | None] = {}  # recorded folder -> real path; None outside of the worktrees
        self._pairs = SessionPairs(several=True, unseen=_UNSEEN)

    @property
    def has_sessions(self) -> bool:
        return bool(self._sessions)

    def read(self, context: ReadContext, processes: Sequence[AgentProcess], *, whole: bool) -> None:
        stamp = foreign_db.stamp(self.path)
        if stamp is None or (stamp == self._stamp and self._roots == context.roots and not whole):
            return
        since = min([context.now - _DAY, *(process.began_at for process in processes)])
        try:
            with foreign_db.opened(self.path) as database:
                self._read(database, context, int(since * 1000))
        except Unreadable as why:  # busy, or of another shape: what was read before stands
            self.problem = str(why)
            return
        self.problem, self._stamp = None, stamp

    def _read(self, database: ForeignDatabase, context: ReadContext, since: int) -> None:
        here = [row for row in sessions(database, since) if self._is_watched(context, row)]
        rows = {str(row["id"]): row for row in here[:_MOST_SESSIONS]}
        found = {each: self._sessions.get(each) or OpenCodeSession(MessageWindow(each)) for each in rows}
        for each, session in found.items():
            session.read(database, rows[each])
        self._sessions = found

    def _is_watched(self, context: ReadContext, row: Row) -> bool:
        if self._roots != context.roots:
            self._roots, self._places = context.roots, {}
        folder = fields.path(row.get("directory")) or "/"
        if folder not in self._places:
            self._places[folder] = os.path.realpath(folder) if context.is_watched(folder) else None
        return self._places[folder] is not None

    def before(self, process: AgentProcess) -> list[tuple[float, str]]:
        """(when it was written, session) of the sessions of its folder that are older than the process."""
        found = [(self._updated(one), each, self._folder(one)) for each, one in self._sessions.items()]
        return [(at, each) for at, each, folder in found if folder == process.cwd and process.began_after(at)]

    def sightings(self, context: ReadContext, processes: Sequence[AgentProcess], clues: ProcessClues) -> list[Sighting]:
        traces = [self._trace(each, session, clues) for each, session in self._sessions.items()]
        owners = self._pairs.find(traces, processes, context.now)
        return [_sighting(each, session, owners[each], clues, context.now) for each, session in self._sessions.items()]

    def _trace(self, ident: str, session: OpenCodeSession, clues: ProcessClues) -> SessionTrace:
        bare = SessionTrace(ident, self._folder(session), self._updated(session), names=frozenset({ident}))
        return clues.add_to(bare)

    def _folder(self, session: OpenCodeSession) -> str:
        recorded = str(session.row["directory"])
        return self._places.get(recorded) or recorded

    def _updated(self, session: OpenCodeSession) -> float:
        return updated(session.row, session.window.messages) / 1000


@dataclass(frozen=True, slots=True)
class ProcessClues:
    """What shows the process of a session: the log, the ports, the command lines."""

    log: RunLog
    answers: dict[int, PortAnswers]  # by pid
    continued: dict[str, int]  # session -> pid

    def add_to(self, bare: SessionTrace) -> SessionTrace:
        """The trace with what they show of its process."""
        for pid, answer in self.answers.items():
            if bare.session in answer.busy or bare.session in answer.asking:
                return replace(bare, pid=pid)
        owner = self.log.owner_of(bare.session)
        if owner is not None and owner.process is not None and owner.alive:
            return replace(bare, pid=owner.process.pid, tied=owner.tied)
        if bare.session in self.continued:
            return replace(bare, pid=self.continued[bare.session])
        if owner is not None and owner.alive is False:
            return replace(bare, freed=True, tied=owner.tied)
        return bare

    def with_dialog(self, session: str, recorded: Evidence, process: AgentProcess, now: float) -> Evidence:
        """Return the evidence of a running tool, corrected by the log: it records whether a permission is open."""
        run = self.log.run_of(session)
        if run is None or WAITING not in recorded.or_else:
            return recorded
        dialog = self.log.dialog_of(session)
        if dialog is None:
            began = fields.seconds(recorded.at) or now
            settled = recorded.in_child and now - began > _LOGGED and has_child_since(process, began)
            return replace(recorded, or_else=frozenset()) if settled else recorded
        runs = has_child_since(process, fields.seconds(dialog.at) or now)
        if runs:
            return replace(recorded, says=f"{recorded.says}; it was allowed, and a child runs")
        proven = runs is False and recorded.in_child
        what = f"permission for {dialog.about or 'a tool'}" if dialog.kind == "permission" else dialog.kind
        says = f"opencode.log: run {run.ident} is asking for {dialog.kind} {dialog.id}"
        maybe = frozenset[str]() if proven else frozenset({recorded.state})
        return Evidence("transcript", WAITING, dialog.at, says, what, recorded.tool, or_else=maybe)


def _sighting(ident: str, session: OpenCodeSession, owner: SessionProcess, clues: ProcessClues, now: float) -> Sighting:
    messages, facts = session.window.messages, session.facts
    recorded = reducer.evidence(messages, now)
    if recorded is not None and owner.process is not None and owner.alive:
        recorded = clues.with_dialog(ident, recorded, owner.process, now)
    answer = clues.answers.get(owner.process.pid) if owner.process and owner.alive else None
    answered = None if answer is None or recorded is None else _port_evidence(ident, answer, recorded)
    if messages and recorded is None:
        note = f"unknown (format) opencode {facts.version}: a message with an unknown role"
        facts = replace(facts, format_note=note)
    events, session.events = session.events, ()
    return Sighting(
        cli="opencode",
        session=ident,
        cwd=fields.path(session.row.get("directory")),
        pid=owner.process.pid if owner.process else None,
        pid_started=owner.process.started if owner.process else None,
        alive=owner.alive,
        last_alive=None if owner.until is None else fields.at(owner.until),
        evidence=tuple(one for one in (answered, recorded) if one is not None),
        facts=facts,
        events=events,
        process_began=owner.began,
        tied=owner.tied,
    )


def _port_evidence(session: str, answer: PortAnswers, recorded: Evidence) -> Evidence:
    """Return the evidence from the port of the process itself."""
    status = answer.busy.get(session, {})
    kind = fields.text(status.get("type"), 50) or "idle"
    waits = answer.asking.get(session)
    if waits is not None:
        tool = recorded.tool if recorded.tool and waits[1] in (None, recorded.tool.id) else None
        says = f"its port says there is an open {waits[0]}"
        return Evidence("socket", WAITING, recorded.at, says, waits[0], tool, standing=True)
    if kind == "idle":
        return Evidence("socket", COMPLETED, recorded.at, "its port says idle", standing=True)
    detail = None
    if kind == "retry":
        detail = f"retry {fields.number(status.get('attempt')) or ''}: {fields.text(status.get('message'), 200) or ''}"
    return Evidence("socket", RUNNING, recorded.at, f"its port says {kind}", detail, standing=True)


# -- the port of a process --------------------------------------------------------------------------------------------

_TIMEOUT = 0.15  # seconds for one answer
_LONGEST_ANSWER = 512 << 10
_PAUSE = 30.0  # seconds in which a port that gave no answer is not asked again


@dataclass(frozen=True, slots=True)
class PortAnswers:
    """`busy`: session -> its status; a session without one is idle. `asking`: session -> (for what, its tool call)."""

    busy: dict[str, dict[str, Any]]
    asking: dict[str, tuple[str, str | None]]


def port(argv: Sequence[str]) -> int | None:
    """The port given with `--port`."""
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        text = following if word == "--port" else word.removeprefix("--port=") if word.startswith("--port=") else ""
        if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
            return int(text)
    return None


class PortClient:
    """Asks opencode's HTTP server on this machine. One that gives no answer (stopped, or with a password) is not asked
    again for a while."""

    def __init__(self) -> None:
        self._silent: dict[int, float] = {}  # port -> until when it is not asked

    def ask(self, number: int, now: float) -> PortAnswers | None:
        if 0 < self._silent.get(number, 0) - now <= _PAUSE:
            return None
        try:
            status = fields.table(_get(number, "/session/status"))
            permissions, questions = _get(number, "/permission"), _get(number, "/question")
        except (OSError, http.client.HTTPException, ValueError):
            self._silent[number] = now + _PAUSE
            return None
        asking = {**_asking(questions, "question"), **_asking(permissions, "permission for ")}
        return PortAnswers({str(key): fields.table(value) for key, value in status.items()}, asking)


def _asking(answer: object, what: str) -> dict[str, tuple[str, str | None]]:
    found = {}
    for one in map(fields.table, fields.rows(answer)):
        session, kind = fields.text(one.get("sessionID"), 200), fields.text(one.get("permission"), 100)
        if session:
            call = fields.text(fields.table(one.get("tool")).get("callID"), 200)
            found[session] = (what + (kind or "a tool") if what.endswith(" ") else what, call)
    return found


def _get(number: int, path: str) -> object:
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=_TIMEOUT)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        if answer.status == 404 and path == "/question":  # older versions have no questions
            return []
        if answer.status != 200:
            raise ValueError(f"it answers {answer.status}")
        return json.loads(answer.read(_LONGEST_ANSWER))
    finally:
        connection.close()
