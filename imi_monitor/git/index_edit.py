"""Changes entries of a worktree's index while holding git's own lock on it.

What is read stays true until `commit`, and no other git changes the index meanwhile. The change is made in a private copy, which
then takes the index's place by one rename: after a failure the index is as it was.
"""

from __future__ import annotations

import os
import shutil

from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git.lock_files import lock_advice
from imi_monitor.git.refs import resolve
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imi_monitor.git.runner import Git

Entry = tuple[str, str]
"""The mode and the object of a path in the index or in a commit."""

_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_MOST_NAMED = 200  # paths that are named to git; above that it lists all
_NO_FILE = "0"


class IndexEdit:
    """The locked index of one worktree, as a context manager; without `commit` nothing changes."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._index = os.path.join(git.admin_dir, "index")
        self._lock = self._index + ".lock"
        self._copy = f"{self._index}.imi-{os.getpid()}"
        self._env = {**_LITERAL, "GIT_INDEX_FILE": self._copy}
        self._handle: int | None = None

    def __enter__(self) -> IndexEdit:
        try:
            self._handle = os.open(self._lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            raise Refused(lock_advice(self._lock), code="git-busy") from None
        try:
            with suppress(FileNotFoundError):  # nothing was ever added
                shutil.copy2(self._index, self._copy)  # with its time, by which git recognises files written since
                os.chmod(self._lock, os.stat(self._index).st_mode & 0o777)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            os.unlink(self._lock)
        for name in (self._copy, self._copy + ".lock"):
            with suppress(FileNotFoundError):
                os.unlink(name)

    def entries(self, paths: Iterable[str]) -> dict[str, Entry]:
        """The entries of these paths; Refused for one in conflict, which has several."""
        wanted = list(paths)
        found: dict[str, Entry] = {}
        for line in self._git.lines0(
            "ls-files", "--stage", "-z", "--full-name", "--", *_named(wanted), env=self._env, timeout=60.0, cap=1 << 30
        ):
            facts, _, path = line.partition("\t")
            mode, sha, stage = facts.split(" ")
            if path in wanted and stage != "0":
                raise Refused(f"{safe(path)} is in conflict: resolve it first, then `git add` it", code="conflicts")
            found[path] = (mode, sha)
        return {path: found[path] for path in wanted if path in found}

    def head_entries(self, paths: Iterable[str]) -> dict[str, Entry]:
        """The entries of these paths in the last commit."""
        wanted = list(paths)
        if resolve(self._git, "HEAD") is None:
            return {}
        words = ("ls-tree", "-z", "--full-tree", "-r", "HEAD", "--", *_named(wanted))
        found: dict[str, Entry] = {}
        for line in self._git.lines0(*words, env=_LITERAL, timeout=60.0, cap=1 << 30):
            facts, _, path = line.partition("\t")
            mode, _, sha = facts.split(" ")
            found[path] = (mode, sha)
        return {path: found[path] for path in wanted if path in found}

    def set(self, entries: Mapping[str, Entry | None]) -> None:
        """Give these paths these entries; None removes one."""
        zeros = "0" * (40 if self._git.text("rev-parse", "--show-object-format") == "sha1" else 64)
        # removals first: a file may take the place of a folder, or the reverse
        ordered = sorted(entries.items(), key=lambda item: item[1] is not None)
        lines = (f"{mode} {sha}\t{path}\0" for path, (mode, sha) in ((p, e or (_NO_FILE, zeros)) for p, e in ordered))
        stdin = b"".join(map(os.fsencode, lines))
        self._git.run("update-index", "-z", "--index-info", stdin=stdin, env=self._env, timeout=60.0)

    def commit(self) -> None:
        """Put the changed copy into the place of the index."""
        assert self._handle is not None
        with open(self._copy, "rb") as made:
            info = os.fstat(made.fileno())
            with os.fdopen(os.dup(self._handle), "wb") as lock:
                shutil.copyfileobj(made, lock)
        os.utime(self._lock, ns=(info.st_atime_ns, info.st_mtime_ns))
        os.close(self._handle)
        self._handle = None
        os.rename(self._lock, self._index)


def _named(paths: list[str]) -> list[str]:
    return paths if len(paths) <= _MOST_NAMED else []
