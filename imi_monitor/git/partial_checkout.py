"""Deletes the remains of a `git worktree add` that died, and only files that git wrote.

Every file is compared with what the checkout writes (or a beginning of it: git may have died within a file), so all deleted
content is in the object database. If one file is not from the checkout, nothing is deleted.
"""

from __future__ import annotations

import os

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.layout import gitfile, linked_worktrees, read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.git.runner import Git

_MOST_CHANGED = 200  # an interrupted checkout leaves at most one partial file for each of its workers
_LARGEST = 1 << 30
_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class _Found:
    """The content of a folder: files with a stamp that shows a change, and folders, with relative paths."""

    files: dict[str, tuple[int, int, int]]
    folders: list[str]


def admin_dir_locked_with(common_dir: str, lock: str) -> str | None:
    """Return the admin directory of the worktree that is locked with this reason."""
    root = os.path.join(common_dir, "worktrees")
    found = (os.path.join(root, name) for name in _names(root))
    return next((admin for admin in found if read_small(os.path.join(admin, "locked")) == lock), None)


def admin_dir_at(common_dir: str, path: str) -> str | None:
    """Return the usable admin directory of the worktree at `path`."""
    found = (linked.admin_dir for linked in linked_worktrees(common_dir) if linked.path == path)
    return next((admin for admin in found if not _is_broken(admin, path)), None)


def broken_admin_dirs(common_dir: str, path: str, existing: list[str]) -> list[str]:
    """Return the unusable admin directories for the worktree at `path` that a dying git left without our lock.

    It died before it wrote the lock, or while it undid its own work. Directories that were there before (`existing`), that are
    locked or that are usable are not among them.
    """
    root, stem = os.path.join(common_dir, "worktrees"), os.path.basename(path)
    # git adds a number to the directory's name if another worktree's folder has the same name
    numbers = {name: name.removeprefix(stem) for name in _names(root) if name.startswith(stem) and name not in existing}
    fresh = [os.path.join(root, name) for name, number in numbers.items() if not number or number.isdecimal()]
    return [admin for admin in fresh if _is_broken(admin, path)]


def _is_broken(admin_dir: str, path: str) -> bool:
    found = _names(admin_dir)
    if "locked" in found and (len(found) > 1 or read_small(os.path.join(admin_dir, "locked"))):
        return False
    whole = {"HEAD", "commondir", "gitdir", "index"} <= set(found)
    pointer = read_small(os.path.join(admin_dir, "gitdir"))
    return not whole and (
        not pointer or os.path.normpath(os.path.join(admin_dir, pointer)) == os.path.join(path, ".git")
    )


def is_on_branch(admin_dir: str, branch: str) -> bool:
    """Return whether that worktree has the branch checked out, with an index and without lock files."""
    if read_small(os.path.join(admin_dir, "HEAD")) != f"ref: refs/heads/{branch}":
        return False
    found = _names(admin_dir)
    return "index" in found and not any(name.endswith(".lock") for name in found)


def is_complete(git: Git, branch: str, commit: str) -> bool:
    """Return whether the checkout is complete: the branch and commit, an index, and every file unchanged."""
    if not is_on_branch(git.admin_dir, branch) or not os.path.isfile(os.path.join(git.work_tree or "", ".git")):
        return False
    if git.run("diff-index", "--cached", "--quiet", commit, "--", ok=(0, 1)).returncode:
        return False
    status = ("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all")
    return not git.run(*status, timeout=120).stdout


def delete_checkout(git: Git, path: str, commit: str, is_ours: Callable[[str], bool], scratch: str) -> list[str]:
    """Delete the folder if all of it came from the checkout; otherwise returns the files that did not, or that have changed.

    `scratch` is a file name for a temporary index.
    """
    if not os.path.lexists(path):
        return []
    if os.path.islink(path) or not os.path.isdir(path):
        return [os.path.basename(path)]  # another file has its place
    found, foreign = _inspect(git, path, commit, is_ours, scratch)
    return foreign or _delete(path, found)


def delete_admin_dir(admin_dir: str) -> None:
    """Delete the admin directory of a worktree whose folder is gone, so that no user's work is in it."""
    for folder, names, files in os.walk(admin_dir, topdown=False):
        for name in sorted(
            files, key=lambda file: file == "locked"
        ):  # the lock last, because it identifies our directory
            os.unlink(os.path.join(folder, name))
        for name in names:
            full = os.path.join(folder, name)
            os.unlink(full) if os.path.islink(full) else os.rmdir(full)
    os.rmdir(admin_dir)


def _inspect(
    git: Git, path: str, commit: str, is_ours: Callable[[str], bool], scratch: str
) -> tuple[_Found, list[str]]:
    """Return the folder's content, and the files and folders that are not from the checkout."""
    found = _list_content(path)
    tree = _tree(git, commit)
    folders = {name for name, mode in tree.items() if mode == _GITLINK}
    folders |= {parent for name in tree for parent in _parents(name)}
    ours = {name for name in found.files if name not in tree and is_ours(name)}
    folders |= {parent for name in ours for parent in _parents(name)}
    foreign = [name for name in found.files if name not in tree and name not in ours and name != ".git"]
    foreign += [name for name in found.folders if name not in folders]
    if ".git" in found.files and not _ties(git.common_dir, path):
        foreign.append(".git")
    if not foreign:
        foreign = _changed(git, path, commit, tree, scratch)
    return found, sorted(foreign)


def _ties(common_dir: str, path: str) -> bool:
    """Return whether the `.git` file is the one that git writes for this repository, or not yet written."""
    target = gitfile(os.path.join(path, ".git"))
    if target is None:
        return read_small(os.path.join(path, ".git")) == ""
    return os.path.realpath(os.path.dirname(target)) == os.path.join(common_dir, "worktrees")


def _list_content(path: str) -> _Found:
    files: dict[str, tuple[int, int, int]] = {}
    folders: list[str] = []

    def walk(folder: str, prefix: str) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                    walk(entry.path, name + "/")
                else:
                    files[name] = _mark(entry.stat(follow_symlinks=False))

    walk(path, "")
    return _Found(files, folders)


def _mark(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_ino, info.st_mtime_ns, info.st_size


def _tree(git: Git, commit: str) -> dict[str, str]:
    """Return every path of the commit with its mode."""
    found = {}
    for line in git.lines0("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit, cap=1 << 28, timeout=60):
        facts, _, name = line.partition("\t")
        found[name] = facts.partition(" ")[0]
    return found


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def _changed(git: Git, path: str, commit: str, tree: dict[str, str], scratch: str) -> list[str]:
    """Return the files that are neither as in the commit nor a beginning of that, found with a temporary index."""
    here = git.at(git.common_dir, path)
    index = {"GIT_INDEX_FILE": scratch}
    try:
        here.run("read-tree", commit, env=index, timeout=60)
        status = ("status", "--porcelain=v1", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames")
        lines = here.lines0(*status, env=index, timeout=120, cap=1 << 28)
    finally:
        for name in (scratch, scratch + ".lock"):
            if os.path.lexists(name):
                os.unlink(name)
    changed = [line[3:] for line in lines if line[1] not in " D"]
    if len(changed) > _MOST_CHANGED:
        return changed
    return [name for name in changed if not _beginning(here, commit, path, name, tree)]


def _beginning(git: Git, commit: str, path: str, name: str, tree: dict[str, str]) -> bool:
    full = os.path.join(path, name)
    if os.path.islink(full) or not os.path.isfile(full) or not tree.get(name, "").startswith("100"):
        return False
    with open(full, "rb") as file:
        written = file.read(_LARGEST)
    blob = f"{commit}:{name}"
    whole = git.run("cat-file", "--filters", "--end-of-options", blob, cap=_LARGEST, timeout=60).stdout
    return whole.startswith(written)


def _delete(path: str, found: _Found) -> list[str]:
    """Delete the inspected files that are unchanged; the `.git` file last, because it ties the folder to the repository."""
    left: list[str] = []
    for folder, names, files, handle in os.fwalk(path, topdown=False):
        prefix = os.path.relpath(folder, path) + "/" if folder != path else ""
        # os.fwalk lists a link to a folder among the folders; here it is a file
        links = [name for name in names if prefix + name in found.files]
        for name in sorted([*files, *links], key=lambda file: prefix + file == ".git"):
            if found.files.get(prefix + name) != _now(name, handle) or (prefix + name == ".git" and left):
                left.append(prefix + name)
            else:
                os.unlink(name, dir_fd=handle)
        for name in set(names) - set(links):
            _drop_folder(name, handle, prefix, left)
    if not left:
        _drop_folder(path, None, "", left)
    return left


def _now(name: str, handle: int) -> tuple[int, int, int] | None:
    try:
        return _mark(os.lstat(name, dir_fd=handle))
    except FileNotFoundError:
        return None


def _drop_folder(name: str, handle: int | None, prefix: str, left: list[str]) -> None:
    try:
        os.rmdir(name, dir_fd=handle)
    except OSError:  # a new file is in it
        left.append(prefix + name)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
