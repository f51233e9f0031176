"""Raw events -> changes: an atomic save is one change, a checkout of thousands is one line, a temporary file is nothing.

A write to a file that is there is told at once. What makes, removes or renames waits a moment, because it is often one
half of something: a save by rename, a move, a file that is gone again. Then what counts is what was there before and what
is there now.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from imi_monitor.model.change import Change, Kind
from imi_monitor.sources.files.watcher import FileEvent

GRACE = 0.025  # seconds that one half waits for the other
QUIET = 1.0  # a file written again and again is one line a second
MANY = 100  # more files than this at once are one line with a count
_MOST_REMEMBERED = 5000
_MOST_AT_ONCE = 2000  # files of a storm that are looked at before the loop gets its turn again


@dataclass
class _Path:
    """What happened to one path while it waited."""

    existed: bool | None  # before; None: it was written over and nobody knows
    since: float
    origin: str | None = None


@dataclass
class ChangeCoalescer:
    """The waiting room of one worktree. `ignored` leaves a path out, `known` says whether git tracks it."""

    root: str
    repo: str
    worktree: str
    ignored: Callable[[str], bool]
    known: Callable[[str], bool]
    _waiting: dict[str, _Path] = field(default_factory=dict)
    _moved: dict[int, str] = field(default_factory=dict)
    _told: dict[str, tuple[float, Kind]] = field(default_factory=dict)

    def add(self, batch: Sequence[FileEvent], now: float, at: str) -> list[Change]:
        """Put events in; gives the changes that need not wait."""
        ready = []
        for event in batch:
            path = os.path.relpath(event.path, self.root) if event.path != self.root else ""
            if event.is_dir or not path or path.startswith(".."):
                continue
            if event.kind == "modified" and path not in self._waiting:
                if not self.ignored(path) and self._is_news(path, "modified", now):
                    ready.append(self._change("modified", path, at))
            else:
                self._wait(path, event, now)
        return self._bundle(ready, at)

    @property
    def waiting_since(self) -> float | None:
        """When `flush` has something to do; None when nothing waits."""
        first = next(iter(self._waiting.values()), None)  # the oldest: they stand in the order they came
        return None if first is None else first.since

    def flush(self, now: float, at: str, *, grace: float = GRACE) -> list[Change]:
        """The changes whose wait is over."""
        over: dict[str, _Path] = {}
        for path, entry in self._waiting.items():
            if entry.since + grace > now or len(over) >= _MOST_AT_ONCE:
                break
            over[path] = entry
        for path in over:
            del self._waiting[path]
        if not self._waiting:
            self._moved.clear()
        gone_to = {entry.origin for entry in over.values() if entry.origin}
        changes = [
            change
            for path, entry in over.items()
            if not (path in gone_to and not self._stands(path))
            and (change := self._resolve(path, entry, over, now, at))
        ]
        return self._bundle(changes, at)

    def _wait(self, path: str, event: FileEvent, now: float) -> None:
        entry = self._waiting.get(path)
        if entry is None:
            before = {"created": False, "deleted": True, "moved_from": True, "modified": True}.get(event.kind)
            entry = self._waiting[path] = _Path(before, now)
        if event.kind == "moved_from" and event.cookie:
            self._moved[event.cookie] = path
        elif event.kind == "moved_to":
            entry.origin = self._moved.pop(event.cookie, None)

    def _resolve(self, path: str, entry: _Path, over: dict[str, _Path], now: float, at: str) -> Change | None:
        kind = self._kind(path, entry, over)
        if kind is None or self.ignored(path) or not self._is_news(path, kind, now):
            return None
        return self._change(kind, path, at, origin=entry.origin if kind == "renamed" else None)

    def _kind(self, path: str, entry: _Path, over: dict[str, _Path]) -> Kind | None:
        """What became of the path between before and now; None when it is as it was: not there."""
        existed = self.known(path) if entry.existed is None else entry.existed
        if not self._stands(path):
            return "deleted" if existed else None
        source = over.get(entry.origin) if entry.origin else None
        if source is not None and source.existed and not existed and not self._stands(entry.origin or ""):
            return "renamed"
        return "modified" if existed else "created"

    def _is_news(self, path: str, kind: Kind, now: float) -> bool:
        """Whether this was not told within the last second; a write to a file that was just told of is no news."""
        at, last = self._told.pop(path, (-QUIET, kind))
        repeated = now - at < QUIET and (kind == last or (kind == "modified" and last != "deleted"))
        self._told[path] = (at, last) if repeated else (now, kind)
        while len(self._told) > _MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        return not repeated

    def _stands(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self.root, path))

    def _change(self, kind: Kind, path: str, at: str, origin: str | None = None) -> Change:
        size = None if kind == "deleted" else _size(os.path.join(self.root, path))
        return Change(self.repo, self.worktree, kind, path, at, size=size, origin=origin)

    def _bundle(self, changes: list[Change], at: str) -> list[Change]:
        """Many of a kind become one line with a count and the folder they share."""
        if len(changes) <= MANY:
            return changes
        kinds: dict[Kind, list[Change]] = {}
        for change in changes:
            kinds.setdefault(change.kind, []).append(change)
        return [self._bundled(kind, group, at) for kind, group in kinds.items()]

    def _bundled(self, kind: Kind, group: list[Change], at: str) -> Change:
        if len(group) == 1:
            return group[0]
        return Change(self.repo, self.worktree, kind, common_folder(c.path for c in group), at, count=len(group))


def common_folder(paths: Iterable[str]) -> str:
    """The deepest folder that holds all of them; `.` for the worktree itself."""
    folders = [path.rpartition("/")[0] for path in paths]
    shared = os.path.commonpath(folders) if folders and all(folders) else ""
    return shared or "."


def _size(path: str) -> int | None:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None
