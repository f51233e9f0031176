"""Where the trash is: on the worktree's own file system, so that removing and undoing is one rename, and private.

First choice is inside the repository's git directory, where no work tree sees it; else a hidden folder beside the worktree.

One worktree on its way into the trash or back: all that is needed to move it, written down before anything moves.

`take_away` and `bring_back` only touch the disk. Both look where the folder is and do what is left to do, so that they can
be repeated after a crash, and `in_trash` is the one question that decides how far an interrupted act had come.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace

from imi_monitor.git import admin_dir as git_admin_dir
from imi_monitor.git import layout
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git


BESIDE = ".imi-trash"
GITFILE = "gitfile"  # of an entry that is being brought back


def trash_roots(found: Target) -> list[str]:
    """The folders that can hold the trash for this worktree, best first; Refused when there is none."""
    device = os.lstat(found.path).st_dev
    parent = os.path.dirname(found.path)
    places = []
    if os.stat(found.repository.common_dir).st_dev == device:
        places.append(os.path.join(found.repository.common_dir, "imi", "trash"))
    if os.stat(parent).st_dev == device and not _inside_work_tree(found, parent):
        places.append(os.path.join(parent, BESIDE))
    if not places:
        raise other_file_system(found)
    return places


def other_file_system(found: Target) -> Refused:
    return Refused(
        f"{safe(found.name)} lies on another file system than its repository and cannot be moved into a trash without "
        f"copying: nothing was done; `git worktree move` it beside {safe(found.repository.home)} first",
        code="other-file-system",
    )


def prepare_entry(trash_dir: str) -> None:
    """Make the folder of one trash entry, readable by nobody else."""
    root = os.path.dirname(trash_dir)
    for attempt in range(3):
        os.makedirs(root, mode=0o700, exist_ok=True)
        for folder in (root, os.path.dirname(root)) if os.path.basename(root) == "trash" else (root,):
            _make_private(folder)
        try:
            os.mkdir(trash_dir, 0o700)
            return
        except FileNotFoundError:  # another removal found the root empty and took it away just now
            if attempt == 2:
                raise


def discard_entry(trash_dir: str) -> None:
    """Take an entry's folder away again once nothing of the worktree is in it."""
    import shutil

    copy = os.path.join(trash_dir, "admin")
    if os.path.lexists(copy):
        shutil.rmtree(copy)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(trash_dir, GITFILE))
    drop_if_empty(trash_dir)
    drop_root_if_empty(os.path.dirname(trash_dir))


def drop_root_if_empty(root: str) -> None:
    """The trash itself goes with its last entry, so that nothing of ours is left behind in a repository."""
    drop_if_empty(root)
    if os.path.basename(root) == "trash":
        drop_if_empty(os.path.dirname(root))


def drop_if_empty(folder: str) -> None:
    with suppress(OSError):  # something else is in it, or it is gone already
        os.rmdir(folder)


def _make_private(folder: str) -> None:
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise Refused(
            f"{safe(folder)} should be imi's own folder and is not: look at it yourself", code="trash-foreign"
        )
    if stat.S_IMODE(info.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _inside_work_tree(found: Target, folder: str) -> bool:
    """Whether the folder lies in a work tree of the repository, where the trash would show up as untracked files."""
    trees = [item.path for item in layout.linked_worktrees(found.repository.common_dir)]
    trees += [found.repository.main_path] if found.repository.main_path else []
    real = os.path.realpath(folder)
    return any(real == tree or real.startswith(tree + os.sep) for tree in map(os.path.realpath, trees))


# `actions/worktree_lookup.py` knows worktrees in the trash by this beginning of their lock.
LOCK_PREFIX = "imi trash "


@dataclass(frozen=True, slots=True)
class TrashedWorktree:
    """Everything is text or a number, so that it can be kept as JSON in the intent and in the trash's row."""

    id: str
    repo_name: str
    name: str
    common_dir: str
    admin_dir: str
    path: str
    trash_dir: str
    inode: int
    gitfile: str  # the bytes of the folder's own `.git` file
    head: str
    gitdir: str
    locked: str | None
    branch: str | None  # None: it was detached
    sha: str | None  # None: it was unborn
    agent: str
    how: str
    overridden: tuple[str, ...]
    boot: str
    uptime: float

    @property
    def folder(self) -> str:
        """Where the worktree's folder lies in the trash."""
        return os.path.join(self.trash_dir, "worktree")

    @property
    def copy(self) -> str:
        return os.path.join(self.trash_dir, "admin")

    @property
    def pointer(self) -> str:
        """What the admin directory says while the folder lies in the trash."""
        return os.path.join(self.folder, ".git") + "\n"

    @property
    def lock_text(self) -> str:
        return f"{LOCK_PREFIX}{self.id}: imi undo brings it back"

    @property
    def parked(self) -> git_admin_dir.AdminFiles:
        return git_admin_dir.AdminFiles(self.head, self.gitdir, self.locked)

    @property
    def detach_to(self) -> str | None:
        """The commit that HEAD names while the branch is given free; None when there is nothing to free."""
        return self.sha if self.branch is not None else None

    @property
    def in_trash(self) -> bool:
        return os.path.lexists(self.folder)

    @property
    def is_recorded(self) -> bool:
        """Whether the admin directory is still the one of this worktree: somebody may have taken it away by hand, and git
        given its name to another worktree. One that is gone is no other's."""
        where = git_admin_dir.read_pointer(self.admin_dir)
        if where is None or where.rstrip("\n").endswith(f"/{self.id}/worktree/.git"):
            return True
        made_anew = self.in_trash and os.path.lexists(self.path)
        return (where == self.gitdir and not made_anew) or git_admin_dir.is_locked_by(
            self.admin_dir, f"{LOCK_PREFIX}{self.id}"
        )

    def data(self) -> dict[str, object]:
        return {**asdict(self), "overridden": list(self.overridden)}

    def under(self, common_dir: str) -> TrashedWorktree:
        """The same parcel after its repository was moved as a whole, with the trash inside it."""
        if common_dir == self.common_dir:
            return self

        def moved(path: str) -> str:
            inside = path.startswith(self.common_dir + os.sep)
            return common_dir + path[len(self.common_dir) :] if inside else path

        gitfile = "gitdir: " + moved(self.gitfile.removeprefix("gitdir: "))
        return replace(
            self,
            common_dir=common_dir,
            admin_dir=moved(self.admin_dir),
            trash_dir=moved(self.trash_dir),
            gitfile=gitfile,
        )

    @classmethod
    def of(cls, data: dict[str, object]) -> TrashedWorktree:
        """From what `data` gave, when it was read back from JSON."""
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        if len(known) < len(fields(cls)):
            raise RegistryError(
                f"the record of {safe(str(data.get('name')))} in the trash is not of this version of imi"
            )
        overridden = data["overridden"]
        known["overridden"] = tuple(map(str, overridden)) if isinstance(overridden, list) else ()
        return cls(**known)  # type: ignore[arg-type]


def move_to_trash(parcel: TrashedWorktree, git: Git) -> None:
    """Into the trash: lock, move, pointer, HEAD. In this order nothing can prune the worktree on the way."""
    if parcel.in_trash:
        _refuse_reused(parcel)
    else:
        git_admin_dir.lock(parcel.admin_dir, parcel.lock_text)
        git_admin_dir.copy_admin_dir(parcel.admin_dir, parcel.copy)
        _rename_checked(parcel.path, parcel.folder, parcel.inode)
    git_admin_dir.restore_admin_dir(parcel.admin_dir, parcel.copy)
    git_admin_dir.lock(parcel.admin_dir, parcel.lock_text)
    git_admin_dir.write_pointer(parcel.admin_dir, parcel.pointer)
    git_admin_dir.detach_head(git.at(parcel.admin_dir, None), parcel.detach_to)
    git_admin_dir.fsync_folder(parcel.admin_dir)


def move_back(parcel: TrashedWorktree, git: Git, *, head: str) -> None:
    """Out of the trash: the same steps backwards, so that the lock is the last to go. `head` is what HEAD shall say."""
    _refuse_reused(parcel)
    if parcel.in_trash:
        os.makedirs(os.path.dirname(parcel.path), exist_ok=True)
        if os.path.lexists(parcel.path):
            raise Refused(f"there is something at {safe(parcel.path)} now: move it away first", code="exists")
        _rename_checked(parcel.folder, parcel.path, os.lstat(parcel.folder).st_ino)
    git_admin_dir.restore_admin_dir(parcel.admin_dir, parcel.copy)
    if os.path.isdir(parcel.trash_dir):  # else a crash came when all this had been done
        # not by a temporary file beside it: there every name may be somebody's
        git_admin_dir.write_file(
            os.path.join(parcel.path, ".git"), parcel.gitfile, by=os.path.join(parcel.trash_dir, GITFILE)
        )
    git_admin_dir.write_pointer(parcel.admin_dir, parcel.gitdir)
    git_admin_dir.restore_head(git.at(parcel.admin_dir, None), head, parcel.branch if head == parcel.head else None)
    restore_git_records(parcel)


def restore_git_records(parcel: TrashedWorktree) -> None:
    """The folder is in its place: let git's records say so again, as far as it was us who changed them."""
    if git_admin_dir.read_pointer(parcel.admin_dir) == parcel.pointer:
        git_admin_dir.write_pointer(parcel.admin_dir, parcel.gitdir)
    git_admin_dir.remove_temporary_files(parcel.admin_dir)
    git_admin_dir.unlock(parcel.admin_dir, parcel.parked, LOCK_PREFIX)


def _refuse_reused(parcel: TrashedWorktree) -> None:
    if not parcel.is_recorded:
        raise Refused(
            f"git has given the record of {safe(parcel.name)}, {safe(parcel.admin_dir)}, to another worktree meanwhile: "
            f"nothing was done; its files are in {safe(parcel.folder)}",
            code="admin-reused",
        )


def _rename_checked(source: str, target: str, inode: int) -> None:
    """One rename, of exactly the folder that was looked at."""
    if os.lstat(source).st_ino != inode:
        raise Refused(f"{safe(source)} is not the folder it was: nothing was moved", code="changed")
    os.rename(source, target)
    if os.lstat(target).st_ino != inode:  # exchanged between the look and the move
        os.rename(target, source)
        raise Refused(f"{safe(source)} was exchanged while it was being moved: it was put back", code="changed")
    git_admin_dir.fsync_folder(os.path.dirname(source))
    git_admin_dir.fsync_folder(os.path.dirname(target))
