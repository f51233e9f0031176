"""Notices that a file system is mounted or unmounted (Linux), which causes no file event.

A watch belongs to an inode: after a mount it stays with the folder below the mount point, where nothing happens any more.
The kernel marks its list of mounts as changed; a poll object of its own waits for that mark, because the list itself is always
readable, which would keep the event loop awake.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Set

from imi_monitor import host


class MountWatch:
    """Calls back with the mount points that came, went or were replaced."""

    def __init__(self) -> None:
        self._list: int | None = None
        self._poll: select.epoll | None = None
        self._known: frozenset[tuple[str, str]] = frozenset()

    def start(self, changed: Callable[[Set[str]], None]) -> None:
        """Start to watch; without a list of mounts (not Linux) or a descriptor for it, no change is noticed."""
        try:
            self._list = os.open(host.MOUNT_LIST, os.O_RDONLY | os.O_CLOEXEC)
            self._poll = select.epoll()
            self._poll.register(self._list, select.EPOLLPRI)
        except (AttributeError, OSError):
            self.close()
            return
        self._known = host.mounts()
        asyncio.get_running_loop().add_reader(self._poll.fileno(), self._compare, changed)

    def close(self) -> None:
        if self._poll is not None:
            asyncio.get_running_loop().remove_reader(self._poll.fileno())
            self._poll.close()
            self._poll = None
        if self._list is not None:
            os.close(self._list)
            self._list = None

    def _compare(self, changed: Callable[[Set[str]], None]) -> None:
        if self._poll is not None:
            self._poll.poll(0)
        before, self._known = self._known, host.mounts()
        points = {point for _number, point in before ^ self._known}
        if points:
            changed(points)
