"""The files of a worktree as they were at an earlier moment, rebuilt in an index of their own from what is left of that time.

The commit at that moment is the newest one that HEAD's reflog has from before. A file that was not written since is as it was. Of
another one the agent's own records may have the content; else it was likely as in that commit, and it is listed as likely.
"""

from __future__ import annotations

import os
import re

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import git_diff
from imi_monitor.git.refs import resolve
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from imi_monitor.git.runner import Git
    from imi_monitor.model.turn_files import TurnFiles

_LAST_BYTES = 1 << 20  # of a reflog
_ENTRY = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [^\t]*?(\d+) [+-]\d{4}(?:\t(commit \(initial\))?|$)")
_MOST_NAMES = 4_000_000  # bytes
_NO_FILE = "0"


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What is rebuilt: git with the variables of the new index, the moment in seconds, and what the agent recorded."""

    git: Git
    env: dict[str, str]
    settings: list[tuple[str, str]]
    began: float
    files: TurnFiles

    def fill(self, most_files: int) -> tuple[str, ...]:
        """Bring the copy of the index to the state of that moment; returns the paths that are only likely right."""
        self._set_commit()
        self._run("update-index", "-q", "--refresh", ok=(0, 1))
        known = self._recorded()
        self._set_entries({path: self._entry(path, content) for path, content in known.items()})
        changed = self._names("diff-files", "--name-only", "--no-renames")
        new, more = git_diff.untracked_names(self.git, (), _MOST_NAMES, self.env)
        names = [name for name in dict.fromkeys([*changed, *new]) if name not in known and not name.endswith("/")]
        if more or len(names) > most_files:
            raise GitError(f"{count(len(names), 'file')} differ: too many to keep", code="too-many")
        older = [name for name in names if self._is_older(name)]
        self._run("update-index", "--add", "--remove", "-z", "--stdin", stdin=_joined(older))
        inexact = {path for path in known if self._real(path) in self.files.inexact}
        return tuple(sorted({*names}.difference(older) | inexact))

    def _set_commit(self) -> None:
        """Give each path that differs from the commit of that moment its entry there."""
        commit = commit_at(self.git, self.began) or self.git.text("hash-object", "-t", "tree", "--stdin")
        words = self._names("diff-index", "--cached", "--raw", "--no-renames", "--no-abbrev", commit)
        entries: dict[str, tuple[str, str] | None] = {}
        for facts, path in zip(words[::2], words[1::2], strict=False):
            mode, _, sha, _, _ = facts.removeprefix(":").split(" ")
            entries[path] = (mode, sha) if sha.strip("0") else None
        self._set_entries(entries)

    def _recorded(self) -> dict[str, bytes | None]:
        """Return what the agent recorded of files that git would show, by their path in the worktree."""
        root, inside = os.path.realpath(self.git.work_tree or ""), dict[str, bytes | None]()
        for path, content in self.files.before.items():
            name = os.path.relpath(path, root)
            if not {"..", ".git"}.intersection(name.split(os.sep)):
                inside[name] = content
        tracked = set(self._names("ls-files", "--", *_literal(inside))) if inside else set[str]()
        others = _joined(path for path in inside if path not in tracked)
        ignored = self._names("check-ignore", "--stdin", stdin=others, ok=(0, 1)) if others else []
        return {path: content for path, content in inside.items() if path not in ignored}

    def _entry(self, path: str, content: bytes | None) -> tuple[str, str] | None:
        if content is None:
            return None
        sha = self.git.text("hash-object", "-w", "--stdin", f"--path={path}", stdin=content, env=self.env)
        old = self._names("ls-files", "--stage", "--", *_literal([path]))
        if old:
            return old[0].split(" ")[0], sha
        try:
            executable = os.lstat(self._real(path)).st_mode & 0o100
        except (OSError, ValueError):
            executable = 0
        return "100755" if executable else "100644", sha

    def _set_entries(self, entries: dict[str, tuple[str, str] | None]) -> None:
        """Set the entries of these paths in the new index; None: it has none."""
        lines, null = b"", "0" * len(self.git.text("hash-object", "-t", "tree", "--stdin")) if entries else ""
        for path, entry in entries.items():
            for mode, sha in ((_NO_FILE, null), *([entry] if entry else [])):  # the first line ends a conflict
                lines += f"{mode} {sha}\t".encode() + os.fsencode(path) + b"\0"
        if lines:
            self._run("update-index", "-z", "--index-info", stdin=lines)

    def _is_older(self, path: str) -> bool:
        """Whether a file is as it was: it was not written since, or it was deleted before."""
        real = self._real(path)
        try:
            info = os.lstat(real)
        except FileNotFoundError:
            return _folder_changed(os.path.dirname(real)) < self.began
        except (OSError, ValueError):
            return False
        return max(info.st_mtime, info.st_ctime) < self.began

    def _real(self, path: str) -> str:
        return os.path.join(os.path.realpath(self.git.work_tree or ""), path)

    def _names(self, verb: str, *words: str, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)) -> list[str]:
        return self.git.lines0(
            verb, "-z", *words, stdin=stdin, ok=ok, env=self.env, settings=self.settings, timeout=30.0
        )

    def _run(self, *words: str, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)) -> None:
        self.git.run(*words, stdin=stdin, ok=ok, env=self.env, settings=self.settings, timeout=30.0)


def commit_at(git: Git, moment: float) -> str | None:
    """Return the commit that HEAD was at; without a reflog the present one, None if nothing was committed then."""
    try:
        with open(os.path.join(git.admin_dir, "logs", "HEAD"), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            entries = [found for line in file.read().splitlines() if (found := _ENTRY.match(line))]
    except OSError:
        entries = []
    if not entries:
        return resolve(git, "HEAD")
    before = [entry[2] for entry in entries if int(entry[3]) <= moment]
    if not before:
        first = entries[0]
        if first[4]:
            return None
        before = [first[1] if first[1].strip(b"0") else first[2]]  # a new worktree begins at its commit
    commit = resolve(git, before[-1].decode())
    if commit is None:
        raise GitError(f"the commit {before[-1].decode()[:10]} at which the turn began is gone", code="gone")
    return commit


def _folder_changed(folder: str) -> float:
    """Return when the folder, or the nearest one above it that exists, changed last."""
    while True:
        try:
            info = os.stat(folder)
            return max(info.st_mtime, info.st_ctime)
        except OSError:
            parent = os.path.dirname(folder)
            if parent == folder:
                return 0.0
            folder = parent


def _literal(paths: Iterable[str]) -> list[str]:
    return [f":(top,literal){path}" for path in paths]


def _joined(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
