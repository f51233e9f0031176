"""The child process of the watchfiles back end: `python -m imi_monitor.sources.files.watchfiles_process`.

Building a watcher holds Python's lock for half a second with ten thousand folders, which would freeze the dashboard;
so it is done here, and only changes travel. Speaks length-prefixed `marshal` on stdin and stdout, and ends with stdin.
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
import threading
import time
from typing import Any, BinaryIO

STEP = 0.01  # seconds between two looks while something happens
_IDLE_STEP = 0.05  # while nothing does: the looks themselves are all that idling costs
_IDLE_AFTER = 10.0  # seconds
_LAST_WORDS = 0.1  # seconds in which a watcher that is not wanted any more still tells what it has seen
_LATE = 0.5  # seconds beyond its pause after which a look may have missed something
_MOST_AT_ONCE = 4000  # changes in one look, and
_MOST_A_SECOND = 100_000  # so many of each second since the last: the kernel's queue may have been full
_MERGE_ABOVE = 24  # watchers beside the first pair; the parent has them merged as soon as nothing is added any more


def send(stream: BinaryIO, message: tuple[Any, ...]) -> None:
    data = marshal.dumps(message)
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[Any, ...] | None:
    """The next message, a verb and what goes with it; None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    message: tuple[Any, ...] = marshal.loads(stream.read(struct.unpack("<I", head)[0]))
    return message


class _Nothing(Exception):
    """Nothing has been seen."""


class _Glance:
    """What `watch` asks at each of its steps whether to stop. In two it hands out what has been seen; when that is
    nothing it would go on for ever. An exception ends that, and unless its own ways out leaves alone what comes just then."""

    def __init__(self) -> None:
        self._steps = 0

    def is_set(self) -> bool:
        self._steps += 1
        if self._steps > 2:
            raise _Nothing
        return False


class FolderWatcher:
    """One RustNotify, which waits for nothing: many are looked at in one waking, which is what idling costs."""

    def __init__(self, folders: list[str], recursive: bool) -> None:
        from watchfiles._rust_notify import RustNotify

        self._notify = RustNotify(folders, False, False, 0, recursive, True)
        self._ends_at: float | None = None

    def retire(self) -> None:
        """Somebody else follows these folders now. What was seen just before is still told."""
        self._ends_at = time.monotonic() + _LAST_WORDS

    @property
    def retired(self) -> bool:
        return self._ends_at is not None

    @property
    def over(self) -> bool:
        return self._ends_at is not None and time.monotonic() > self._ends_at

    def seen(self) -> set[tuple[int, str]]:
        """What was since the last time."""
        try:
            found = self._notify.watch(0, 0, 0, _Glance())
        except _Nothing:
            return set()
        return found if isinstance(found, set) else set()

    def close(self) -> None:
        self._notify.close()


class WatchfilesProcess:
    """All folders wanted now, and the watchers that follow them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._changing = threading.Lock()
        self._wanted: dict[str, tuple[list[str], list[str]]] = {}  # name -> (with all below, alone)
        self._watchers: list[FolderWatcher] = []
        self._retired: list[FolderWatcher] = []
        self._built_at = 0.0

    def look(self) -> None:
        """Tell what the watchers see, for ever."""
        busy_at = time.monotonic()
        while True:
            before = time.monotonic()
            pause = STEP if before - busy_at < _IDLE_AFTER else _IDLE_STEP
            time.sleep(pause)
            # building a watcher lets nobody else run, which is no reason to think that the kernel's queue was full
            slept = time.monotonic() - before
            if slept > pause + _LATE and self._built_at < before:
                self.tell(("lost", "we did not run for a while"))
            if self.look_once(min(_MOST_AT_ONCE, slept * _MOST_A_SECOND)):
                busy_at = time.monotonic()

    def look_once(self, most: float = _MOST_AT_ONCE) -> bool:
        """Whether any of them saw something; `most` is how much may be believed to be all that happened."""
        with self._changing:
            watchers = [*self._watchers, *self._retired]
        busy = False
        for watcher in watchers:
            over = watcher.over  # asked first: so that there is one more look
            try:
                found = watcher.seen()
            except Exception as error:  # noqa: BLE001  a name that is no UTF-8 kills it for good; whatever it is, say so
                self._let_go(watcher)
                if not watcher.retired:
                    self.tell(("broken", str(error)))
                continue
            if found:
                busy = True
                self.tell(("events", [(int(kind), path) for kind, path in found]))
                if len(found) >= most:
                    self.tell(("lost", "more happened at once than is kept"))
            if over:
                self._let_go(watcher)
        return busy

    def _let_go(self, watcher: FolderWatcher) -> None:
        with self._changing:
            for each in (self._watchers, self._retired):
                if watcher in each:
                    each.remove(watcher)
        watcher.close()

    def tell(self, message: tuple[Any, ...]) -> None:
        with self._lock:
            try:
                send(self._out, message)
            except OSError:
                os._exit(0)  # nobody listens any more

    def add(self, added: dict[str, tuple[list[str], list[str]]], number: int = 0) -> None:
        self._wanted.update(added)
        if not self._watchers or len(self._watchers) > _MERGE_ABOVE:
            self.rebuild()
        else:
            self._more(added)
        self.tell(("ready", list(added), number))

    def extend(self, name: str, deep: list[str], flat: list[str]) -> None:
        """Folders that appeared below something already followed."""
        before = self._wanted.get(name)
        if before is not None:
            self._wanted[name] = (before[0] + deep, before[1] + flat)
            if len(self._watchers) > _MERGE_ABOVE:
                self.rebuild()
            else:
                self._more({name: (deep, flat)})

    def drop(self, name: str) -> None:
        if self._wanted.pop(name, None) is not None:
            self.rebuild()

    def merge(self) -> None:
        """Nothing is added any more: as few watchers as can be."""
        if len(self._watchers) > 2:
            self.rebuild()

    def rebuild(self) -> None:
        """New watchers first, then the old ones go: nothing is missed in between."""
        made = self._build(self._wanted)
        with self._changing:
            old, self._watchers = self._watchers, made
            self._retired += old
        for watcher in old:
            watcher.retire()

    def _more(self, wanted: dict[str, tuple[list[str], list[str]]]) -> None:
        made = self._build(wanted)
        with self._changing:
            self._watchers += made

    def _build(self, wanted: dict[str, tuple[list[str], list[str]]]) -> list[FolderWatcher]:
        made = []
        for index, recursive in ((0, True), (1, False)):
            folders = [path for pair in wanted.values() for path in pair[index] if os.path.isdir(path)]
            if folders:
                try:
                    made.append(FolderWatcher(folders, recursive))
                except OSError as error:
                    self.tell(("full", str(error)))
        self._built_at = time.monotonic()
        return made


def main() -> None:
    source, child = sys.stdin.buffer, WatchfilesProcess(sys.stdout.buffer)
    threading.Thread(target=child.look, daemon=True).start()
    while (message := receive(source)) is not None:
        getattr(child, message[0])(*message[1:])
    os._exit(0)


if __name__ == "__main__":
    main()
