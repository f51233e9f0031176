"""Gemini: its chats, in all formats they have had, by the folders they were held in; one sighting per session."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from imi_monitor.model.agent import COMPLETED, FAILED, RUNNING, WAITING, Evidence
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.folder_trust import FolderTrust
from imi_monitor.sources.agents.foreign_files import FileStamp, RecordFile
from imi_monitor.sources.agents.gemini.reducer import GeminiReducer, StartOptions
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace

_DAY = 86400.0
_FAILURE = "gemini-client-error-Turn."
_MOST_FAILURES = 20  # files that are read
_LEADS_ELSEWHERE = frozenset({"/clear", "/resume", "/chat", "/restore", "/rewind"})
_WINDOW = 64 << 10  # enough for the state
_MOST_NEW = 40  # chats that are read for the first time in one call
_LONGEST_DOCUMENT = 32 << 20

PROGRAM = AgentProgram(
    "gemini",
    ("/@google/gemini-cli/",),
    frozenset({"mcp", "extensions"}),
    home_variables=("GEMINI_CLI_HOME",),
    titles=(
        (re.compile(r"^\u270b\ufe0f?\s+Action Required\b"), WAITING),
        (re.compile(r"^\u2726\s"), RUNNING),
        (re.compile(r"^\u25c7\s+Ready\b"), COMPLETED),
    ),
)


def make() -> AgentReader:
    return GeminiReader()


class GeminiChat(RecordFile[GeminiReducer]):
    """One chat file: lines of records, or, in the older format, one JSON document."""

    def __init__(self, path: str, cwd: str) -> None:
        super().__init__(path, lambda: GeminiReducer(os.path.basename(path)), _WINDOW)
        self.cwd = cwd
        self.was_read = False
        self.has_process = False
        self.options = StartOptions()  # the options of its last process
        self.alive_at = 0.0  # when that process was last seen
        self.failure: str | None = None  # why its last request failed; empty if no file says so

    def read(self) -> bool:
        self.was_read = True
        modified_at = foreign_files.modified_at(self.path)
        if modified_at is None:
            return False
        self.modified_at = modified_at
        return self._read_document() if self.path.endswith(".json") else super().read()

    def _read_document(self) -> bool:
        """A document is written whole each time; known events are not reported again. A torn one is read next time."""
        try:
            with open(self.path, "rb") as file:
                document = fields.record(file.read(_LONGEST_DOCUMENT))
        except OSError:
            return False
        if document is None:
            return False
        self.reducer.add_record({key: value for key, value in document.items() if key != "messages"})
        self.reducer.add_messages(fields.rows(document.get("messages")))
        return True

    def read_older(self) -> None:
        if self.tail.has_more:
            self.read()
        super().read_older()

    @property
    def id(self) -> str:
        """The session's id; the file's name until the first record is read."""
        return self.reducer.session or os.path.splitext(os.path.basename(self.path))[0]


class GeminiReader:
    cli = "gemini"

    def __init__(self) -> None:
        self.has_more = False
        self.chats: dict[str, GeminiChat] = {}
        self._home = ""
        self._trust = FolderTrust("", by_default=True)
        self._places: dict[str, str] = {}  # folder of chats -> the folder they were held in
        self._roots: tuple[str, ...] = ()
        self._pairs = SessionPairs(resumes=_resumes)
        self._typed: dict[str, TypedCommands] = {}  # by folder of chats

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        temporary = os.path.join(self._home, "tmp")
        parents = {os.path.dirname(folder) for folder in self._places}
        wanted = {self._home, temporary, *parents, *self._places}
        return sorted(folder for folder in wanted if os.path.isdir(folder))

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        self._update_places(context, touched)
        self._read_chats(context, touched)
        for chat in self._with_more()[:1]:
            chat.read_older()
        for path in [path for path, chat in self.chats.items() if chat.modified_at < context.now - _DAY]:
            del self.chats[path]
        shown = list(self._by_session().values())
        folders = {os.path.dirname(chat.path) for chat in shown}
        self._typed = {folder: self._typed.get(folder) or TypedCommands(folder) for folder in folders}
        traces = [_trace(chat, self._typed[os.path.dirname(chat.path)].switched_at()) for chat in shown]
        owners = self._pairs.find(traces, context.processes_of(self.cli), context.now)
        found = [
            self._sighting(chat, owners[chat.id], context) for chat in shown if owners[chat.id].alive or chat.reducer.at
        ]
        self.has_more = bool(self._with_more()) or any(not one.was_read for one in self.chats.values())
        return found

    def _update_places(self, context: ReadContext, touched: frozenset[str] | None) -> None:
        home = gemini_folder(context)
        moved = home != self._home or context.roots != self._roots
        if moved or touched is None or any(self._changes_places(path) for path in touched):
            if home != self._home:
                self._trust = FolderTrust(home, by_default=True)
            self._home, self._roots = home, context.roots
            self._places = chat_folders(home, context)
            self.chats = {path: chat for path, chat in self.chats.items() if os.path.dirname(path) in self._places}

    def _changes_places(self, path: str) -> bool:
        """True for the list of projects, a new project, and the first chat of one."""
        above = os.path.dirname(path)
        return (
            path == os.path.join(self._home, "projects.json")
            or os.path.basename(path) == "chats"
            or above == os.path.join(self._home, "tmp")
        )

    def _read_chats(self, context: ReadContext, touched: frozenset[str] | None) -> None:
        if touched is None or any(path in self._places or self._changes_places(path) for path in touched):
            for folder, path in recent_chats(self._places, context.now - _DAY):
                self._add(folder, path)
        for path in touched or ():
            folder = os.path.dirname(path)
            if folder in self._places and is_chat(os.path.basename(path)):
                self._add(folder, path)
        known = [chat for path, chat in self.chats.items() if chat.was_read and (touched is None or path in touched)]
        new = sorted((chat for chat in self.chats.values() if not chat.was_read), key=lambda chat: -chat.modified_at)
        for chat in (*known, *new[:_MOST_NEW]):
            chat.read()

    def _add(self, folder: str, path: str) -> None:
        if path not in self.chats:
            self.chats[path] = GeminiChat(path, self._places[folder])

    def _with_more(self) -> list[GeminiChat]:
        """Chats that are not read to their end, and living ones that are not read from their beginning."""
        return [one for one in self.chats.values() if one.has_more and (one.has_process or one.tail.has_more)]

    def _by_session(self) -> dict[str, GeminiChat]:
        """The newest file of each session, without those of subagents."""
        ordered = sorted(self.chats.values(), key=lambda chat: (chat.modified_at, chat.path))
        return {chat.id: chat for chat in ordered if chat.was_read and not chat.reducer.helper}

    def _sighting(self, chat: GeminiChat, owner: SessionProcess, context: ReadContext) -> Sighting:
        if owner.alive is not True and chat.has_process and chat.was_read:
            chat.read()  # the last records may have come together with its end
        chat.has_process = owner.alive is True
        process = owner.process
        if process is not None and owner.alive:
            chat.options, chat.alive_at = start_options(process.argv), context.now
        now = context.now if owner.alive is not False else chat.alive_at
        evidence = chat.reducer.evidence(chat.options, owner.alive, now)
        if owner.alive is False and evidence is not None and evidence.state == RUNNING and chat.failure is None:
            chat.failure = find_failure(evidence.at, chat.reducer.prompt)
        if owner.alive is False and evidence is not None and evidence.state == RUNNING and chat.failure:
            says = "its error file in the folder for temporary files"
            evidence = Evidence("transcript", FAILED, evidence.at, says, chat.failure)
        if process is not None and owner.alive:
            evidence = self._at_its_start(chat, process, evidence, context) or evidence
        return Sighting(
            cli=self.cli,
            session=chat.id,
            cwd=chat.cwd,
            pid=process.pid if process else None,
            pid_started=process.started if process else None,
            alive=owner.alive,
            last_alive=None if owner.alive is not False else fields.at(chat.modified_at),
            evidence=(evidence,) if evidence else (),
            facts=chat.reducer.facts(),
            events=chat.take_events(),
            process_began=owner.began,
            tied=owner.tied,
        )

    def _at_its_start(
        self, chat: GeminiChat, process: AgentProcess, newest: Evidence | None, context: ReadContext
    ) -> Evidence | None:
        """Return what is known of the dialog for the folder's trust, until the process has recorded something."""
        if chat.options.headless or (newest is not None and process.ran_at(fields.seconds(newest.at) or 0.0)):
            return None
        others = [one for one in context.processes_of(self.cli) if one is not process and one.cwd == process.cwd]
        return self._trust.evidence(process, fields.seconds(chat.reducer.started_at), others)


def find_failure(since: str, prompt: str | None) -> str:
    """Return why a headless request failed: Gemini leaves the reason in a file of its own; empty without one.

    The file has no session, but the prompt; a file of before the prompt, or of another user, is of another session.
    """
    begun, folder = fields.seconds(since) or 0.0, tempfile.gettempdir()
    try:
        names = [name for name in os.listdir(folder) if name.startswith(_FAILURE)]
    except OSError:
        return ""
    for name in sorted(names, reverse=True)[:_MOST_FAILURES]:
        found = _failure(os.path.join(folder, name), begun, prompt)
        if found is not None:
            return found
    return ""


def _failure(path: str, since: float, prompt: str | None) -> str | None:
    try:
        with open(path, "rb", opener=_without_links) as file:
            stat = os.fstat(file.fileno())
            data = file.read(_LONGEST_LIST) if stat.st_uid == os.getuid() and stat.st_mtime >= since - 1 else b""
    except OSError:
        return None
    whole = fields.record(data) or {}
    if not prompt or prompt not in _texts(whole.get("context")):
        return None
    return fields.one_line(fields.text(fields.table(whole.get("error")).get("message"), 500)) or "the request failed"


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _texts(context: object) -> list[str]:
    """The texts of the messages that were sent."""
    parts = [part for one in fields.rows(context) for part in fields.rows(fields.table(one).get("parts"))]
    return [text for part in parts if (text := fields.text(fields.table(part).get("text"))) is not None]


def _trace(chat: GeminiChat, switched_at: float | None) -> SessionTrace:
    """`switched_at`: when a person last typed a command there that leads to another session; None if that is not known."""
    began = fields.seconds(chat.reducer.started_at)
    stays = switched_at is not None and began is not None and switched_at < began
    recorded = fields.seconds(chat.reducer.updated_at) if chat.reducer.annotated else None
    updated = recorded or chat.modified_at
    return SessionTrace(chat.id, chat.cwd, updated, began, frozenset({chat.id}), left=False if stays else None)


class TypedCommands:
    """`logs.json` of one project: what was typed into its terminals."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(os.path.dirname(folder), "logs.json")
        self._stamp: FileStamp | None = None
        self._switched_at: float | None = 0.0

    def switched_at(self) -> float | None:
        """When a command that leads to another session was typed last; 0 for never, None if it is not readable."""
        stamp = foreign_files.stamp_of(self._path)
        if stamp != self._stamp:
            self._stamp, self._switched_at = stamp, self._read()
        return self._switched_at

    def _read(self) -> float | None:
        try:
            with open(self._path, "rb") as file:
                typed = [fields.table(one) for one in fields.rows(json.loads(file.read(_LONGEST_LIST)))]
        except FileNotFoundError:
            return 0.0
        except (OSError, ValueError, RecursionError):
            return None
        found = [one for one in typed if str(one.get("message", "")).split(" ")[0] in _LEADS_ELSEWHERE]
        return max((fields.seconds(fields.moment(one.get("timestamp"))) or 0.0 for one in found), default=0.0)


def _resumes(words: Sequence[str]) -> bool:
    return _has_option(words, ("-r", "--resume"))


def start_options(words: Sequence[str]) -> StartOptions:
    """Return what a command line rules out."""
    pairs = set(pairwise(words))
    unasking = not {"-y", "--yolo", "--approval-mode=yolo"}.isdisjoint(words) or ("--approval-mode", "yolo") in pairs
    prompt = _has_option(words, ("-p", "--prompt", "--prompt="))
    return StartOptions(prompt and not _has_option(words, ("-i", "--prompt-interactive")), unasking)


def _has_option(words: Iterable[str], options: tuple[str, ...]) -> bool:
    return any(word in options or (word.startswith("--") and word.split("=")[0] in options) for word in words)


# -- projects: chats do not record the folder they were held in -------------------------------------------------------

_LONGEST_LIST = 4 << 20
_MOST_CHATS = 200  # of one project, the newest
_CHAT_ENDINGS = (".jsonl", ".json")


def gemini_folder(context: ReadContext) -> str:
    """`~/.gemini`, or where GEMINI_CLI_HOME moves it."""
    return os.path.realpath(os.path.join(context.env.get("GEMINI_CLI_HOME") or context.home, ".gemini"))


def chat_folders(home: str, context: ReadContext) -> dict[str, str]:
    """Folder of chats -> the folder they were held in, for the watched worktrees. Versions of 2025 name it by a hash."""
    found = {os.path.join(home, "tmp", _path_hash(root), "chats"): root for root in context.roots}
    for path, name in _projects(home).items():
        if context.is_watched(path):
            found[os.path.join(home, "tmp", name, "chats")] = os.path.realpath(path)
    return {folder: cwd for folder, cwd in found.items() if os.path.isdir(folder)}


def _path_hash(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _projects(home: str) -> dict[str, str]:
    """path -> short name."""
    try:
        with open(os.path.join(home, "projects.json"), "rb") as file:
            listed = fields.record(file.read(_LONGEST_LIST)) or {}
    except OSError:
        return {}
    return {
        path: name
        for path, name in fields.table(listed.get("projects")).items()
        if isinstance(name, str) and name and "/" not in name and name not in (".", "..")
    }


def recent_chats(folders: Iterable[str], since: float) -> Iterator[tuple[str, str]]:
    """(folder, path) of chats modified since then; of a chat in both formats, the newer format."""
    for folder in folders:
        found: dict[str, tuple[float, str]] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if is_chat(entry.name) and (at := entry.stat().st_mtime) >= since:
                        stem = os.path.splitext(entry.name)[0]
                        found[stem] = max(found.get(stem, (0.0, "")), (at, entry.path), key=_format_and_age)
        except OSError:
            continue
        yield from ((folder, path) for _, path in sorted(found.values(), reverse=True)[:_MOST_CHATS])


def _format_and_age(chat: tuple[float, str]) -> tuple[bool, float]:
    return chat[1].endswith(".jsonl"), chat[0]


def is_chat(name: str) -> bool:
    return name.startswith("session-") and name.endswith(_CHAT_ENDINGS)
