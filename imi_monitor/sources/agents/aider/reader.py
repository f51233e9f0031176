"""aider: `.aider.chat.history.md` in the top folder of each worktree, and its process.

One file holds all chats that were ever held there, each begun by a mark; only the last one is looked at. Lines carry no
time: what is read while it is written happened when the file moved, what was there before happened at its prompt.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, AgentEvent, SessionFacts
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.aider.reducer import MARK, AiderReducer
from imi_monitor.sources.agents.foreign_files import Tail
from imi_monitor.sources.agents.session_owners import SessionActivity, SessionOwners, SessionProcess

NAME = ".aider.chat.history.md"
_DAY = 86_400.0
_BLOCK = 1 << 20
_FARTHEST = 64  # blocks in which the mark of the last chat is looked for
_MOST_INPUT = 64 << 10


def make() -> AgentReader:
    return AiderReader()


class AiderReader:
    cli = "aider"

    def __init__(self) -> None:
        self._files: dict[str, ChatHistory] = {}
        self._owners = SessionOwners()
        self.unread = False

    def folders(self, world: ReadContext) -> Sequence[str]:
        """Of the chats that are open: a change there is a change of the worktree's top folder."""
        live = {os.path.dirname(one.path) for one in self._files.values() if one.open}
        return [folder for folder in sorted(live) if os.path.isdir(folder)]

    def look(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        processes = world.processes_of(self.cli)
        paths = {f"{root}/{NAME}": root for root in world.roots} | _named(processes, world)
        self._files = {path: self._files.get(path) or ChatHistory(path, root) for path, root in paths.items()}
        since = min([world.now - _DAY, *(process.began_at for process in processes)])
        known = [one for one in self._files.values() if one.read(since)]
        self.unread = any(one.behind for one in known)
        work = [SessionActivity(one.session, one.root, one.moved_at) for one in known]
        lives = self._owners.lives(work, [_at_the_top(process, world) for process in processes], world.now)
        return [one.sighting(lives[one.session], world) for one in known]


class ChatHistory:
    """One file."""

    def __init__(self, path: str, root: str) -> None:
        self.path = path
        self.root = root
        self.session = ""  # a name of the last chat: it has none itself
        self.open = False
        self.moved_at = 0.0
        self._tail: Tail | None = None
        self._mark: foreign_files.FileStamp | None = None
        self._course: AiderReducer | None = None
        self._lines = 0
        self._news: list[AgentEvent] = []
        self._turn_at: str | None = None
        self._completed: str | None = None  # the turn that was last told to be over

    @property
    def behind(self) -> bool:
        return self._tail is not None and self._tail.behind

    def read(self, since: float) -> bool:
        """Whether there is a chat that moved since then."""
        mark = foreign_files.stamp_of(self.path)
        if mark is None:
            self._mark, self._tail, self._course = None, None, None
            return False
        if mark.moved_at < since:
            return False
        if mark != self._mark or self.behind:
            first = self._tail is None
            self._mark, self.moved_at = mark, mark.moved_at
            self._take(mark.size, first)
        return self._course is not None

    def _take(self, size: int, first: bool) -> None:
        if self._tail is None:
            begin = _last_mark(self.path, size)
            if begin is None:
                return
            self._tail = Tail(self.path, window=size - begin + 1)
        lines = self._tail.new()
        if self._tail.begun_anew:
            self._tail, self._course = None, None
            self._take(os.path.getsize(self.path), True)
            return
        asked = _asked(os.path.dirname(self.path)) if any(line.startswith(b"####") for line in lines) else {}
        at = times.stamp(datetime.fromtimestamp(self.moved_at).astimezone())
        for line in lines:
            self._line(line, asked, None if first else at)

    def _line(self, line: bytes, asked: Mapping[str, str], at: str | None) -> None:
        if line.startswith(MARK):
            self._course = AiderReducer(self.root, line.removeprefix(MARK).decode("utf-8", "replace").strip()[:40])
            self.session = _name(self.path, self._course.started)
            self._lines, self._turn_at = 0, None
            began = self._course.started_at or fields.at(self.moved_at)
            self._news.append(AgentEvent("started", f"{self.session}:started", began))
        course = self._course
        if course is None or line.startswith(MARK):
            return
        self._lines += 1
        before = course.prompts
        moment = at or self._turn_at or course.started_at or fields.at(self.moved_at)
        found = list(course.line(line, f"{self.session}:{self._lines}", moment))
        if course.prompts != before:
            self._turn_at = asked.get(course.prompt or "") or moment
            found = [replace(one, at=self._turn_at) if one.kind == "prompt" else one for one in found]
        self._news += found

    def sighting(self, life: SessionProcess, world: ReadContext) -> Sighting:
        course = self._course
        assert course is not None
        self.open = life.alive is True
        at = fields.at(self.moved_at)
        told = course.evidence(world.now - self.moved_at, at, life.alive is False)
        turn = f"{self.session}:{course.prompts}:completed"
        if told.state == COMPLETED and course.prompts and turn != self._completed:
            self._completed = turn
            self._news.append(AgentEvent("completed", turn, at))
        news, self._news = tuple(self._news), []
        return Sighting(
            cli="aider",
            session=self.session,
            cwd=life.process.cwd if life.process else self.root,
            pid=life.process.pid if life.process else None,
            pid_started=life.process.started if life.process else None,
            alive=life.alive,
            last_alive=None if life.until is None else fields.at(life.until),
            evidence=(told,),
            facts=self._facts(course),
            news=news,
        )

    def _facts(self, course: AiderReducer) -> SessionFacts:
        tokens = course.tokens
        sent = tokens.get("sent")
        return SessionFacts(
            version=course.version,
            model=course.model,
            started_at=course.started_at,
            ended_at=fields.at(self.moved_at) if course.left else None,
            turn_at=self._turn_at,
            prompt=course.prompt,
            last_message=course.last_message,
            tokens_in=None if sent is None else max(0, sent - tokens.get("cache hit", 0)),
            tokens_out=tokens.get("received"),
            tokens_cached=tokens.get("cache hit"),
            cost_usd=course.cost,
            files=tuple(course.files),
        )


def _name(path: str, started: str) -> str:
    place = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    return f"{place}-{''.join(each for each in started if each.isdigit())}"


def _named(processes: Sequence[AgentProcess], world: ReadContext) -> dict[str, str]:
    """Histories that lie elsewhere, because their process was told so."""
    found = {}
    for process in processes:
        root = world.root_of_real(process.cwd)
        for word, following in zip(process.argv, (*process.argv[1:], ""), strict=True):
            given = following if word == "--chat-history-file" else word.partition("--chat-history-file=")[2]
            if given and root is not None:
                found[os.path.join(process.cwd, given)] = root
    return found


def _at_the_top(process: AgentProcess, world: ReadContext) -> AgentProcess:
    """aider works on the whole worktree, wherever in it it was started."""
    return replace(process, cwd=world.root_of_real(process.cwd) or process.cwd)


def _last_mark(path: str, size: int) -> int | None:
    """Where the last chat begins: looked for from the end, block by block."""
    needle = b"\n" + MARK
    try:
        with open(path, "rb") as file:
            for number in range(1, _FARTHEST + 1):
                begin = max(0, size - number * _BLOCK)
                file.seek(begin)
                found = file.read(_BLOCK + len(needle)).rfind(needle)
                if found >= 0:
                    return begin + found + 1
                if begin == 0:
                    file.seek(0)
                    return 0 if file.read(len(MARK)) == MARK else None
    except OSError:
        return None
    return None


def _asked(folder: str) -> dict[str, str]:
    """First line of a prompt -> when it was typed, as the history of inputs tells it."""
    path = f"{folder}/.aider.input.history"
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _MOST_INPUT))
            lines = file.read(_MOST_INPUT).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    found: dict[str, str] = {}
    moment: str | None = None
    for line in lines:
        if line.startswith("# "):
            moment = _local(line[2:])
        elif line.startswith("+") and moment is not None:
            found[line[1:].strip()] = moment
            moment = None
    return found


def _local(text: str) -> str | None:
    try:
        return times.stamp(datetime.fromisoformat(text.strip()).astimezone())
    except (ValueError, OverflowError, OSError):
        return None
