"""One back end for several listeners: a second one would cost another inotify instance, or another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot, WatchSink

_BETWEEN = "\0"


class Shared:
    """Hands out parts, each a back end of its own to whoever uses it. The real one lives as long as any of them."""

    def __init__(self, events: FileWatcher) -> None:
        self.events = events
        self._sinks: dict[str, WatchSink] = {}
        self.told = 0  # how often something was: as long as it is the same, no file has moved

    def part(self, name: str) -> Part:
        return Part(self, name)

    async def begin(self, part: str, sink: WatchSink) -> None:
        first = not self._sinks
        self._sinks[part] = sink
        if first:
            await self.events.start(self)

    async def end(self, part: str) -> None:
        if self._sinks.pop(part, None) is not None and not self._sinks:
            await self.events.close()

    # -- the sink of the real one -----------------------------------------------------------------------------------

    def touched(self, root: str, batch: Sequence[FileEvent]) -> None:
        self.told += 1
        part, _, name = root.partition(_BETWEEN)
        if part in self._sinks:
            self._sinks[part].touched(name, batch)

    def lost(self, root: str | None, why: str) -> None:
        self.told += 1
        part, _, name = (root or "").partition(_BETWEEN)
        for each, sink in list(self._sinks.items()):
            if root is None or each == part:
                sink.lost(None if root is None else name, why)

    def doubt(self) -> None:
        for sink in list(self._sinks.values()):
            sink.doubt()

    def gone(self, root: str, folder: str) -> None:
        part, _, name = root.partition(_BETWEEN)
        if part in self._sinks:
            self._sinks[part].gone(name, folder)

    def mode(self, root: str, how: str, why: str | None) -> None:
        part, _, name = root.partition(_BETWEEN)
        if part in self._sinks:
            self._sinks[part].mode(name, how, why)


class Part:
    """A back end whose roots are its own, whatever others call theirs."""

    def __init__(self, whole: Shared, part: str) -> None:
        self.name = whole.events.name
        self._whole = whole
        self._part = part
        self._roots: set[str] = set()

    async def start(self, sink: WatchSink) -> None:
        await self._whole.begin(self._part, sink)

    async def close(self) -> None:
        for name in list(self._roots):
            self.remove(name)
        await self._whole.end(self._part)

    async def add(self, root: WatchRoot) -> None:
        self._roots.add(root.name)
        await self._whole.events.add(replace(root, name=self._called(root.name)))

    def remove(self, name: str) -> None:
        if name in self._roots:
            self._roots.discard(name)
            self._whole.events.remove(self._called(name))

    def _called(self, name: str) -> str:
        return f"{self._part}{_BETWEEN}{name}"
