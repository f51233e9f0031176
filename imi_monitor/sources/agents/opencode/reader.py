"""opencode: its sessions, from opencode.db.

State comes from the last messages. What the database cannot tell, a tool that waits for leave, only the process itself
knows, and is asked when it was started with `--port`. Which process has which session is nowhere written: by folder.

Asks an opencode that was started with `--port` what it does: it alone knows whether a tool waits for leave.

Only when its own command line shows a port, only on this machine, and only for a moment; one that does not answer (it
is stopped, or wants a password) is left alone for a while.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from imi_monitor.model.agent import COMPLETED, RUNNING, WAITING, AgentEvent, Evidence, SessionFacts
from imi_monitor.sources.agents import fields, foreign_db
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.foreign_db import Database, Row, Unreadable
from imi_monitor.sources.agents.opencode import reducer as opencode_course
from imi_monitor.sources.agents.opencode.records import MessageWindow, sessions, updated
from imi_monitor.sources.agents.session_owners import SessionActivity, SessionOwners, SessionProcess

_DAY = 86_400.0
_MOST_SESSIONS = 100  # sessions at a time


def make() -> AgentReader:
    return OpenCodeReader()


class OpenCodeReader:
    cli = "opencode"

    def __init__(self) -> None:
        self._books: dict[str, SessionDatabase] = {}
        self._listed: tuple[str, int] | None = None
        self._asker = PortClient()

    def folders(self, world: ReadContext) -> Sequence[str]:
        return [folder for folder in {os.path.dirname(path) for path in self._paths(world)} if os.path.isdir(folder)]

    def look(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        processes = world.processes_of(self.cli)
        for path in self._paths(world):
            self._books.setdefault(path, SessionDatabase(path)).read(world, processes, whole=touched is None)
        answers = self._answers(world, processes)
        found = [one for book in self._books.values() for one in book.sightings(world, processes, answers)]
        return found + self._not_read(world, processes)

    def _paths(self, world: ReadContext) -> list[str]:
        """The databases there are, or where the first one will be: each channel of releases has its own."""
        folder = data_folder(world)
        given = world.env.get("OPENCODE_DB", "")
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

    _names: Sequence[str] = ()

    def _answers(self, world: ReadContext, processes: Sequence[AgentProcess]) -> dict[int, PortAnswers]:
        found = {}
        for process in processes:
            number = port(process.argv)
            answer = self._asker.ask(number, world.now) if number and world.root_of_real(process.cwd) else None
            if answer is not None:
                found[process.pid] = answer
        return found

    def _not_read(self, world: ReadContext, processes: Sequence[AgentProcess]) -> list[Sighting]:
        """Why nothing more is known of the processes here, when that is so."""
        why = next((book.problem for book in self._books.values() if book.problem and not book.known), None)
        if why is None and not any(os.path.exists(path) for path in self._books):
            old = os.path.isdir(f"{data_folder(world)}/storage/message")
            why = "its sessions are JSON files, as before version 1.2, and are not read" if old else None
        note = SessionFacts(format_note=f"unknown (format) opencode: {why}")
        return [
            Sighting("opencode", None, one.cwd, one.pid, one.started, True, facts=note)
            for one in processes
            if why is not None and world.root_of_real(one.cwd)
        ]


def data_folder(world: ReadContext) -> str:
    data = world.env.get("XDG_DATA_HOME", "")
    return f"{data if os.path.isabs(data) else world.home + '/.local/share'}/opencode"


class SessionDatabase:
    """One database, and what was read of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem: str | None = None
        self._stamp: foreign_db.Stamp | None = None
        self._roots: tuple[str, ...] = ()
        self._rows: dict[str, Row] = {}
        self._windows: dict[str, MessageWindow] = {}
        self._places: dict[str, str | None] = {}  # as recorded -> as it is, or not watched
        self._facts: dict[str, SessionFacts] = {}
        self._told: dict[str, set[str]] = {}
        self._fresh: dict[str, tuple[AgentEvent, ...]] = {}
        self._owners = SessionOwners()

    @property
    def known(self) -> bool:
        return bool(self._rows)

    def read(self, world: ReadContext, processes: Sequence[AgentProcess], *, whole: bool) -> None:
        stamp = foreign_db.stamp(self.path)
        if stamp is None or (stamp == self._stamp and self._roots == world.roots and not whole):
            return
        since = min([world.now - _DAY, *(process.began_at for process in processes)])
        try:
            with foreign_db.opened(self.path) as database:
                self._read(database, world, int(since * 1000))
        except Unreadable as why:  # busy, or of another shape: what was known is kept
            self.problem = str(why)
            return
        self.problem, self._stamp = None, stamp

    def _read(self, database: Database, world: ReadContext, since: int) -> None:
        here = [row for row in sessions(database, since) if self._watched(world, row)]
        rows = {str(row["id"]): row for row in here[:_MOST_SESSIONS]}
        self._windows = {each: self._windows.get(each) or MessageWindow(each) for each in rows}
        for each, window in self._windows.items():
            if window.read(database) or rows[each] != self._rows.get(each):
                self._changed(each, rows[each], window)
        self._rows = rows
        self._facts = {each: self._facts[each] for each in rows}
        self._fresh = {each: self._fresh[each] for each in rows if each in self._fresh}
        self._told = {each: self._told[each] for each in rows}

    def _watched(self, world: ReadContext, row: Row) -> bool:
        if self._roots != world.roots:
            self._roots, self._places = world.roots, {}
        folder = fields.path(row.get("directory")) or "/"
        if folder not in self._places:
            self._places[folder] = os.path.realpath(folder) if world.watched(folder) else None
        return self._places[folder] is not None

    def _changed(self, session: str, row: Row, window: MessageWindow) -> None:
        """What is known of it, and what is new, is worked out once and not at each look."""
        self._facts[session] = opencode_course.facts(row, window.messages)
        told = self._told.setdefault(session, set())
        began = AgentEvent("started", f"{session}:started", fields.moment(row.get("time_created")) or fields.at(0))
        fresh = [one for one in (began, *opencode_course.happened(window.moved)) if one.id not in told]
        told |= {one.id for one in fresh}
        self._fresh[session] = (*self._fresh.get(session, ()), *fresh)

    def sightings(
        self, world: ReadContext, processes: Sequence[AgentProcess], answers: dict[int, PortAnswers]
    ) -> list[Sighting]:
        work = [self._work(each) for each in self._rows]
        told = {session: pid for pid, answer in answers.items() for session in (*answer.busy, *answer.asking)}
        lives = self._owners.lives(work, processes, world.now, told)
        found = [self._sighting(each, lives[each], answers, world.now) for each in self._rows]
        self._fresh = {}
        return found

    def _work(self, session: str) -> SessionActivity:
        row = self._rows[session]
        folder = self._places.get(str(row["directory"])) or str(row["directory"])
        return SessionActivity(session, folder, updated(row, self._windows[session].messages) / 1000)

    def _sighting(self, session: str, life: SessionProcess, answers: dict[int, PortAnswers], now: float) -> Sighting:
        row, messages = self._rows[session], self._windows[session].messages
        said = opencode_course.evidence(messages, now)
        answer = answers.get(life.process.pid) if life.process and life.alive else None
        own = None if answer is None or said is None else _itself(session, answer, said)
        known = self._facts[session]
        if messages and said is None:
            note = f"unknown (format) opencode {known.version}: a message of no role that is known"
            known = replace(known, format_note=note)
        return Sighting(
            cli="opencode",
            session=session,
            cwd=fields.path(row.get("directory")),
            pid=life.process.pid if life.process else None,
            pid_started=life.process.started if life.process else None,
            alive=life.alive,
            last_alive=None if life.until is None else fields.at(life.until),
            evidence=tuple(one for one in (own, said) if one is not None),
            facts=known,
            news=self._fresh.get(session, ()),
        )


def _itself(session: str, answer: PortAnswers, said: Evidence) -> Evidence:
    """What the process says of itself, over its port."""
    status = answer.busy.get(session, {})
    kind = fields.text(status.get("type"), 50) or "idle"
    waits = answer.asking.get(session)
    if waits is not None:
        tool = said.tool if said.tool and waits[1] in (None, said.tool.id) else None
        return Evidence(
            "socket", WAITING, said.at, f"its port tells of an open {waits[0]}", waits[0], tool, standing=True
        )
    if kind == "idle":
        return Evidence("socket", COMPLETED, said.at, "its port says idle", standing=True)
    detail = None
    if kind == "retry":
        detail = f"retry {fields.number(status.get('attempt')) or ''}: {fields.text(status.get('message'), 200) or ''}"
    return Evidence("socket", RUNNING, said.at, f"its port says {kind}", detail, standing=True)


_PATIENCE = 0.15  # seconds for one answer
_MOST_ANSWER = 512 << 10
_AFTER_SILENCE = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class PortAnswers:
    """`busy`: session -> busy, retry; who is not in it is idle. `asking`: session -> what for, and which tool call."""

    busy: dict[str, dict[str, Any]]
    asking: dict[str, tuple[str, str | None]]


def port(argv: Sequence[str]) -> int | None:
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        text = following if word == "--port" else word.removeprefix("--port=") if word.startswith("--port=") else ""
        if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
            return int(text)
    return None


class PortClient:
    def __init__(self) -> None:
        self._silent: dict[int, float] = {}  # port -> until when it is not asked

    def ask(self, number: int, now: float) -> PortAnswers | None:
        if now < self._silent.get(number, 0):
            return None
        try:
            status = fields.table(_get(number, "/session/status"))
            permissions, questions = _get(number, "/permission"), _get(number, "/question")
        except (OSError, http.client.HTTPException, ValueError):
            self._silent[number] = now + _AFTER_SILENCE
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
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=_PATIENCE)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        if answer.status == 404 and path == "/question":  # older ones have none
            return []
        if answer.status != 200:
            raise ValueError(f"it answers {answer.status}")
        return json.loads(answer.read(_MOST_ANSWER))
    finally:
        connection.close()
