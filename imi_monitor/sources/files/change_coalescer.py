"""Turns raw file events into changes: an atomic save is one change, a checkout of thousands of files is one line.

A write to an existing file is a change at once. Creations, deletions and renames wait a moment, because they are often
one half of something: a save by rename, a move, a temporary file. Then what existed before is compared with what exists.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from imi_monitor.model.change import GIT, Change, Kind
from imi_monitor.sources.files.checkout import Checkout
from imi_monitor.sources.files.watcher import FileEvent

GRACE = 0.025  # seconds that one half waits for the other
QUIET = 1.0  # a file that is written all the time is one line a second
MANY = 100  # more files than this at once are one line with a count
_MOST_REMEMBERED = 5000
_MOST_AT_ONCE = 2000  # files that one flush examines before the event loop runs again
_EXISTED_BEFORE = {"created": False, "deleted": True, "moved_from": True, "modified": True}


@dataclass
class _WaitingPath:
    """A path whose events wait for their other half."""

    existed: bool | None  # before the first event; None: not known
    since: float
    origin: str | None = None  # the path it was renamed from


@dataclass
class ChangeCoalescer:
    """The events of one worktree. `ignored` drops a path, `tracked` is true for a path that git has."""

    root: str
    repo: str
    worktree: str
    ignored: Callable[[str], bool]
    tracked: Callable[[str], bool]
    checkout: Checkout | None = None  # what git writes itself is counted and becomes one change
    by: str | None = None  # who makes all changes here; None: the owner of the claim at their time
    _checked_out: int = 0
    _checked_out_at: float = 0.0
    _waiting: dict[str, _WaitingPath] = field(default_factory=dict)  # oldest first
    _rename_sources: dict[int, str] = field(default_factory=dict)  # by cookie
    _reported: dict[str, tuple[float, Kind]] = field(default_factory=dict)

    def add(self, batch: Sequence[FileEvent], now: float, at: str) -> list[Change]:
        """Take events in, and return the changes that need not wait."""
        ready = []
        inside = f"{self.root.rstrip('/')}/"
        for event in batch:
            path = event.path.removeprefix(inside)
            if event.is_dir or path in (event.path, ".git"):  # the worktree itself, outside, or git's own
                continue
            if event.kind == "modified" and path not in self._waiting:
                if not self.ignored(path) and not self._is_gits(path, now) and self._is_new(path, "modified", now):
                    ready.append(self._change("modified", path, at))
            else:
                self._wait(path, event, now)
        return self._bundle(ready, at)

    @property
    def waiting_since(self) -> float | None:
        """When the oldest waiting event came; None: nothing waits."""
        first = next(iter(self._waiting.values()), None)
        if first is None and self._checked_out:
            return self._checked_out_at
        return None if first is None else first.since

    def flush(self, now: float, at: str, *, grace: float = GRACE) -> list[Change]:
        """Return the changes whose wait is over."""
        over: dict[str, _WaitingPath] = {}
        for path, waiting in self._waiting.items():
            if waiting.since + grace > now or len(over) >= _MOST_AT_ONCE:
                break
            over[path] = waiting
        for path in over:
            del self._waiting[path]
        if not self._waiting:
            self._rename_sources.clear()
        renamed_from = {waiting.origin for waiting in over.values() if waiting.origin}
        changes = [
            change
            for path, waiting in over.items()
            if not (path in renamed_from and not self._exists(path))
            and (change := self._resolve(path, waiting, over, now, at))
        ]
        return self._checkout_changes(now, at) + self._bundle(changes, at)

    def _is_gits(self, path: str, now: float) -> bool:
        """Count the file if git wrote it in a checkout."""
        if self.checkout is None or not self.checkout.wrote(path):
            return False
        self._checked_out, self._checked_out_at = self._checked_out + 1, now
        return True

    def _checkout_changes(self, now: float, at: str) -> list[Change]:
        """One change for all files of a checkout that is over."""
        number = self._checked_out
        if not number or self.checkout is None or self.checkout.is_under_way():
            self._checked_out_at = now
            return []
        self._checked_out = 0
        return [Change(self.repo, self.worktree, "created", ".", at, by=GIT, count=number)]

    def _wait(self, path: str, event: FileEvent, now: float) -> None:
        waiting = self._waiting.get(path)
        if waiting is None:
            waiting = self._waiting[path] = _WaitingPath(_EXISTED_BEFORE.get(event.kind), now)
        if event.kind == "moved_from" and event.cookie:
            self._rename_sources[event.cookie] = path
        elif event.kind == "moved_to":
            waiting.origin = self._rename_sources.pop(event.cookie, None)

    def _resolve(
        self, path: str, waiting: _WaitingPath, over: dict[str, _WaitingPath], now: float, at: str
    ) -> Change | None:
        kind = self._kind(path, waiting, over)
        if kind is None or self.ignored(path) or self._is_gits(path, now) or not self._is_new(path, kind, now):
            return None
        return self._change(kind, path, at, origin=waiting.origin if kind == "renamed" else None)

    def _kind(self, path: str, waiting: _WaitingPath, over: dict[str, _WaitingPath]) -> Kind | None:
        """Return what happened to the path in sum; None if it existed neither before nor now."""
        existed = self.tracked(path) if waiting.existed is None else waiting.existed
        if not self._exists(path):
            return "deleted" if existed else None
        origin = waiting.origin or ""
        source = over.get(origin)
        if source is not None and source.existed and not existed and not self._exists(origin):
            return "renamed"
        return "modified" if existed else "created"

    def _is_new(self, path: str, kind: Kind, now: float) -> bool:
        """False if the same change, or for a write any change but a deletion, was reported within the last second."""
        at, last = self._reported.pop(path, (-QUIET, kind))
        repeated = now - at < QUIET and (kind == last or (kind == "modified" and last != "deleted"))
        self._reported[path] = (at, last) if repeated else (now, kind)
        while len(self._reported) > _MOST_REMEMBERED:
            del self._reported[next(iter(self._reported))]
        return not repeated

    def _exists(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self.root, path))

    def _change(self, kind: Kind, path: str, at: str, origin: str | None = None) -> Change:
        size = None if kind == "deleted" else _size(os.path.join(self.root, path))
        return Change(self.repo, self.worktree, kind, path, at, size=size, by=self.by, origin=origin)

    def _bundle(self, changes: list[Change], at: str) -> list[Change]:
        """Replace many changes of a kind by one with a count and their common folder."""
        if len(changes) <= MANY:
            return changes
        kinds: dict[Kind, list[Change]] = {}
        for change in changes:
            kinds.setdefault(change.kind, []).append(change)
        return [group[0] if len(group) == 1 else self._change_of_many(kind, group, at) for kind, group in kinds.items()]

    def _change_of_many(self, kind: Kind, group: list[Change], at: str) -> Change:
        folder = common_folder(change.path for change in group)
        return Change(self.repo, self.worktree, kind, folder, at, by=self.by, count=len(group))


def common_folder(paths: Iterable[str]) -> str:
    """Return the deepest folder above all of them; `.` for the worktree itself."""
    folders = [path.rpartition("/")[0] for path in paths]
    return (os.path.commonpath(folders) if folders else "") or "."


def _size(path: str) -> int | None:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None
