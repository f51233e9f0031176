"""Waits for the next round of the follower, and ends the wait as soon as a process of a run ends or a file is put into a folder.

Such files are the requests of walled agents and what the keeper records of a process. The output is read at each round, because
many agents write all the time.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress

from imi_monitor import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from inotify_simple import INotify

    Woken = set[str | int]

_MASK = 0x80 | 0x01000000 | 0x02000000  # a file got its name by a rename; only folders, no links


class RunWatch:
    """Watches folders by inotify and processes by pidfds; where the system has neither, all waits for the round."""

    def __init__(self) -> None:
        self._queue: INotify | None = None
        self._poll = select.poll()
        self._folders: dict[str, int] = {}
        self._processes: dict[int, int] = {}  # pid -> pidfd; -1: its end is known
        self._ended: Woken = set()

    def wait(self, seconds: float, folders: Iterable[str], processes: Mapping[int, str | None]) -> Woken:
        """The folders that got a file and the processes that ended, after at most so many seconds.

        `processes`: start times by pid. Each end is returned once.
        """
        self._follow_folders(set(folders))
        self._follow_processes(processes)
        if not self._ended and not self._folders and not any(one >= 0 for one in self._processes.values()):
            time.sleep(seconds)
            return set()
        ready = {number for number, _ in self._poll.poll(0 if self._ended else seconds * 1000)}
        woken, self._ended = self._ended, set()
        for pid in [pid for pid, number in self._processes.items() if number in ready]:
            self._forget(pid)
            self._processes[pid] = -1
            woken.add(pid)
        if self._queue is not None and self._queue.fileno() in ready:
            changed = {event.wd for event in self._queue.read(timeout=0)}
            woken |= {folder for folder, number in self._folders.items() if number in changed}
        return woken

    def _follow_folders(self, wanted: set[str]) -> None:
        for folder in self._folders.keys() - wanted:
            watch = self._folders.pop(folder)
            with suppress(OSError):  # it was deleted, and its watch with it
                self._made().rm_watch(watch)
        for folder in wanted - self._folders.keys():
            with suppress(OSError, ImportError):  # no more watches, or another system
                self._folders[folder] = self._made().add_watch(folder, _MASK)

    def _follow_processes(self, wanted: Mapping[int, str | None]) -> None:
        for pid in self._processes.keys() - wanted.keys():
            self._forget(pid)
            del self._processes[pid]
        for pid in wanted.keys() - self._processes.keys():
            self._processes[pid] = self._open(pid, wanted[pid])

    def _open(self, pid: int, started: str | None) -> int:
        """A descriptor that can be read once the process has ended; -1 without one."""
        opened = -1
        try:
            opened = os.pidfd_open(pid)
        except ProcessLookupError:
            self._ended.add(pid)
        except (OSError, AttributeError):  # no more descriptors, or another system
            return -1
        if opened >= 0 and started is not None and host.start_time(pid) not in (started, None):
            os.close(opened)
            self._ended.add(pid)  # another process has its number
            return -1
        if opened >= 0:
            self._poll.register(opened, select.POLLIN)
        return opened

    def _forget(self, pid: int) -> None:
        opened = self._processes[pid]
        if opened >= 0:
            self._poll.unregister(opened)
            os.close(opened)

    def _made(self) -> INotify:
        if self._queue is None:
            from inotify_simple import INotify

            self._queue = INotify(nonblocking=True)
            self._poll.register(self._queue.fileno(), select.POLLIN)
        return self._queue

    def close(self) -> None:
        for pid in self._processes:
            self._forget(pid)
        self._processes = {}
        if self._queue is not None:
            self._queue.close()
