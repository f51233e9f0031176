"""Reads the layout of a repository on disk without a git process, for the hot commands and the status loop.

A work tree's own `.git` file is not trusted, because an agent can rewrite it: a linked worktree counts only if the repository's
admin directory points back to it.
"""

from __future__ import annotations

import os
import stat

from imi_monitor import programs
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

_LARGE = 1 << 28
_SMALL = 1 << 16  # no valid HEAD, gitdir or commondir file is larger


class Repository:
    """One repository: its common git directory, and its main work tree unless it is bare."""

    __slots__ = ("bare", "common_dir", "main_path")

    def __init__(self, common_dir: str, main_path: str | None, bare: bool) -> None:
        self.common_dir = common_dir
        self.main_path = main_path
        self.bare = bare

    @property
    def cluster(self) -> str | None:
        """The folder whose children are the worktrees, if the trunk's folder is `trunk-<branch>`; else None."""
        if self.main_path and os.path.basename(self.main_path).startswith("trunk-"):
            return os.path.dirname(self.main_path)
        if self.bare and os.path.basename(self.common_dir) in (".bare", ".git", "bare.git"):
            parent = os.path.dirname(self.common_dir)
            if any(name.startswith("trunk-") for name in _names(parent)) or os.path.isdir(os.path.join(parent, ".iMi")):
                return parent
        return None

    @property
    def home(self) -> str:
        """The folder that identifies the repository: its main work tree, else the folder of its git directory."""
        if self.main_path:
            return self.main_path
        named = os.path.basename(self.common_dir) in (".bare", ".git")
        return os.path.dirname(self.common_dir) if named else self.common_dir


class RepositoryLocation:
    """A repository and the worktree around a folder (no worktree inside a bare repository)."""

    __slots__ = ("admin_dir", "path", "repository")

    def __init__(self, repository: Repository, admin_dir: str, path: str | None) -> None:
        self.repository = repository
        self.admin_dir = admin_dir
        self.path = path


class LinkedWorktree:
    """A linked worktree from the repository's admin files; `branch` is None when detached, `head` None when unborn."""

    __slots__ = ("admin_dir", "branch", "head", "locked", "path")

    def __init__(self, admin_dir: str, path: str, branch: str | None, head: str | None, locked: str | None) -> None:
        self.admin_dir = admin_dir
        self.path = path
        self.branch = branch
        self.head = head
        self.locked = locked

    @property
    def missing(self) -> bool:
        return not os.path.lexists(os.path.join(self.path, ".git"))


def discover(start: str) -> RepositoryLocation | None:
    """Return the repository around `start`, found by walking up; None when there is none."""
    folder = os.path.realpath(start)
    bare: RepositoryLocation | None = None
    while True:
        found = _place_at(folder)
        if found is not None:
            return found
        if bare is None and _is_git_dir(folder):
            # a bare repository inside a work tree may come from a pull request: the enclosing one has priority
            bare = RepositoryLocation(repository_at(folder), folder, None)
        inside = None if bare else _trunk_below(folder)
        if inside is not None:
            return inside
        parent = os.path.dirname(folder)
        if parent == folder:
            return bare
        folder = parent


def repository_at(common_dir: str) -> Repository:
    """Return the repository of a common git directory; no program inside its worktrees is run from now on."""
    repository = _read_repository(os.path.realpath(common_dir))
    programs.avoid_repository(repository.common_dir, repository.main_path)
    return repository


def _read_repository(common_dir: str) -> Repository:
    core = _config_values(common_dir, "core")
    bare = core.get("bare", "").lower() in ("true", "yes", "on", "1")
    if bare:
        return Repository(common_dir, None, True)
    if os.path.basename(common_dir) == ".git":
        return Repository(common_dir, os.path.dirname(common_dir), False)
    tree = core.get("worktree")
    return Repository(common_dir, os.path.realpath(os.path.join(common_dir, tree)) if tree else None, tree is None)


def linked_worktrees(common_dir: str) -> list[LinkedWorktree]:
    """Return all linked worktrees from `<common>/worktrees/*`, without the main one."""
    root = os.path.join(common_dir, "worktrees")
    found = []
    for name in sorted(_names(root)):
        admin = os.path.join(root, name)
        pointer = read_small(os.path.join(admin, "gitdir"))
        if not pointer:
            continue
        path = os.path.dirname(os.path.normpath(os.path.join(admin, pointer)))
        branch, head = read_head(admin, common_dir)
        locked = read_small(os.path.join(admin, "locked"))
        found.append(LinkedWorktree(admin, path, branch, head, locked))
    programs.avoid_worktrees(common_dir, [linked.path for linked in found])
    return found


def read_head(admin_dir: str, common_dir: str) -> tuple[str | None, str | None]:
    """Return (branch, commit) of a git directory's HEAD; each is None when absent or not readable without git."""
    text = read_small(os.path.join(admin_dir, "HEAD"))
    if not text:
        return None, None
    if not text.startswith("ref:"):
        return None, text
    ref = text[4:].strip()
    return ref.removeprefix("refs/heads/"), read_ref(common_dir, ref)


def read_ref(common_dir: str, ref: str) -> str | None:
    """Return the commit of a ref; None when it is absent or not readable without git (reftable)."""
    return read_small(os.path.join(common_dir, ref)) or _packed(common_dir, ref)


def has_reftable(git_dir: str) -> bool:
    """Return whether git stores the refs of this git directory in tables, which only git reads."""
    return os.path.isdir(os.path.join(git_dir, "reftable"))


def points_back(admin_dir: str, path: str) -> bool:
    """Return whether the work tree's `.git` file names this admin directory."""
    target = gitfile(os.path.join(path, ".git"))
    return target is not None and os.path.realpath(target) == os.path.realpath(admin_dir)


def repository_name(repository: Repository) -> str:
    """Return the repository's name, as iMi chooses it: the last part of origin's URL, else the folder's name."""
    url = _config_values(repository.common_dir, 'remote "origin"').get("url", "")
    tail = url.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].removesuffix(".git")
    if tail and tail not in (".", ".."):
        return tail
    folder = repository.cluster or repository.home
    return os.path.basename(folder).removesuffix(".git") or "repository"


def remote_url(repository: Repository, remote: str = "origin") -> str:
    """Return the URL in the repository's configuration, or an empty string."""
    return _config_values(repository.common_dir, f'remote "{remote}"').get("url", "")


def read_small(path: str) -> str | None:
    """Return a small text file without its last newline; None when it cannot be read."""
    content = read_regular(path, _SMALL)
    return None if content is None else os.fsdecode(content).strip("\n\r ")


def read_regular(path: str, most: int) -> bytes | None:
    """Return the beginning of a regular file; None when it cannot be read.

    It is opened without blocking, because a named pipe in its place would block for ever.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(handle, most) if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(handle)


def _place_at(folder: str) -> RepositoryLocation | None:
    dot = os.path.join(folder, ".git")
    if os.path.isdir(dot):
        if not _is_git_dir(dot):
            return None
        repository = repository_at(dot)
        return RepositoryLocation(repository, repository.common_dir, None if repository.bare else folder)
    target = gitfile(dot)
    if target is None:
        return None
    if not os.path.isdir(target):
        raise GitError(
            f"{safe(folder)} belongs to a repository that is gone or was moved ({safe(target)} does not exist): "
            "run `imi repair` inside the repository",
            code="repository-gone",
        )
    return _linked_place(folder, os.path.realpath(target))


def _linked_place(folder: str, admin: str) -> RepositoryLocation:
    shared = read_small(os.path.join(admin, "commondir"))
    if shared is None:  # a submodule or a repository with a separate git directory
        repository = repository_at(admin)
        return RepositoryLocation(repository, admin, None if repository.bare else folder)
    common = os.path.realpath(os.path.join(admin, shared))
    back = read_small(os.path.join(admin, "gitdir"))
    if back is None or os.path.dirname(admin) != os.path.join(common, "worktrees"):
        raise _tampered(folder)
    recorded = os.path.normpath(os.path.join(admin, back))
    here = os.path.join(folder, ".git")
    if os.path.realpath(recorded) != os.path.realpath(here) and os.path.lexists(recorded):
        raise _tampered(folder)
    return RepositoryLocation(repository_at(common), admin, folder)


def _tampered(folder: str) -> GitError:
    return GitError(
        f"the .git file of {safe(folder)} does not belong to this worktree (tampered with, or a copy): "
        "git was not run; compare it with `git worktree list` of the repository",
        code="tampered",
    )


def _trunk_below(folder: str) -> RepositoryLocation | None:
    """Return the trunk's repository for a cluster folder, which is no repository itself."""
    for name in sorted(_names(folder)):
        if name.startswith("trunk-"):
            found = _place_at(os.path.join(folder, name))
            if found is not None:
                return RepositoryLocation(found.repository, found.admin_dir, None)
    return None


def gitfile(path: str) -> str | None:
    """Return the directory that a `.git` file names; None when it is no such file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    text = read_small(path)
    if not text or not text.startswith("gitdir:"):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(path), text[7:].strip()))


def _is_git_dir(path: str) -> bool:
    return (
        os.path.lexists(os.path.join(path, "HEAD"))
        and os.path.isdir(os.path.join(path, "objects"))
        and os.path.isdir(os.path.join(path, "refs"))
    )


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _packed(common_dir: str, ref: str) -> str | None:
    wanted = b" " + os.fsencode(ref)
    for line in (read_regular(os.path.join(common_dir, "packed-refs"), _LARGE) or b"").splitlines():
        if line.endswith(wanted) and not line.startswith((b"#", b"^")):
            return line.split(b" ", 1)[0].decode("ascii", "replace")
    return None


def _config_values(common_dir: str, section: str) -> dict[str, str]:
    """Return one section of the repository's configuration, the last value of each key. Includes are not followed."""
    values: dict[str, str] = {}
    current = ""
    lines = os.fsdecode(read_regular(os.path.join(common_dir, "config"), 1 << 20) or b"").split("\n")
    for raw in lines:
        line = raw.strip()
        if line.startswith("["):
            current = line[1 : line.rfind("]")] if "]" in line else ""
            current = current if '"' in current else current.lower()
            continue
        if current != section or not line or line[0] in "#;":
            continue
        key, equals, value = line.partition("=")
        values[key.strip().lower()] = value.strip().strip('"') if equals else "true"
    return values
