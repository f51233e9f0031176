"""What git ignores, decided without a git process: 2 ms a question would cost more than everything else together.

The rules are git's own files (`.gitignore` at every level, `info/exclude`, `core.excludesFile`),
read as git reads them (`rules`).
A tracked file is never ignored, whatever matches it, so the index has the last word.
"""

from __future__ import annotations

import os

from imi_monitor.git.layout import read_regular
from imi_monitor.sources.files.rules import Rule, decide, parse

_MOST_BYTES = 1 << 20  # a larger ignore file is nobody's
_MOST_FILES = 2000  # remembered .gitignore files of one worktree


class Ignore:
    """The ignore rules of one worktree. Paths are relative to its root, with `/`."""

    def __init__(self, root: str, admin_dir: str, common_dir: str, extra: str | None = None) -> None:
        self._root = root
        self._index = os.path.join(admin_dir, "index")
        self._shared = [path for path in (extra, os.path.join(common_dir, "info", "exclude")) if path]
        self._specs: dict[str, list[Rule]] = {}
        self._tracked = b""
        self._tracked_mark: tuple[int, int] | None = None

    def forget(self) -> None:
        """The rules may have changed: read them again when next asked."""
        self._specs.clear()

    def ignores(self, path: str, *, is_dir: bool) -> bool:
        """Whether git would leave this path out: it or a folder above it matches, and it is not tracked."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if self._matches("/".join(parts[:depth]), is_dir=True):
                return not self.tracks(path, is_dir=is_dir)
        return self._matches(path, is_dir=is_dir) and not self.tracks(path, is_dir=is_dir)

    def prunes(self, folder: str) -> bool:
        """Whether a folder, whose parents are not ignored, need not be looked into: ignored, and nothing in it tracked."""
        return self._matches(folder, is_dir=True) and not self.tracks(folder, is_dir=True)

    def tracks(self, path: str, *, is_dir: bool) -> bool:
        """Whether the index names the path, or something below it (there a false yes is possible: it reads bytes)."""
        self._read_index()
        name = os.fsencode(path)
        if self._tracked[4:8] == b"\0\0\0\x04":
            return False  # version 4 shares beginnings of names; whoever uses it loses only this nicety
        return name + b"/" in self._tracked if is_dir else self._names(name)

    def _names(self, name: bytes) -> bool:
        """Whether an entry of just this name is in the index: its length stands right before it."""
        wanted = min(len(name), 0xFFF)
        at = self._tracked.find(name + b"\0")
        while at > 1:
            if int.from_bytes(self._tracked[at - 2 : at], "big") & 0xFFF == wanted:
                return True
            at = self._tracked.find(name + b"\0", at + 1)
        return False

    def _matches(self, path: str, *, is_dir: bool) -> bool:
        """The nearest rule decides; within one file the last that matches does."""
        folder, _, _ = path.rpartition("/")
        while True:
            spec = self._spec(folder)
            if spec:
                found = decide(spec, path[len(folder) + 1 :] if folder else path, is_dir=is_dir)
                if found is not None:
                    return found
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        for index in range(len(self._shared) - 1, -1, -1):
            found = decide(self._spec(f"\0{index}"), path, is_dir=is_dir)
            if found is not None:
                return found
        return False

    def _spec(self, folder: str) -> list[Rule]:
        if folder not in self._specs:
            if len(self._specs) > _MOST_FILES:
                self._specs.clear()
            where = self._shared[int(folder[1:])] if folder.startswith("\0") else self._file(folder)
            self._specs[folder] = _read_rules(where)
        return self._specs[folder]

    def _file(self, folder: str) -> str:
        return os.path.join(self._root, folder, ".gitignore")

    def _read_index(self) -> None:
        try:
            info = os.stat(self._index)
            mark = (info.st_mtime_ns, info.st_size)
            if mark != self._tracked_mark:
                self._tracked = read_regular(self._index, info.st_size) or b""
                self._tracked_mark = mark
        except OSError:
            self._tracked, self._tracked_mark = b"", None


def global_excludes(configured: str | None) -> str | None:
    """The user's own ignore file: the configured one, else git's default place."""
    if configured:
        return os.path.expanduser(configured)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "git", "ignore")


def _read_rules(path: str) -> list[Rule]:
    if os.path.islink(path) and os.path.basename(path) == ".gitignore":
        return []  # git does not follow a link here either
    content = read_regular(path, _MOST_BYTES)
    return parse(os.fsdecode(content)) if content else []
