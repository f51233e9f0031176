"""aider: `.aider.chat.history.md` in the top folder of each worktree, and its process.

One file holds all chats ever held there, each with a start line; only the last one is read. Lines carry no time: lines
read as they are written get the file's modification time, earlier lines the time of their prompt.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, AgentEvent, SessionFacts
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.aider.reducer import CHAT_START, AiderReducer
from imi_monitor.sources.agents.foreign_files import FileStamp, Tail, stamp_of
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace

NAME = ".aider.chat.history.md"
_DAY = 86_400.0
_UNSEEN = 5.0  # seconds after a write in which its process may be an invisible one, such as one in a container
_BLOCK = 1 << 20
_MOST_BLOCKS = 64  # searched for the start of the last chat
_MOST_INPUT = 64 << 10

PROGRAM = AgentProgram("aider", ("/site-packages/aider/",))


def make() -> AgentReader:
    return AiderReader()


class AiderReader:
    cli = "aider"

    def __init__(self) -> None:
        self._files: dict[str, ChatHistory] = {}
        self._pairs = SessionPairs(unseen=_UNSEEN)
        self.has_more = False

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        """The folders of open chats."""
        live = {os.path.dirname(one.path) for one in self._files.values() if one.alive}
        return [folder for folder in sorted(live) if os.path.isdir(folder)]

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        processes = context.processes_of(self.cli)
        paths = {f"{root}/{NAME}": root for root in context.roots} | _given_histories(processes, context)
        self._files = {path: self._files.get(path) or ChatHistory(path, root) for path, root in paths.items()}
        since = min([context.now - _DAY, *(process.began_at for process in processes)])
        known = [one for one in self._files.values() if one.read(since)]
        self.has_more = any(one.has_more for one in known)
        traces = [one.trace() for one in known]
        found = self._pairs.find(traces, [_at_the_root(process, context) for process in processes], context.now)
        return [one.sighting(found[one.session], context) for one in known]


class ChatHistory:
    """One history file."""

    def __init__(self, path: str, root: str) -> None:
        self.path = path
        self.root = root
        self.session = ""  # an id for the last chat, made from its path and start
        self.alive = False
        self.modified_at = 0.0
        self._tail: Tail | None = None
        self._stamp: FileStamp | None = None
        self._reducer: AiderReducer | None = None
        self._lines = 0
        self._events: list[AgentEvent] = []
        self._turn_at: str | None = None
        self._completed: str | None = None  # the turn last reported as completed

    @property
    def has_more(self) -> bool:
        return self._tail is not None and self._tail.has_more

    def read(self, since: float) -> bool:
        """Read the new lines; return whether there is a chat that was modified since then."""
        stamp = stamp_of(self.path)
        if stamp is None:
            self._stamp, self._tail, self._reducer = None, None, None
            return False
        if stamp.modified_at < since:
            return False
        if stamp != self._stamp or self.has_more:
            first = self._tail is None
            self._stamp, self.modified_at = stamp, stamp.modified_at
            self._read_lines(stamp.size, first)
        return self._reducer is not None

    def _read_lines(self, size: int, first: bool) -> None:
        if self._tail is None:
            begin = _last_chat(self.path, size)
            if begin is None:
                return
            self._tail = Tail(self.path, window=size - begin + 1)
        lines = self._tail.read_new()
        if self._tail.restarted:
            self._tail, self._reducer = None, None
            self._read_lines(os.path.getsize(self.path), True)
            return
        prompt_times = (
            _prompt_times(os.path.dirname(self.path)) if any(line.startswith(b"####") for line in lines) else {}
        )
        at = fields.at(self.modified_at)
        for line in lines:
            self._add_line(line, prompt_times, None if first else at)

    def _add_line(self, line: bytes, prompt_times: Mapping[str, str], at: str | None) -> None:
        if line.startswith(CHAT_START):
            self._reducer = AiderReducer(self.root, _started(line))
            self.session = chat_id(self.path, line)
            self._lines, self._turn_at = 0, None
            began = self._reducer.started_at or fields.at(self.modified_at)
            self._events.append(AgentEvent("started", f"{self.session}:started", began))
        reducer = self._reducer
        if reducer is None or line.startswith(CHAT_START):
            return
        self._lines += 1
        before = reducer.prompts
        moment = at or self._turn_at or reducer.started_at or fields.at(self.modified_at)
        found = list(reducer.add(line, f"{self.session}:{self._lines}", moment))
        if reducer.prompts != before:
            self._turn_at = prompt_times.get(reducer.prompt or "") or moment
            found = [replace(one, at=self._turn_at) if one.kind == "prompt" else one for one in found]
        self._events += found

    def trace(self) -> SessionTrace:
        began = fields.seconds(self._reducer.started_at) if self._reducer is not None else None
        return SessionTrace(self.session, self.root, self.modified_at, began)

    def sighting(self, owner: SessionProcess, context: ReadContext) -> Sighting:
        reducer = self._reducer
        assert reducer is not None
        self.alive = owner.alive is True
        at = fields.at(self.modified_at)
        evidence = reducer.evidence(fields.quiet(context.now, self.modified_at), at, owner.alive is False)
        turn = f"{self.session}:{reducer.prompts}:completed"
        if evidence.state == COMPLETED and reducer.prompts and turn != self._completed:
            self._completed = turn
            self._events.append(AgentEvent("completed", turn, at))
        events, self._events = tuple(self._events), []
        return Sighting(
            cli="aider",
            session=self.session,
            cwd=owner.process.cwd if owner.process else self.root,
            pid=owner.process.pid if owner.process else None,
            pid_started=owner.process.started if owner.process else None,
            alive=owner.alive,
            last_alive=None if owner.until is None else fields.at(owner.until),
            evidence=(evidence,),
            facts=self._facts(reducer),
            events=events,
            process_began=owner.began,
            tied=owner.tied,
        )

    def _facts(self, reducer: AiderReducer) -> SessionFacts:
        ended = fields.at(self.modified_at) if reducer.left else None
        return replace(reducer.facts(), ended_at=ended, turn_at=self._turn_at)


def chat_id(path: str, line: bytes) -> str:
    """The id of the chat in this file that begins with this line."""
    place = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    return f"{place}-{''.join(each for each in _started(line) if each.isdigit())}"


def _started(line: bytes) -> str:
    return line.removeprefix(CHAT_START).decode("utf-8", "replace").strip()[:40]


def _given_histories(processes: Sequence[AgentProcess], context: ReadContext) -> dict[str, str]:
    """Histories elsewhere, given with `--chat-history-file`: path -> worktree."""
    found = {}
    for process in processes:
        root = context.root_of_real(process.cwd)
        for word, following in zip(process.argv, (*process.argv[1:], ""), strict=True):
            given = following if word == "--chat-history-file" else word.partition("--chat-history-file=")[2]
            if given and root is not None:
                found[os.path.join(process.cwd, given)] = root
    return found


def _at_the_root(process: AgentProcess, context: ReadContext) -> AgentProcess:
    """The process as if it ran in the top folder: aider works on the whole worktree, wherever it was started."""
    return replace(process, cwd=context.root_of_real(process.cwd) or process.cwd)


def _last_chat(path: str, size: int) -> int | None:
    """The position where the last chat begins, searched from the end block by block."""
    needle = b"\n" + CHAT_START
    try:
        with open(path, "rb") as file:
            for number in range(1, _MOST_BLOCKS + 1):
                begin = max(0, size - number * _BLOCK)
                file.seek(begin)
                found = file.read(_BLOCK + len(needle)).rfind(needle)
                if found >= 0:
                    return begin + found + 1
                if begin == 0:
                    file.seek(0)
                    return 0 if file.read(len(CHAT_START)) == CHAT_START else None
    except OSError:
        return None
    return None


def _prompt_times(folder: str) -> dict[str, str]:
    """First line of a prompt -> when it was typed, from the history of inputs."""
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
