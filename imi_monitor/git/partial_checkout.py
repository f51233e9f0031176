"""Taking back a `git worktree add` that died: exactly the bytes that git had written, never anybody else's.

Every file is compared with what the checkout writes there (or a beginning of it: git may have died within a file), so
all that goes is in the object database. One file that is not from the checkout, and nothing is touched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from imi_monitor.git.layout import gitfile, linked_worktrees, read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.git.runner import Git

_MOST_CHANGED = 200  # a checkout dies within as many files as it has workers, not within more
_LARGEST = 1 << 30
_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class _Found:
    """What lies in a folder: files with what tells whether they change meanwhile, and folders, both relative."""

    files: dict[str, tuple[int, int, int]]
    folders: list[str]


def admin_dir_locked_with(common_dir: str, lock: str) -> str | None:
    """Where git keeps the worktree that is locked with this reason."""
    root = os.path.join(common_dir, "worktrees")
    found = (os.path.join(root, name) for name in _names(root))
    return next((admin for admin in found if read_small(os.path.join(admin, "locked")) == lock), None)


def admin_dir_at(common_dir: str, path: str) -> str | None:
    """Where git keeps the worktree at `path`, whoever made it; not one whose remains nobody could use."""
    found = (linked.admin_dir for linked in linked_worktrees(common_dir) if linked.path == path)
    return next((admin for admin in found if not _is_wreck(admin, path)), None)


def broken_admin_dirs(common_dir: str, path: str, taken: list[str]) -> list[str]:
    """Git's directories for the worktree at `path` that a dying git left unfit for use, and without our lock.

    It died before it had written the lock, or while it took back its own work, in whatever order that happened. What was
    there before (`taken`), what is locked, and what a worktree could be used with, is none of it.
    """
    root, stem = os.path.join(common_dir, "worktrees"), os.path.basename(path)
    # git numbers the names of its directories when folders are called the same
    numbers = {name: name.removeprefix(stem) for name in _names(root) if name.startswith(stem) and name not in taken}
    fresh = [os.path.join(root, name) for name, number in numbers.items() if not number or number.isdecimal()]
    return [admin for admin in fresh if _is_wreck(admin, path)]


def _is_wreck(admin_dir: str, path: str) -> bool:
    found = _names(admin_dir)
    if "locked" in found and (len(found) > 1 or read_small(os.path.join(admin_dir, "locked"))):
        return False
    whole = {"HEAD", "commondir", "gitdir", "index"} <= set(found)
    pointer = read_small(os.path.join(admin_dir, "gitdir"))
    return not whole and (
        not pointer or os.path.normpath(os.path.join(admin_dir, pointer)) == os.path.join(path, ".git")
    )


def is_on_branch(admin_dir: str, branch: str) -> bool:
    """Whether that worktree has the branch checked out, with an index, and nobody is writing just now, or died writing."""
    if read_small(os.path.join(admin_dir, "HEAD")) != f"ref: refs/heads/{branch}":
        return False
    found = _names(admin_dir)
    return "index" in found and not any(name.endswith(".lock") for name in found)


def is_complete(git: Git, branch: str, commit: str) -> bool:
    """Whether the checkout went to its end: the right branch and commit, an index, and every file as it is there."""
    if not is_on_branch(git.admin_dir, branch) or not os.path.isfile(os.path.join(git.work_tree or "", ".git")):
        return False
    if git.run("diff-index", "--cached", "--quiet", commit, "--", ok=(0, 1)).returncode:
        return False
    status = ("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all")
    return not git.run(*status, timeout=120).stdout


def delete_checkout(git: Git, path: str, commit: str, is_ours: Callable[[str], bool], scratch: str) -> list[str]:
    """Delete the folder if all in it came from the checkout; else, or if somebody writes meanwhile, gives what is in the way.

    `scratch` is a file name that may be used meanwhile, for an index of its own.
    """
    if not os.path.lexists(path):
        return []
    if os.path.islink(path) or not os.path.isdir(path):
        return [os.path.basename(path)]  # somebody put something else in its place
    found, foreign = _judge(git, path, commit, is_ours, scratch)
    return foreign or _delete(path, found)


def delete_admin_dir(admin_dir: str) -> None:
    """Delete what git kept about the worktree. Its folder must be gone: then nothing in here is anybody's work."""
    for folder, names, files in os.walk(admin_dir, topdown=False):
        for name in sorted(files, key=lambda file: file == "locked"):  # the lock last: it is what says whose this is
            os.unlink(os.path.join(folder, name))
        for name in names:
            full = os.path.join(folder, name)
            os.unlink(full) if os.path.islink(full) else os.rmdir(full)
    os.rmdir(admin_dir)


def _judge(git: Git, path: str, commit: str, is_ours: Callable[[str], bool], scratch: str) -> tuple[_Found, list[str]]:
    found = _look(path)
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
    """Whether the `.git` file is what git writes there for this repository, or has not been written yet."""
    target = gitfile(os.path.join(path, ".git"))
    if target is None:
        return read_small(os.path.join(path, ".git")) == ""
    return os.path.realpath(os.path.dirname(target)) == os.path.join(common_dir, "worktrees")


def _look(path: str) -> _Found:
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
    """Every path of the commit and its mode."""
    found = {}
    for line in git.lines0("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit, cap=1 << 28, timeout=60):
        facts, _, name = line.partition("\t")
        found[name] = facts.partition(" ")[0]
    return found


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def _changed(git: Git, path: str, commit: str, tree: dict[str, str], scratch: str) -> list[str]:
    """The files that are neither as in the commit nor a beginning of that, told by an index made for the purpose."""
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
    """Delete just what was judged and is still the same; the `.git` file last, as it ties the folder to the repository."""
    left: list[str] = []
    for folder, names, files, handle in os.fwalk(path, topdown=False):
        prefix = os.path.relpath(folder, path) + "/" if folder != path else ""
        # os.fwalk counts a link to a folder among the folders; here it is a file like any other
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
    except OSError:  # somebody has put something in it meanwhile
        left.append(prefix + name)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
