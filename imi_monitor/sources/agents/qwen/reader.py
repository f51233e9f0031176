"""Qwen Code: its chats by session, and the processes that its list of living sessions names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from imi_monitor.model.agent import COMPLETED, NOTHING_ASKED, RUNNING, WAITING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.claude.live_registry import WatchedFolders
from imi_monitor.sources.agents.folder_trust import FolderTrust
from imi_monitor.sources.agents.foreign_files import RecordFile
from imi_monitor.sources.agents.other_programs import HELPERS
from imi_monitor.sources.agents.qwen.reducer import QwenReducer
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace

_DAY = 86400.0
_WINDOW = 64 << 10  # enough for the state
_MOST_NEW = 40  # chats that are read for the first time in one call
_MOST_ENTRIES = 500
_LONGEST_ENTRY = 64 << 10

PROGRAM = AgentProgram(
    "qwen",
    ("/@qwen-code/qwen-code/",),
    HELPERS | {"board", "channel", "hooks", "review", "sandbox", "serve", "sessions"},
    home_variables=("QWEN_HOME",),
    titles=(
        (re.compile(r"^\u2733\ufe0e?\s+Qwen\b"), WAITING),
        (re.compile(r"^\u25d0\ufe0e?\s+Qwen\b"), RUNNING),
        (re.compile(r"^Qwen - "), COMPLETED),
    ),
)


def make() -> AgentReader:
    return QwenReader()


@dataclass(frozen=True, slots=True)
class QwenEntry:
    """`sessions/<pid>.json`: a living session, or one whose process was killed."""

    session: str
    pid: int
    started: str | None  # in the form of host.start_time
    cwd: str | None
    name: str | None
    started_at: str | None


class QwenChat(RecordFile[QwenReducer]):
    def __init__(self, path: str) -> None:
        super().__init__(path, lambda: QwenReducer(os.path.basename(path)), _WINDOW)
        self.id = os.path.splitext(os.path.basename(path))[0]
        self.was_read = False
        self.has_process = False

    def read(self) -> bool:
        self.was_read = True
        return super().read()


class QwenReader:
    cli = "qwen"

    def __init__(self) -> None:
        self.has_more = False
        self._chats: dict[str, QwenChat] = {}
        self._folders: tuple[str, ...] = ()  # of chats
        self._home = ""
        self._trust = FolderTrust("", by_default=False)
        self._all_entries: list[QwenEntry] = []
        self._entries: dict[str, QwenEntry] = {}  # by session
        self._listed: dict[str, int] = {}  # the files of the entries -> when they were written
        self._pairs = SessionPairs(resumes=_resumes)

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        wanted = (self._home, self._sessions, f"{self._home}/projects", *self._folders)
        return [folder for folder in wanted if os.path.isdir(folder)]

    @property
    def _sessions(self) -> str:
        return f"{self._home}/sessions"

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        home = os.path.realpath(context.env.get("QWEN_HOME") or f"{context.home}/.qwen")
        if home != self._home:
            self._home, self._chats, self._entries, self._listed = home, {}, {}, {}
            self._trust = FolderTrust(home, by_default=False)
        self._read_entries(context)
        self._find(context, touched)
        self._read_chats(touched)
        for chat in self._with_more()[:1]:
            chat.read_older()
        shown = [one for one in self._chats.values() if one.was_read and context.is_watched(self._cwd(one))]
        owners = self._pairs.find(
            [self._trace(one, context) for one in shown], context.processes_of("qwen"), context.now
        )
        self.has_more = bool(self._with_more()) or any(not one.was_read for one in self._chats.values())
        found = [self._sighting(one, owners[one.id]) for one in shown]
        return [*found, *self._never_asked(context)]

    # -- files --------------------------------------------------------------------------------------------------------

    def _read_entries(self, context: ReadContext) -> None:
        try:
            with os.scandir(self._sessions) as found:
                listed = {one.name: one.stat().st_mtime_ns for one in found if one.name.endswith(".json")}
        except OSError:
            listed = {}
        if listed != self._listed:
            self._listed = listed
            self._all_entries = list(_entries(self._sessions, sorted(listed)[-_MOST_ENTRIES:]))
        # a killed process leaves its entry, beside that of the process in which its session was resumed
        ordered = sorted(self._all_entries, key=lambda one: (self._is_alive(one, context), one.started_at or ""))
        self._entries = {one.session: one for one in ordered}

    def _is_alive(self, entry: QwenEntry, context: ReadContext) -> bool:
        return context.alive(entry.pid, entry.started) is True

    def _find(self, context: ReadContext, touched: frozenset[str] | None) -> None:
        if touched is None or any(path.startswith(f"{self._home}/projects") for path in touched):
            self._folders = tuple(_chat_folders(f"{self._home}/projects", WatchedFolders(context)))
            for path in _recent_chats(self._folders, context.now - _DAY):
                self._chats.setdefault(path, QwenChat(path))
        live = {one.session for one in self._entries.values()}
        for path in [path for path, one in self._chats.items() if one.modified_at < context.now - _DAY]:
            if self._chats[path].id not in live:
                del self._chats[path]

    def _read_chats(self, touched: frozenset[str] | None) -> None:
        known = [one for path, one in self._chats.items() if one.was_read and (touched is None or path in touched)]
        new = sorted((one for one in self._chats.values() if not one.was_read), key=lambda one: -one.modified_at)
        for chat in (*known, *new[:_MOST_NEW]):
            chat.read()

    def _with_more(self) -> list[QwenChat]:
        return [one for one in self._chats.values() if one.has_more and (one.has_process or one.tail.has_more)]

    # -- sightings ----------------------------------------------------------------------------------------------------

    def _cwd(self, chat: QwenChat) -> str | None:
        entry = self._entries.get(chat.id)
        return chat.reducer.cwd or (entry.cwd if entry else None)

    def _trace(self, chat: QwenChat, context: ReadContext) -> SessionTrace:
        entry = self._entries.get(chat.id)
        alive = entry is not None and self._is_alive(entry, context)
        folder = os.path.realpath(self._cwd(chat) or "/")
        pid = entry.pid if entry is not None and alive else None
        return SessionTrace(
            chat.id,
            folder,
            chat.modified_at,
            names=frozenset({chat.id}),
            pid=pid,
            freed=entry is not None and not alive,
        )

    def _sighting(self, chat: QwenChat, owner: SessionProcess) -> Sighting:
        if owner.alive is not True and chat.has_process:
            chat.read()  # the last records may have come together with its end
        chat.has_process = owner.alive is True
        entry, evidence = self._entries.get(chat.id), chat.reducer.evidence()
        return Sighting(
            cli=self.cli,
            session=chat.id,
            cwd=self._cwd(chat),
            pid=owner.process.pid if owner.process else None,
            pid_started=owner.process.started if owner.process else None,
            alive=owner.alive,
            last_alive=None if owner.alive is not False else fields.at(chat.modified_at),
            evidence=(evidence,) if evidence else (),
            facts=chat.reducer.facts(entry.name if entry else None, entry.started_at if entry else None),
            events=chat.take_events(),
            process_began=owner.began,
            tied=owner.tied,
        )

    def _never_asked(self, context: ReadContext) -> Iterator[Sighting]:
        """Living sessions without a chat: the first prompt creates it."""
        known = {one.id for one in self._chats.values()}
        for entry in self._entries.values():
            if entry.session in known or not context.is_watched(entry.cwd) or not self._is_alive(entry, context):
                continue
            head = next((one for one in context.processes_of("qwen") if entry.pid in (one.pid, *one.family)), None)
            if head is None:
                continue
            ready = self._trust_dialog(entry, head, context) or _ready(entry, head)
            yield Sighting("qwen", entry.session, entry.cwd, head.pid, head.started, True, evidence=(ready,))

    def _trust_dialog(self, entry: QwenEntry, head: AgentProcess, context: ReadContext) -> Evidence | None:
        others = [one for one in context.processes_of("qwen") if one is not head and one.cwd == head.cwd]
        return self._trust.evidence(head, fields.seconds(entry.started_at), others)


def _ready(entry: QwenEntry, head: AgentProcess) -> Evidence:
    says = f"sessions/{entry.pid}.json lists it, and it has no chat"
    began = fields.at(head.began_at)
    # another dialog at its start is not recorded
    return Evidence("transcript", COMPLETED, began, says, NOTHING_ASKED, or_else=frozenset({WAITING}))


def _entries(folder: str, names: Sequence[str]) -> Iterator[QwenEntry]:
    for name in names:
        try:
            with open(f"{folder}/{name}", "rb") as file:
                table = fields.record(file.read(_LONGEST_ENTRY)) or {}
        except OSError:
            continue
        session, pid = fields.text(table.get("sessionId"), 100), fields.number(table.get("pid"))
        if session and pid:
            start = fields.text(table.get("procStart"), 200)
            yield QwenEntry(
                session,
                pid,
                start.rpartition(":")[2] if start else None,
                fields.path(table.get("cwd")),
                fields.text(table.get("name"), 200),
                fields.moment(table.get("startedAt")),
            )


def _chat_folders(projects: str, watched: WatchedFolders) -> Iterator[str]:
    try:
        names = os.listdir(projects)
    except OSError:
        return
    for name in names:
        folder = f"{projects}/{name}/chats"
        if watched.may_hold(name) and os.path.isdir(folder):
            yield folder


def _recent_chats(folders: Sequence[str], since: float) -> Iterator[str]:
    for folder in folders:
        try:
            with os.scandir(folder) as found:
                yield from (one.path for one in found if one.name.endswith(".jsonl") and one.stat().st_mtime >= since)
        except OSError:
            continue


def _resumes(words: Sequence[str]) -> bool:
    return any(word in ("-c", "-r", "--continue") or word.split("=")[0] == "--resume" for word in words[1:])
