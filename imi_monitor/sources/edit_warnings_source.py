"""Edit warnings: a file for each repository that says which worktree has changed which files and not merged them.

The hook program `imi-edits.sh` reads it before an agent edits a file. It is text, so that a shell program can read it:

    imi-edits 1 SECONDS tell|block       when it was true last; what is older than ten seconds says nothing
    root <tab> PATH <tab> WORKTREE       where the worktrees are
    <tab> FILE <tab> WORKTREE <tab> SESSION <tab> TEXT

SESSION is that of an agent that has the file in hand: every other session sees the line, in the same worktree too. Without one,
the agents of all other worktrees see it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from imi_monitor import paths
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.files_in_hand import list_in_hand, what_it_writes
from imi_monitor.model.snapshot import Key
from imi_monitor.model.text import safe
from imi_monitor.sources.hints import AgentsRead, ChangedFilesRead, Hint, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.sources.timers import PollTimer

_PAUSE = 4.0  # seconds between two confirmations
_SHORTEST_PAUSE = 1.0  # between two changes of the files
_MOST_LINES = 20_000  # of one file
_HEAD = "imi-edits 1 {at:>12} {mode}\n"
_UNWRITABLE = frozenset('\t\n\r"\\')  # in names; the shell program cannot match them


class EditWarningsSource(Source):
    """Writes the files; its readings are for hooks, not for the snapshot."""

    name = "edit warnings"

    def __init__(self, *, blocks: bool) -> None:
        self._mode = "block" if blocks else "tell"
        self._entries: tuple[RosterEntry, ...] = ()
        self._files: Mapping[Key, frozenset[str]] = {}
        self._agents: Sequence[Agent] = ()
        self._written: dict[str, str] = {}  # common_dir -> the text below the head
        self._changed = True
        self._basis: object = None  # what the texts were made of
        self._confirmed_at = float("-inf")
        self._timer = PollTimer(_PAUSE)

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._entries = entries
            case ChangedFilesRead(files):
                self._files = files
            case AgentsRead(agents):
                self._agents = agents
            case _:
                return
        self._changed = True
        self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            try:
                self._write()
                receiver.set_healthy(self.name)
            except OSError as error:
                receiver.set_failure(self.name, "the edit warnings", str(error))
            written_at = time.monotonic()
            if await self._timer.wait():
                await asyncio.sleep(written_at + _SHORTEST_PAUSE - time.monotonic())

    def _write(self) -> None:
        basis = self._read_basis() if self._changed else self._basis
        texts = self._written if basis == self._basis else self._texts()
        due = not self._changed or time.monotonic() - self._confirmed_at >= _PAUSE
        self._changed = False
        for common_dir, text in texts.items():
            place = file_of(common_dir)
            head = _HEAD.format(at=times.clock() // 1_000_000_000, mode=self._mode)
            if self._written.get(common_dir) != text or (due and not _confirm(place, head)):
                os.makedirs(paths.edits_dir(), mode=0o700, exist_ok=True)
                _replace(place, head + text)
        for gone in self._written.keys() - texts.keys():
            with suppress(FileNotFoundError):
                os.unlink(file_of(gone))
        self._written, self._basis = dict(texts), basis
        self._confirmed_at = time.monotonic() if due else self._confirmed_at

    def _read_basis(self) -> object:
        """Return only what the warnings depend on: agents change often, the files they write seldom."""
        agents = [
            (one.key, one.truth.ended, one.name, one.session, one.cwd, what_it_writes(one)) for one in self._agents
        ]
        return self._entries, self._files, agents

    def _texts(self) -> dict[str, str]:
        found: dict[str, list[RosterEntry]] = {}
        for entry in self._entries:
            if not entry.missing:
                found.setdefault(entry.common_dir, []).append(entry)
        return {common_dir: self._text(entries) for common_dir, entries in found.items() if len(entries) > 1}

    def _text(self, entries: Sequence[RosterEntry]) -> str:
        lines = [f"root\t{one.path}\t{one.key.worktree}\n" for one in entries if _UNWRITABLE.isdisjoint(one.path)]
        agents: dict[Key | None, list[Agent]] = {}
        for agent in self._agents:
            if not agent.truth.ended:
                agents.setdefault(agent.key, []).append(agent)
        for entry in entries:
            here = agents.get(entry.key, ())
            changed = self._files.get(entry.key, frozenset())
            in_hand = dict(list_in_hand(here, entry.key, entry.path, changed))
            who = f" ({', '.join(sorted({one.name for one in here}))})" if here else ""
            for path in sorted(changed):
                said = f"{entry.key.worktree}{who} has changed {path} and not merged it"
                lines.append(_line(path, entry.key.worktree, "", said))
            for path, agent in sorted(in_hand.items()):
                said = f"{agent.name} has {path} in hand in {entry.key.worktree}"
                lines.append(_line(path, entry.key.worktree, agent.session or "", said))
        return "".join(lines[:_MOST_LINES])


def make_source(context: SourceContext) -> EditWarningsSource | None:
    if not context.settings.flag("collisions.tell") or context.read_only:
        return None
    return EditWarningsSource(blocks=context.settings.flag("collisions.block"))


def file_of(common_dir: str) -> str:
    """The file of a repository."""
    return os.path.join(paths.edits_dir(), f"{hashlib.sha256(os.fsencode(common_dir)).hexdigest()[:16]}.tsv")


def _line(path: str, worktree: str, session: str, text: str) -> str:
    if _UNWRITABLE & set(path) or _UNWRITABLE & set(session) or not path.isprintable():
        return ""
    said = safe(text, 300).translate({ord(sign): "'" for sign in _UNWRITABLE})
    return f"\t{path}\t{worktree}\t{session}\t{said}\n"


def _confirm(place: str, head: str) -> bool:
    """Write a new head, which has the length of the one that is there; False if the file is gone."""
    try:
        handle = os.open(place, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        os.pwrite(handle, head.encode(), 0)
    finally:
        os.close(handle)
    return True


def _replace(place: str, text: str) -> None:
    temporary = f"{place}.{os.getpid()}~"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(handle, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.rename(temporary, place)
