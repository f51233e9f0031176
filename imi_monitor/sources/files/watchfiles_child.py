"""The child process of the watchfiles back end: `python -m imi_monitor.sources.files.watchfiles_child`.

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
from collections.abc import Callable
from typing import Any, BinaryIO

STEP_MS = 10  # between two looks while something happens
_IDLE_STEP_MS = 20  # while nothing does: the looks themselves are all that idling costs
_IDLE_AFTER = 10.0  # seconds
DEBOUNCE_MS = 20
_TIMEOUT_MS = 5_000  # of one look
_LAST_STEPS = 5  # of a watcher that is not wanted any more: what it has seen is told within three
_LATE = 0.5  # seconds beyond its plan after which a look may have missed something
_MOST_AT_ONCE = 4000  # changes in one look: the kernel's queue may have been full
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


class Watcher:
    """One RustNotify and the thread that looks at it."""

    def __init__(self, folders: list[str], recursive: bool, tell: Callable[[tuple[Any, ...]], None]) -> None:
        from watchfiles._rust_notify import RustNotify

        self._notify = RustNotify(folders, False, False, 0, recursive, True)
        self._tell = tell
        self._retired = False
        self._steps = 0  # of the present look, since the retirement
        threading.Thread(target=self._look, daemon=True).start()

    def retire(self) -> None:
        """Somebody else follows these folders now. What was seen just before is still told: ending at once would drop
        what waits for its companions in the present look."""
        self._retired = True

    def is_set(self) -> bool:
        """Asked at each step of a look: whether to end it, with nothing to tell."""
        self._steps += self._retired
        return self._steps >= _LAST_STEPS

    def _look(self) -> None:
        busy_at = time.monotonic()
        while True:
            before = time.monotonic()
            step = STEP_MS if before - busy_at < _IDLE_AFTER else _IDLE_STEP_MS
            self._steps = 0
            try:
                found = self._notify.watch(DEBOUNCE_MS, step, _TIMEOUT_MS, self)
            except Exception as error:  # noqa: BLE001  a name that is no UTF-8 kills it for good; whatever it is, say so
                if not self._retired:
                    self._tell(("broken", str(error)))
                return
            if isinstance(found, set):
                busy_at = time.monotonic()
                self._tell(("events", [(int(kind), path) for kind, path in found]))
                if len(found) >= _MOST_AT_ONCE:
                    self._tell(("lost", "more happened at once than is kept"))
            elif found == "stop":
                self._notify.close()
                return
            elif time.monotonic() - before > _TIMEOUT_MS / 1000 + _LATE:
                self._tell(("lost", "we did not run for a while"))


class Child:
    """All folders wanted now, and the watchers that follow them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._wanted: dict[str, tuple[list[str], list[str]]] = {}  # name -> (with all below, alone)
        self._watchers: list[Watcher] = []

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
            self._watchers += self._build(added)
        self.tell(("ready", list(added), number))

    def extend(self, name: str, deep: list[str], flat: list[str]) -> None:
        """Folders that appeared below something already followed."""
        before = self._wanted.get(name)
        if before is not None:
            self._wanted[name] = (before[0] + deep, before[1] + flat)
            if len(self._watchers) > _MERGE_ABOVE:
                self.rebuild()
            else:
                self._watchers += self._build({name: (deep, flat)})

    def drop(self, name: str) -> None:
        if self._wanted.pop(name, None) is not None:
            self.rebuild()

    def rebuild(self) -> None:
        """New watchers first, then the old ones go: nothing is missed in between."""
        old, self._watchers = self._watchers, self._build(self._wanted)
        for watcher in old:
            watcher.retire()

    def _build(self, wanted: dict[str, tuple[list[str], list[str]]]) -> list[Watcher]:
        made = []
        for index, recursive in ((0, True), (1, False)):
            folders = [path for pair in wanted.values() for path in pair[index] if os.path.isdir(path)]
            if folders:
                try:
                    made.append(Watcher(folders, recursive, self.tell))
                except OSError as error:
                    self.tell(("full", str(error)))
        return made


def main() -> None:
    source, child = sys.stdin.buffer, Child(sys.stdout.buffer)
    while (message := receive(source)) is not None:
        getattr(child, message[0])(*message[1:])
    os._exit(0)


if __name__ == "__main__":
    main()
