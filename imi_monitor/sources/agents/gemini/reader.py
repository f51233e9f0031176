"""Gemini: its chats, by the folder they were held in, and its processes, one sighting a session.

Which folder belongs to which short name under `~/.gemini/tmp`: chats do not say where they were held.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.foreign_files import Tail
from imi_monitor.sources.agents.gemini.reducer import GeminiReducer, StartOptions
from imi_monitor.sources.agents.session_owners import ProcessHistory, SessionCandidate, match_newest

_DAY = 86400.0
_WINDOW = 64 << 10  # of a chat's end, which is read first: enough for its state
_MOST_NEW = 40  # chats that are read for the first time in one look
_LONGEST_CHAT = 32 << 20  # of the older format, which is one JSON document


class GeminiChat:
    """One file; `course` is what it says."""

    def __init__(self, path: str, cwd: str) -> None:
        self.path = path
        self.cwd = cwd
        self.heard_at = foreign_files.modified_at(path) or 0.0
        self.begun = False
        self.course = GeminiReducer(os.path.basename(path))
        self.unseen = ProcessHistory()
        self.manner = StartOptions()  # of the process that it had last
        self.alive_at = 0.0  # when that was seen
        self._tail = Tail(path, _WINDOW)
        self._before: GeminiReducer | None = None
        self._older_news: tuple[AgentEvent, ...] = ()

    def read(self) -> None:
        self.begun = True
        heard = foreign_files.modified_at(self.path)
        if heard is None:
            return
        self.heard_at = heard
        if self.path.endswith(".json"):
            self._read_document()
            return
        lines = self._tail.new()
        if self._tail.begun_anew:
            self.course, self._before = GeminiReducer(os.path.basename(self.path)), None
        for line in lines:
            self.course.line(line)
        if self._tail.has_older and self._before is None:
            self._before = GeminiReducer(os.path.basename(self.path))

    def _read_document(self) -> None:
        """Written whole each time: what is known already is not told again. Torn: the next look has it."""
        try:
            with open(self.path, "rb") as file:
                document = fields.record(file.read(_LONGEST_CHAT))
        except OSError:
            return
        if document is not None:
            self.course.record({key: value for key, value in document.items() if key != "messages"})
            self.course.messages(fields.rows(document.get("messages")))

    @property
    def unread(self) -> bool:
        return self.behind or self._before is not None

    @property
    def behind(self) -> bool:
        return self._tail.behind

    def read_older(self) -> None:
        if self._tail.behind:
            self.read()
        if self._before is None:
            return
        for line in self._tail.older():
            self._before.line(line)
        self._older_news += self._before.take_news()
        if not self._tail.has_older:
            self.course.inherit(self._before)
            self._before = None

    def take_news(self) -> tuple[AgentEvent, ...]:
        older, self._older_news = self._older_news, ()
        return older + self.course.take_news()

    @property
    def id(self) -> str:
        """Its session; the end of the file's name until its first line is read."""
        return self.course.session or os.path.splitext(os.path.basename(self.path))[0]


class GeminiReader:
    """See `Reader`."""

    cli = "gemini"

    def __init__(self) -> None:
        self.unread = False
        self.chats: dict[str, GeminiChat] = {}
        self._home = ""
        self._places: dict[str, str] = {}  # folder with chats -> where they were held
        self._roots: tuple[str, ...] = ()

    def folders(self, world: ReadContext) -> Sequence[str]:
        temporary = os.path.join(self._home, "tmp")
        parents = {os.path.dirname(folder) for folder in self._places}
        wanted = {self._home, temporary, *parents, *self._places}
        return sorted(folder for folder in wanted if os.path.isdir(folder))

    def look(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        self._settle_in(world, touched)
        self._find(world, touched)
        for chat in self._to_read_on()[:1]:
            chat.read_older()
        for path in [path for path, chat in self.chats.items() if chat.heard_at < world.now - _DAY]:
            del self.chats[path]
        shown = list(self._by_session().values())
        owners = match_newest([_held(chat) for chat in shown], world.processes_of(self.cli))
        found = [
            self._sighting(chat, owners.get(chat.id), world) for chat in shown if chat.id in owners or chat.course.at
        ]
        self.unread = bool(self._to_read_on()) or any(not one.begun for one in self.chats.values())
        return found

    def _settle_in(self, world: ReadContext, touched: frozenset[str] | None) -> None:
        home = base(world)
        moved = home != self._home or world.roots != self._roots
        if moved or touched is None or any(self._tells_places(path) for path in touched):
            self._home, self._roots = home, world.roots
            self._places = chat_folders(home, world)
            self.chats = {path: chat for path, chat in self.chats.items() if os.path.dirname(path) in self._places}

    def _tells_places(self, path: str) -> bool:
        """A new project, or the first chat of one."""
        above = os.path.dirname(path)
        return (
            path == os.path.join(self._home, "projects.json")
            or os.path.basename(path) == "chats"
            or (above == os.path.join(self._home, "tmp"))
        )

    def _find(self, world: ReadContext, touched: frozenset[str] | None) -> None:
        if touched is None or any(path in self._places or self._tells_places(path) for path in touched):
            for folder, path in recent_chats(self._places, world.now - _DAY):
                self._meet(folder, path)
        for path in touched or ():
            folder = os.path.dirname(path)
            if folder in self._places and is_chat(os.path.basename(path)):
                self._meet(folder, path)
        known = [chat for path, chat in self.chats.items() if chat.begun and (touched is None or path in touched)]
        new = sorted((chat for chat in self.chats.values() if not chat.begun), key=lambda chat: -chat.heard_at)
        for chat in (*known, *new[:_MOST_NEW]):
            chat.read()

    def _meet(self, folder: str, path: str) -> None:
        if path not in self.chats:
            self.chats[path] = GeminiChat(path, self._places[folder])

    def _to_read_on(self) -> list[GeminiChat]:
        """Living chats that are not read to their end, or from their beginning."""
        return [one for one in self.chats.values() if one.unread and (one.unseen.owned or one.behind)]

    def _by_session(self) -> dict[str, GeminiChat]:
        """The newest file of each session; subagents have their own and are none."""
        ordered = sorted(self.chats.values(), key=lambda chat: (chat.heard_at, chat.path))
        return {chat.id: chat for chat in ordered if chat.begun and not chat.course.helper}

    def _sighting(self, chat: GeminiChat, owner: AgentProcess | None, world: ReadContext) -> Sighting:
        if owner is None and chat.unseen.owned and chat.begun:
            chat.read()  # its last words may have come with its end
        alive: bool | None = True
        if owner is None:
            alive = chat.unseen.nobody(chat.heard_at)
        else:
            chat.unseen.owner_is(owner.pid, owner.started)
            chat.manner, chat.alive_at = _manner(owner), world.now
        evidence = chat.course.evidence(chat.manner, alive, world.now if alive is not False else chat.alive_at)
        return Sighting(
            cli=self.cli,
            session=chat.id,
            cwd=chat.cwd,
            pid=owner.pid if owner else None,
            pid_started=owner.started if owner else None,
            alive=alive,
            last_alive=None if alive is not False else fields.at(chat.heard_at),
            evidence=(evidence,) if evidence else (),
            facts=chat.course.facts(),
            news=chat.take_news(),
        )


def _held(chat: GeminiChat) -> SessionCandidate:
    return SessionCandidate(chat.id, chat.cwd, chat.heard_at, frozenset({chat.id}), chat.unseen.left_by(chat.heard_at))


def _manner(process: AgentProcess | None) -> StartOptions:
    """What its command line rules out."""
    words = process.argv if process else ()
    pairs = set(pairwise(words))
    unasking = not {"-y", "--yolo", "--approval-mode=yolo"}.isdisjoint(words) or ("--approval-mode", "yolo") in pairs
    headless = _any_starts(words, ("-p", "--prompt", "--prompt=")) and not _any_starts(
        words, ("-i", "--prompt-interactive")
    )
    return StartOptions(headless, unasking)


def _any_starts(words: Iterable[str], options: tuple[str, ...]) -> bool:
    return any(word in options or (word.startswith("--") and word.split("=")[0] in options) for word in words)


def make() -> GeminiReader:
    return GeminiReader()


_LONGEST = 4 << 20
_MOST_CHATS = 200  # of one project, the newest
CHAT_ENDINGS = (".jsonl", ".json")


def base(world: ReadContext) -> str:
    """`~/.gemini`; Gemini lets its home be moved."""
    return os.path.realpath(os.path.join(world.env.get("GEMINI_CLI_HOME") or world.home, ".gemini"))


def chat_folders(home: str, world: ReadContext) -> dict[str, str]:
    """Folders with chats of watched worktrees, and the folder that each was held in."""
    found = {os.path.join(home, "tmp", _hashed(root), "chats"): root for root in world.roots}  # as versions of 2025 did
    for path, name in _registered(home).items():
        if world.watched(path):
            found[os.path.join(home, "tmp", name, "chats")] = os.path.realpath(path)
    return {folder: cwd for folder, cwd in found.items() if os.path.isdir(folder)}


def _hashed(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _registered(home: str) -> dict[str, str]:
    """path -> short name."""
    try:
        with open(os.path.join(home, "projects.json"), "rb") as file:
            listed = fields.record(file.read(_LONGEST)) or {}
    except OSError:
        return {}
    return {
        path: name
        for path, name in fields.table(listed.get("projects")).items()
        if isinstance(name, str) and name and "/" not in name and name not in (".", "..")
    }


def recent_chats(folders: Iterable[str], since: float) -> Iterator[tuple[str, str]]:
    """(folder, path) of chats that moved since then; one that was moved to the newer format counts once."""
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
    return name.startswith("session-") and name.endswith(CHAT_ENDINGS)
