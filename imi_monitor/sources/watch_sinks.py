"""What the events of each kind of watch root mean: changes of files, and hints for the other sources."""

from __future__ import annotations

import os
from collections.abc import Sequence

from imi_monitor.model.contained_names import REGISTRY_FILE
from imi_monitor.model.run_rows import workspace_key
from imi_monitor.sources.files.change_coalescer import ChangeCoalescer
from imi_monitor.sources.files.checkout import Checkout
from imi_monitor.sources.files.ignore_rules import IgnoreRules
from imi_monitor.sources.files.watcher import FileEvent, WatchSink
from imi_monitor.sources.hints import (
    FilesChanged,
    GitDirChanged,
    GitDirsUncertain,
    Hint,
    RefsChanged,
    RegistryWritten,
    SharedFilesChanged,
    WorktreeListChanged,
)
from imi_monitor.sources.runs_source import PARTS
from imi_monitor.sources.source import RosterEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.run import Run
    from imi_monitor.sources.changes_source import ChangesSource

# files of a git directory that are written all the time and mean nothing here
_NOISE = (".lock", "COMMIT_EDITMSG", "FETCH_HEAD", "gc.pid", "ORIG_HEAD~")


class _RootSink(WatchSink):
    """Has everything below the root read again when its watch begins or lost events."""

    def __init__(self, source: ChangesSource, root: str) -> None:
        self._source = source
        self._root = root

    def _send(self, *hints: Hint) -> None:
        for hint in hints:
            self._source.receiver.send_hint(hint)

    def read_again(self) -> None: ...

    def lost(self, why: str) -> None:
        self.read_again()

    def mode_changed(self, mode: str, why: str | None) -> None:
        if mode == "live":
            self.read_again()

    def gone(self, folder: str) -> None:
        self._source.watch_again(self._root)


class WorktreeSink(_RootSink):
    """The files of one worktree."""

    def __init__(
        self, source: ChangesSource, root: str, entry: RosterEntry, rules: IgnoreRules, *, new: bool = False
    ) -> None:
        super().__init__(source, root)
        self.entry = entry
        self.rules = rules
        self.mode = "starting"
        self.mode_reason: str | None = None
        self.coalescer = ChangeCoalescer(
            entry.path,
            entry.key.repo,
            entry.key.worktree,
            lambda path: self.rules.ignores(path, is_dir=False),
            lambda path: self.rules.tracks(path, is_dir=False),
            Checkout(entry.path, entry.admin_dir, new=new),
        )

    def has_moved(self, entry: RosterEntry) -> bool:
        return (self.entry.path, self.entry.admin_dir) != (entry.path, entry.admin_dir)

    def read_again(self) -> None:
        self.rules.forget()
        self._send(FilesChanged(self.entry.key, None))

    def events(self, batch: Sequence[FileEvent]) -> None:
        names = {os.path.basename(event.path) for event in batch}
        if ".gitignore" in names:
            self.rules.forget()
        self._source.coalesce(self.coalescer, batch)
        paths = {os.path.relpath(event.path, self.entry.path) for event in batch if not event.is_dir}
        folder_moved = any(event.is_dir and event.kind in ("moved_from", "moved_to", "deleted") for event in batch)
        if folder_moved or ".git" in paths or ".gitignore" in names:
            self._send(FilesChanged(self.entry.key, None))
        elif wanted := frozenset(path for path in paths if not self.rules.ignores(path, is_dir=False)):
            self._send(FilesChanged(self.entry.key, wanted))

    def lost(self, why: str) -> None:
        super().lost(why)
        self._send(WorktreeListChanged())

    def mode_changed(self, mode: str, why: str | None) -> None:
        super().mode_changed(mode, why)
        self.mode, self.mode_reason = mode, why
        self._source.receiver.set_watch_mode(self.entry.key, mode, why)
        self._source.report_mode(self._root, self)


class SharedFolderSink(_RootSink):
    """The shared files of a repository, below `home`: those below `sync/` are shown as changes, all lead to a sync."""

    def __init__(
        self, source: ChangesSource, root: str, home: str, folders: Sequence[str], common: str, repo: str
    ) -> None:
        super().__init__(source, root)
        self._common = common
        self._folders = tuple(os.path.join(home, folder) for folder in folders)
        self._shown = os.path.join(home, "sync")
        self.coalescer = ChangeCoalescer(self._shown, repo, "sync", lambda _path: False, lambda _path: False)

    def descend(self, path: str) -> bool:
        """True for a folder of shared files, those below it, and those that lead to it."""
        return self._is_shared(path) or any(folder.startswith(path + os.sep) for folder in self._folders)

    def _is_shared(self, path: str) -> bool:
        return any(path == folder or path.startswith(folder + os.sep) for folder in self._folders)

    def events(self, batch: Sequence[FileEvent]) -> None:
        shared = [event for event in batch if self._is_shared(event.path)]
        shown = [event for event in shared if event.path.startswith(self._shown + os.sep)]
        if shown:
            self._source.coalesce(self.coalescer, shown)
        if any(event.kind != "modified" for event in shared):
            self._send(SharedFilesChanged(self._common, seen=True))

    def read_again(self) -> None:
        self._send(SharedFilesChanged(self._common, seen=False))


class WorkspaceSink(_RootSink):
    """The files of a workspace outside of git: of a contained one, which is flat, or the parts of a run folder."""

    def __init__(self, source: ChangesSource, root: str, one: Run, *, shared: bool) -> None:
        super().__init__(source, root)
        self._is_flat = one.workspace is not None
        self.path = one.workspace or one.folder
        key, by = workspace_key("", one), None if shared else one.agent
        self.about = (key.worktree, by)
        self.coalescer = ChangeCoalescer(self.path, key.repo, key.worktree, self._is_hidden, lambda _path: False, by=by)

    def _is_hidden(self, path: str) -> bool:
        first, _, rest = path.partition(os.sep)
        if self._is_flat:
            return bool(rest) or first.startswith(".") or first == REGISTRY_FILE
        return first not in PARTS or not rest

    def descend(self, path: str) -> bool:
        return not self._is_flat and path[len(self.path) + 1 :].partition(os.sep)[0] in PARTS

    def events(self, batch: Sequence[FileEvent]) -> None:
        self._source.coalesce(self.coalescer, batch)


class GitDirSink(_RootSink):
    """The git directory of a repository and those of its worktrees, without subfolders."""

    def __init__(self, source: ChangesSource, root: str, common: str) -> None:
        super().__init__(source, root)
        self._common = common

    def events(self, batch: Sequence[FileEvent]) -> None:
        common, changed_dirs = self._common, set()
        for event in batch:
            folder, name = os.path.split(event.path)
            if name.endswith(_NOISE):
                continue
            if folder == os.path.join(common, "worktrees") or (folder == common and name == "worktrees"):
                self._send(WorktreeListChanged())
            elif folder == os.path.join(common, "info"):
                self._source.forget_ignore_rules(common)
            elif folder == common and name in ("packed-refs", "config"):
                self._send(RefsChanged(common))
            else:
                if name in ("HEAD", "gitdir", "locked"):
                    self._send(WorktreeListChanged())
                changed_dirs.add(folder)
        self._send(*map(GitDirChanged, changed_dirs))

    def read_again(self) -> None:
        self._send(GitDirsUncertain(self._common), RefsChanged(self._common), WorktreeListChanged())

    def uncertain(self) -> None:
        self._send(GitDirsUncertain(self._common))


class RefsSink(_RootSink):
    """The branches and tags of a repository."""

    def __init__(self, source: ChangesSource, root: str, common: str) -> None:
        super().__init__(source, root)
        self._common = common

    def events(self, batch: Sequence[FileEvent]) -> None:
        if any(not event.path.endswith(".lock") for event in batch):
            self._send(RefsChanged(self._common))

    def read_again(self) -> None:
        self._send(RefsChanged(self._common))


class RegistrySink(_RootSink):
    """The folder of the registry."""

    def __init__(self, source: ChangesSource, root: str, database: str) -> None:
        super().__init__(source, root)
        self._database = database

    def events(self, batch: Sequence[FileEvent]) -> None:
        if any(os.path.basename(event.path).startswith(self._database) for event in batch):
            self._send(RegistryWritten())

    def read_again(self) -> None:
        self._send(RegistryWritten())
