"""Waits for the next round of the follower, and wakes it as soon as a walled agent has left a request."""

from __future__ import annotations

import select
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from inotify_simple import INotify

_MASK = 0x80 | 0x01000000 | 0x02000000  # a file got its name by a rename; only folders, no links


class RequestWatch:
    """Watches folders of requests by inotify; elsewhere a request waits for the round."""

    def __init__(self) -> None:
        self._queue: INotify | None = None
        self._watched: dict[str, int] = {}

    def wait(self, seconds: float, folders: Iterable[str]) -> bool:
        """Whether there may be a request, before so many seconds are over."""
        self._follow(set(folders))
        if self._queue is None or not self._watched:
            time.sleep(seconds)
            return False
        if not select.select([self._queue.fileno()], [], [], seconds)[0]:
            return False
        self._queue.read(timeout=0)
        return True

    def _follow(self, wanted: set[str]) -> None:
        for folder in self._watched.keys() - wanted:
            watch = self._watched.pop(folder)
            with suppress(OSError):  # it was deleted, and its watch with it
                self._made().rm_watch(watch)
        for folder in wanted - self._watched.keys():
            with suppress(OSError, ImportError):  # no more watches, or another system
                self._watched[folder] = self._made().add_watch(folder, _MASK)

    def _made(self) -> INotify:
        if self._queue is None:
            from inotify_simple import INotify

            self._queue = INotify(nonblocking=True)
        return self._queue

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
