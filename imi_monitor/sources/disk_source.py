"""Disk use: measures worktrees in a process of the lowest priority, only while a person looks at it.

A worktree is measured when it is new or a refresh is requested, and some time after its files changed. All are measured
again after ten minutes, because nothing reports a change of ignored files.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from imi_monitor import disk_usage, programs
from imi_monitor.disk_usage import WorktreeFolders
from imi_monitor.git import spawn
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import DiskUse, Key
from imi_monitor.sources.hints import DiskUseWanted, FilesChanged, Hint, RefreshRequested, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext

_LONGEST_AGE = 600.0
_TIMEOUT = 3600.0


class DiskSource(Source):
    """Reports the field `disk` of the snapshot."""

    name = "disk"

    def __init__(self, *, grace: float = 0.5, shortest_pause: float = 10.0, time_share: float = 0.05) -> None:
        self._grace = grace  # seconds after it is wanted: a person who looks for another order passes this one
        self._shortest_pause = shortest_pause  # seconds between a measurement and the next one of changed worktrees
        self._time_share = time_share  # of the time is used for it while files change all the time
        self.measured = 0  # how many worktrees were measured, for tests
        self._entries: dict[Key, RosterEntry] = {}
        self._uses: dict[Key, DiskUse] = {}
        self._due: set[Key] = set()  # to be measured at once
        self._outdated: set[Key] = set()  # to be measured after the pause
        self._pause_ends = 0.0
        self._wanted = False
        self._stopping = False
        self._woken = asyncio.Event()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._set_roster(entries)
            case FilesChanged(key, _):
                if key in self._uses and key not in self._outdated:
                    self._outdated.add(key)
                    self._woken.set()
            case RefreshRequested():
                self._measure_all()
            case DiskUseWanted(wanted) if wanted != self._wanted:
                self._wanted = wanted
                self._measure_all()

    def _set_roster(self, entries: tuple[RosterEntry, ...]) -> None:
        before, self._entries = self._entries, {entry.key: entry for entry in entries}
        present = {entry.key for entry in entries if not entry.missing}
        moved = {key for key in present if key not in before or before[key].path != self._entries[key].path}
        self._uses = {key: use for key, use in self._uses.items() if key in present}
        self._due = (self._due & present) | moved
        self._outdated &= present
        self._woken.set()

    def _measure_all(self) -> None:
        self._due = {key for key, entry in self._entries.items() if not entry.missing}
        self._woken.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        try:
            while True:
                await self._wait_until_due()
                await self._measure(receiver)
        finally:
            self._stopping = True
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _wait_until_due(self) -> None:
        while True:
            pause = None
            if self._wanted:
                if self._due:
                    await asyncio.sleep(self._grace)
                    if self._wanted and self._due:
                        return
                    continue
                pause = self._pause_ends - time.monotonic() + (0.0 if self._outdated else _LONGEST_AGE)
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if pause is None else max(0.0, pause)):
                    await self._woken.wait()
                continue
            self._due |= self._outdated or self._entries.keys()  # the pause is over

    async def _measure(self, receiver: ReadingReceiver) -> None:
        """Measure what is due, and report each worktree when its size is known."""
        wanted = [entry for key, entry in self._entries.items() if key in self._due and not entry.missing]
        self._due.clear()
        self._outdated -= {entry.key for entry in wanted}
        measurement = _Measurement(self, receiver, wanted, asyncio.get_running_loop())
        started = time.monotonic()
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, measurement.run)
        except (ImiError, OSError) as error:
            self._outdated |= {entry.key for entry in wanted}
            receiver.set_failure(self.name, "disk use", str(error))
        else:
            receiver.set_healthy(self.name)
        took = time.monotonic() - started
        self._pause_ends = time.monotonic() + max(self._shortest_pause, took / self._time_share)

    def folders_of(self, entry: RosterEntry) -> WorktreeFolders:
        """The folders of a worktree; others that lie inside of it are not its own."""
        others = [one.path for one in self._entries.values() if one.common_dir == entry.common_dir and one is not entry]
        elsewhere = frozenset(map(os.path.realpath, [*others, entry.common_dir]))
        return WorktreeFolders(entry.path, None if entry.is_main else entry.admin_dir or None, elsewhere)

    def is_unwanted(self) -> bool:
        return self._stopping or not self._wanted

    def report(self, receiver: ReadingReceiver, use: DiskUse) -> None:
        """Report one more worktree."""
        self.measured += 1
        if use.key in self._entries:
            self._uses[use.key] = use
            receiver.update(disk=tuple(self._uses.values()))


class _Measurement:
    """One run of the process. Everything but its making happens in the thread of the pool."""

    def __init__(
        self, source: DiskSource, receiver: ReadingReceiver, entries: list[RosterEntry], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._source = source
        self._receiver = receiver
        self._entries = entries
        self._requests = disk_usage.requests([source.folders_of(entry) for entry in entries])
        self._loop = loop
        self._rest = b""

    def run(self) -> None:
        """Run it to its end; ImiError if it fails, and no error when it is no longer wanted."""
        done = spawn.spawn(
            [sys.executable, *disk_usage.MEASURE],
            env=programs.environment(),
            stdin=self._requests,
            timeout=_TIMEOUT,
            on_stdout=self._read,
            cancelled=self._source.is_unwanted,
        )
        if done.returncode and not done.cancelled:
            why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise ImiError(why or f"the process that measures ended with {done.returncode}", code="disk_use")

    def _read(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            number, size, unreadable = disk_usage.answer(line)
            use = DiskUse(self._entries[number].key, size, unreadable)
            with suppress(RuntimeError):  # the loop is closed: the dashboard exits
                self._loop.call_soon_threadsafe(self._source.report, self._receiver, use)


def make_source(_context: SourceContext) -> DiskSource:
    return DiskSource()
