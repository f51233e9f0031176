"""The hooks that wait for an answer from imi: questions of agents that imi did not start, in the folder `asks`.

A question is two files: `q.NAME` holds the event as in the spool, `p.NAME` is the named pipe that takes the answer. The name has
the process of the agent and that of the hook. A question is open while its hook waits and the spool has no event that closes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from imi_monitor import paths
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.hooks import records
from imi_monitor.sources.agents.hooks.records import ASKS, NOTIFICATION, HookRecord
from imi_monitor.sources.agents.hooks.reducer import HookReducer

FOLDER = "asks"
_QUESTION, _PIPE = "q.", "p."
_SCRIPT = b"imi-answer.sh"
_AT_ONCE = 10_000_000_000  # ns between the files of two hooks of one event, at most


@dataclass(frozen=True, slots=True)
class WaitingHook:
    """One hook that waits. `payload` is what the agent gave it."""

    id: str
    folder: str
    record: HookRecord
    payload: dict[str, object]

    @property
    def alive(self) -> bool:
        """Whether the hook still waits; its process number may be that of another program by now."""
        pid = self.id.split(".")[1]
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return _SCRIPT in file.read(4096)
        except OSError:
            return not os.path.isdir("/proc/self") and _runs(int(pid))

    def send(self, line: bytes) -> bool:
        """Give the hook its last line; False if it does not wait any more."""
        try:
            handle = os.open(self._file(_PIPE), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            return os.write(handle, line + b"\n") == len(line) + 1
        except OSError:
            return False
        finally:
            os.close(handle)

    def release(self) -> None:
        """Let the hook leave without an answer; what a killed one left is removed."""
        if not self.send(b""):
            for name in (_PIPE, _QUESTION):
                with suppress(OSError):
                    os.unlink(self._file(name))

    def _file(self, kind: str) -> str:
        return os.path.join(self.folder, kind + self.id)


def folder_of(hooks: str | None = None) -> str:
    return os.path.join(hooks or paths.hooks_dir(), FOLDER)


def find(folder: str) -> list[WaitingHook]:
    """The hooks that wait, the first one first; those of this host alone."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(_QUESTION)]
    except OSError:
        return []
    found = [one for name in names if (one := _read(folder, name)) is not None]
    return sorted(found, key=lambda one: one.record.order)


def _read(folder: str, name: str) -> WaitingHook | None:
    words = name.split(".")
    if len(words) < 3 or not words[2].isdecimal():
        return None
    try:
        handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            written, data = os.fstat(handle).st_mtime_ns, file.read()
    except OSError:
        return None
    record = records.parse(name, written, data)
    if record is None or record.kind != ASKS or record.host not in ("", os.uname().nodename):
        return None
    return WaitingHook(name.removeprefix(_QUESTION), folder, record, fields.record(records.body_of(data)) or {})


def match(waiting: Iterable[WaitingHook], reducer: HookReducer, seen: Iterable[HookRecord]) -> WaitingHook | None:
    """The waiting hook of the first open question of a session; hooks whose question is closed leave.

    `seen`: the records of the session. A hook whose event is not among them yet is too young to be judged.
    """
    asked = [one for one in seen if one.kind == ASKS and one.ask != NOTIFICATION]
    open_now = {one.name for one in reducer.asks.values()}
    found: list[WaitingHook] = []
    for one in waiting:
        same = [each for each in asked if _is_same(one.record, each)]
        if same and min(same, key=lambda each: abs(each.ns - one.record.ns)).name not in open_now:
            one.release()
        elif same:
            found.append(one)
    return found[0] if found else None


def is_open(one: WaitingHook) -> bool:
    """Whether the hook waits, and no later event of its session in the spool has closed its question."""
    reducer = HookReducer()
    reducer.add(one.record)
    for each in sorted(_later(one), key=lambda each: each.order):
        reducer.add(each)
    return bool(reducer.asks) and one.alive


def _later(one: WaitingHook) -> Iterator[HookRecord]:
    """The later events of its session, except other questions."""
    spool = os.path.join(os.path.dirname(one.folder), "spool")
    with suppress(OSError), os.scandir(spool) as entries:
        for entry in entries:
            if not entry.name.startswith("e.") or entry.stat(follow_symlinks=False).st_mtime_ns <= one.record.ns:
                continue
            with open(os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                record = records.parse(entry.name, entry.stat().st_mtime_ns, file.read())
            if record is not None and record.session == one.record.session and record.kind != ASKS:
                yield record


def _is_same(one: HookRecord, other: HookRecord) -> bool:
    """Whether both hooks were given the same event."""
    if one.ask is not None or other.ask is not None:
        return one.ask == other.ask
    tools = one.tool.name if one.tool else None, other.tool.name if other.tool else None
    near = abs(one.ns - other.ns) < _AT_ONCE
    return near and tools[0] == tools[1] and (one.helper, one.inputs) == (other.helper, other.inputs)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
