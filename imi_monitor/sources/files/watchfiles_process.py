"""The child process of WatchfilesWatcher: `python -m imi_monitor.sources.files.watchfiles_process`.

With ten thousand folders watchfiles holds the GIL for half a second to build a watcher, which would freeze the
dashboard. Messages are length-prefixed `marshal` on stdin and stdout; the process ends with its stdin.
"""

from __future__ import annotations

import errno
import marshal
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from imi_monitor.sources.files.watcher import NO_INSTANCE, NO_WATCHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

STEP = 0.01  # seconds between two polls of the watchers while events come
_IDLE_STEP = 0.05  # seconds between two polls without events: the polls are the whole cost of idling
_IDLE_AFTER = 10.0  # seconds without events
_DRAIN = 0.1  # seconds in which a replaced watcher still delivers its events
_LATE = 0.5  # seconds beyond the pause after which a poll may have missed events
_MOST_PER_POLL = 4000  # events; with more, or with more than
_MOST_PER_SECOND = 100_000  # for each second since the last poll, the kernel's queue may have been full
_MERGE_ABOVE = 24  # watchers; below it the parent asks for the merge when no folders are added any more


Folders = tuple[list[str], list[str]]  # (watched with everything below, watched without subfolders)


def send(stream: BinaryIO, message: tuple[Any, ...]) -> None:
    data = marshal.dumps(message)
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[Any, ...] | None:
    """Return the next message, (verb, *arguments), or None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    message: tuple[Any, ...] = marshal.loads(stream.read(struct.unpack("<I", head)[0]))
    return message


class _NoEventsError(Exception):
    """Ends `RustNotify.watch` when it has no events."""


class _StopAfterTwoSteps:
    """A stop event that makes `RustNotify.watch` return after two steps, in which it hands out its events.

    Without events it raises, because the normal exit drops events that arrive at that moment.
    """

    def __init__(self) -> None:
        self._steps = 0

    def is_set(self) -> bool:
        self._steps += 1
        if self._steps > 2:
            raise _NoEventsError
        return False


def _make_notify(folders: list[str], recursive: bool) -> RustNotify:
    from watchfiles._rust_notify import RustNotify

    def make(paths: list[str], deep: bool, skip: bool) -> RustNotify:
        return RustNotify(paths, False, False, 0, deep, skip)

    try:
        try:
            return make(folders, recursive, False)
        except (FileNotFoundError, PermissionError):  # a folder was removed since, or is unreadable
            made = make([path for path in folders if os.path.isdir(path)], recursive, True)
        # skipping unreadable folders, the library also skips those beyond the kernel's limit: is there one more watch?
        try:
            make(["/"], False, False).close()
        except BaseException:
            made.close()
            raise
    except RuntimeError as error:  # no inotify instance is left
        raise OSError(errno.EMFILE, str(error)) from error
    return made


class FolderWatcher:
    """One RustNotify that never blocks, so that one thread can poll many of them."""

    def __init__(self, folders: list[str], recursive: bool) -> None:
        """OSError when the kernel refuses a watch."""
        self._notify = _make_notify(folders, recursive)
        self._ends_at: float | None = None

    def retire(self) -> None:
        """Deliver the last events and end: another watcher has these folders now."""
        self._ends_at = time.monotonic() + _DRAIN

    @property
    def retired(self) -> bool:
        return self._ends_at is not None

    @property
    def drained(self) -> bool:
        return self._ends_at is not None and time.monotonic() > self._ends_at

    def take_events(self) -> set[tuple[int, str]]:
        """Return the events since the last call."""
        try:
            found = self._notify.watch(0, 0, 0, _StopAfterTwoSteps())
        except _NoEventsError:
            return set()
        return found if isinstance(found, set) else set()

    def close(self) -> None:
        self._notify.close()


class WatchfilesProcess:
    """Keeps the wanted folders and the watchers for them. Its public methods are the verbs of the parent's messages."""

    def __init__(self, send: Callable[[tuple[Any, ...]], None]) -> None:
        self._send = send
        self._changing = threading.Lock()
        self._wanted: dict[str, Folders] = {}
        self._watchers: list[FolderWatcher] = []
        self._retired: list[FolderWatcher] = []
        self._built_at = 0.0

    @property
    def watchers(self) -> tuple[int, int]:
        """How many watchers are active, and how many are retired and not closed yet."""
        return len(self._watchers), len(self._retired)

    def close(self) -> None:
        for watcher in [*self._watchers, *self._retired]:
            self._close(watcher)

    def poll_forever(self) -> None:
        busy_at = time.monotonic()
        while True:
            before = time.monotonic()
            pause = STEP if before - busy_at < _IDLE_AFTER else _IDLE_STEP
            time.sleep(pause)
            # while a watcher is built this thread does not run either: that alone does not mean a full queue
            slept = time.monotonic() - before
            if slept > pause + _LATE and self._built_at < before:
                self._send(("lost", "imi was paused for a while"))
            if self.poll(min(_MOST_PER_POLL, slept * _MOST_PER_SECOND)):
                busy_at = time.monotonic()

    def poll(self, most: float = _MOST_PER_POLL) -> bool:
        """Send the events of all watchers; True if there were any. `most` or more of one watcher count as a loss."""
        with self._changing:
            watchers = [*self._watchers, *self._retired]
        busy = False
        for watcher in watchers:
            drained = watcher.drained  # read first: a poll follows the end of the time
            try:
                found = watcher.take_events()
            except Exception as error:  # noqa: BLE001  for example a file name that is not UTF-8; it stays broken
                self._close(watcher)
                if not watcher.retired:
                    self._send(("broken", str(error)))
                continue
            if found:
                busy = True
                self._send(("events", [(int(kind), path) for kind, path in found]))
                if len(found) >= most:
                    self._send(("lost", "the kernel's event queue may have been full"))
            if drained:
                self._close(watcher)
        return busy

    def _close(self, watcher: FolderWatcher) -> None:
        with self._changing:
            for each in (self._watchers, self._retired):
                if watcher in each:
                    each.remove(watcher)
        watcher.close()

    def add(self, added: dict[str, Folders], number: int = 0) -> None:
        """Watch more roots: all at once, or if the kernel refuses that, as many as it allows."""
        self._wanted.update(added)
        if self._watch(added) is None:
            self._send(("ready", list(added), number))
            return
        for name, folders in added.items():
            problem = self._add_watchers({name: folders})
            if problem is None:
                self._send(("ready", [name], number))
            else:
                self._refuse(name, problem)

    def _watch(self, added: dict[str, Folders]) -> str | None:
        """Watch more folders; returns the reason why the kernel refuses it."""
        if not self._watchers or len(self._watchers) > _MERGE_ABOVE:
            return self._rebuild()
        return self._add_watchers(added)

    def _refuse(self, name: str, problem: str) -> None:
        self._wanted.pop(name, None)
        self._send(("full", [name], problem))

    def extend(self, name: str, deep: list[str], flat: list[str]) -> None:
        """Watch folders that appeared below a watched root."""
        before = self._wanted.get(name)
        if before is not None:
            self._wanted[name] = (before[0] + deep, before[1] + flat)
            problem = self._watch({name: (deep, flat)})
            if problem is not None:
                self._refuse(name, problem)

    def drop(self, name: str) -> None:
        if self._wanted.pop(name, None) is not None:
            self._rebuild()

    def merge(self) -> None:
        """Replace many small watchers by two, which cost less at rest."""
        if len(self._watchers) > 2:
            self._rebuild()

    def rebuild(self) -> None:
        """Build all watchers anew after one broke."""
        problem = self._rebuild()
        for name in list(self._wanted) if problem is not None else ():
            self._refuse(name, problem or "")

    def _rebuild(self) -> str | None:
        """Build new watchers before the old ones are retired, so that nothing is missed in between.

        Returns the reason if the kernel refuses that; the old ones then stay.
        """
        try:
            made = self._build(self._wanted)
        except OSError as error:
            return _reason(error)
        with self._changing:
            old, self._watchers = self._watchers, made
            self._retired += old
        for watcher in old:
            watcher.retire()
        return None

    def _add_watchers(self, wanted: dict[str, Folders]) -> str | None:
        try:
            made = self._build(wanted)
        except OSError as error:
            return _reason(error)
        with self._changing:
            self._watchers += made
        return None

    def _build(self, wanted: dict[str, Folders]) -> list[FolderWatcher]:
        made: list[FolderWatcher] = []
        try:
            for index, recursive in ((0, True), (1, False)):
                folders = [path for pair in wanted.values() for path in pair[index] if os.path.isdir(path)]
                if folders:
                    made.append(FolderWatcher(folders, recursive))
        except OSError:
            for watcher in made:
                watcher.close()
            raise
        finally:
            self._built_at = time.monotonic()
        return made


def _reason(error: OSError) -> str:
    if not sys.platform.startswith("linux"):
        return f"the kernel's limit is reached: {error}"
    return NO_INSTANCE if error.errno == errno.EMFILE else NO_WATCHES


def main() -> None:
    lock = threading.Lock()

    def send_to_parent(message: tuple[Any, ...]) -> None:
        with lock:
            try:
                send(sys.stdout.buffer, message)
            except OSError:
                os._exit(0)  # the parent is gone

    process = WatchfilesProcess(send_to_parent)
    threading.Thread(target=process.poll_forever, daemon=True).start()
    while (message := receive(sys.stdin.buffer)) is not None:
        getattr(process, message[0])(*message[1:])
    os._exit(0)


if __name__ == "__main__":
    main()
