"""The trash folder, and moving one worktree into it and back.

The trash is private (0700) and on the worktree's own file system, so that a removal and its undo are one rename each: inside
the repository's git directory, where no work tree shows it, else in a hidden folder beside the worktree.

`move_to_trash` and `move_back` change only the disk. Each checks where the folder is and does the remaining steps, so it can
be repeated after a crash. `TrashedWorktree.in_trash` alone decides how far an interrupted move had come.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.fast.folder_removal import remove_folder
from imi_monitor.fast.frozen_dataclass import asdict, dataclass, replace
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import git_admin_dir, layout
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git


SIBLING_TRASH = ".imi-trash"
NOTE = "note.json"  # see `trash_note`
TEMPORARY = ".imi-new"
GITFILE = "gitfile"  # temporary copy of the `.git` file, during a restore


def trash_roots(found: Target) -> Iterator[str]:
    """Yield the folders on the worktree's file system that can hold its trash, best first."""
    device = os.lstat(found.path).st_dev
    parent = os.path.dirname(found.path)
    if os.stat(found.repository.common_dir).st_dev == device:
        yield repository_trash(found.repository.common_dir)
    if os.stat(parent).st_dev == device and not _inside_work_tree(found, parent):
        yield os.path.join(parent, SIBLING_TRASH)


def repository_trash(common_dir: str) -> str:
    """The trash inside a repository's git directory."""
    return os.path.join(common_dir, "imi", "trash")


def other_file_system(found: Target) -> Refused:
    return Refused(
        f"{safe(found.name)} is on another file system than its repository and cannot be moved into a trash without "
        f"copying: nothing was done; `git worktree move` it beside {safe(found.repository.home)} first",
        code="other-file-system",
    )


def prepare_entry(trash_dir: str) -> None:
    """Create the folder of one trash entry, readable by its owner only."""
    root = os.path.dirname(trash_dir)
    for attempt in range(3):
        os.makedirs(root, mode=0o700, exist_ok=True)
        for folder in (root, os.path.dirname(root)) if os.path.basename(root) == "trash" else (root,):
            _require_private(folder)
        try:
            os.mkdir(trash_dir, 0o700)
            return
        except FileNotFoundError:  # another removal deleted the empty root in between
            if attempt == 2:
                raise


def discard_entry(trash_dir: str) -> None:
    """Delete imi's own files of an entry after the worktree has left it. Anything else in it stays, and is listed."""
    if is_folder(trash_dir):
        copy = os.path.join(trash_dir, "admin")
        if is_folder(copy):
            remove_folder(copy)
        for name in ("admin", GITFILE, NOTE + TEMPORARY, NOTE):  # the note last: it finds an interrupted restore
            _unlink(os.path.join(trash_dir, name))
    _remove_if_empty(trash_dir)
    remove_empty_root(os.path.dirname(trash_dir))


def is_folder(path: str, inode: int | None = None) -> bool:
    """True for a folder that is no link, and has this inode if one is given."""
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and inode in (None, info.st_ino)


def _unlink(path: str) -> None:
    if not is_folder(path):
        with suppress(FileNotFoundError):
            os.unlink(path)


def remove_empty_root(root: str) -> None:
    """Delete the trash folder after its last entry, so that imi leaves nothing behind in a repository."""
    _remove_if_empty(root)
    if os.path.basename(root) == "trash":
        _remove_if_empty(os.path.dirname(root))


def _remove_if_empty(folder: str) -> None:
    with suppress(OSError):  # not empty, or already deleted
        os.rmdir(folder)


def _require_private(folder: str) -> None:
    info = os.lstat(folder)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise Refused(
            f"{safe(folder)} is not a folder owned by you, so imi cannot use it as its trash: check what it is",
            code="trash-foreign",
        )
    if stat.S_IMODE(info.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _inside_work_tree(found: Target, folder: str) -> bool:
    """True if the folder is in a work tree of the repository, where git would list the trash as untracked."""
    trees = [item.path for item in layout.linked_worktrees(found.repository.common_dir)]
    trees += [found.repository.main_path] if found.repository.main_path else []
    real = os.path.realpath(folder)
    return any(real == tree or real.startswith(tree + os.sep) for tree in map(os.path.realpath, trees))


# `roster.py` recognises worktrees in the trash by this start of their lock.
LOCK_PREFIX = "imi trash "


@dataclass(frozen=True, slots=True)
class TrashedWorktree:
    """Everything needed to move one worktree into the trash and back, recorded before anything moves.

    All fields are JSON values: they are stored in the intent and in the trash entry.
    """

    id: str
    repo_name: str
    name: str
    common_dir: str
    admin_dir: str
    path: str
    trash_dir: str
    inode: int
    gitfile: str  # content of the worktree's `.git` file
    head: str
    gitdir: str
    locked: str | None
    branch: str | None  # None: detached HEAD
    sha: str | None  # None: no commit yet
    agent: str
    how: str
    overridden: tuple[str, ...]
    boot: str
    uptime: float

    @property
    def folder(self) -> str:
        """The worktree's folder in the trash."""
        return os.path.join(self.trash_dir, "worktree")

    @property
    def copy(self) -> str:
        """A copy of git's admin directory, in case `git worktree prune` deletes the original."""
        return os.path.join(self.trash_dir, "admin")

    @property
    def pointer(self) -> str:
        """Content of the admin directory's `gitdir` file while the folder is in the trash."""
        return os.path.join(self.folder, ".git") + "\n"

    @property
    def lock_text(self) -> str:
        return f"{LOCK_PREFIX}{self.id}: imi undo brings it back"

    @property
    def parked(self) -> git_admin_dir.AdminFiles:
        return git_admin_dir.AdminFiles(self.head, self.gitdir, self.locked)

    @property
    def detach_to(self) -> str | None:
        """The commit HEAD is detached to, so that the branch can be checked out elsewhere; None if it was detached."""
        return self.sha if self.branch is not None else None

    @property
    def in_trash(self) -> bool:
        return os.path.lexists(self.folder)

    @property
    def is_recorded(self) -> bool:
        """False if the admin directory was deleted and its name reused by another worktree. A missing one counts as ours."""
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
        """The same worktree with its paths below `common_dir`, after the whole repository was moved."""
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
        """Read what `data` returned back from JSON."""
        known = {name: data[name] for name in cls.__match_args__ if name in data}
        if len(known) < len(cls.__match_args__):
            raise RegistryError(
                f"the trash entry of {safe(str(data.get('name')))} was written by another version of imi: use that version"
            )
        overridden = data["overridden"]
        known["overridden"] = tuple(map(str, overridden)) if isinstance(overridden, list) else ()
        return cls(**known)  # type: ignore[arg-type]


def move_to_trash(trashed: TrashedWorktree, git: Git) -> None:
    """Lock, rename, update git's pointer, detach HEAD. In this order `git worktree prune` never sees it unprotected."""
    if trashed.in_trash:
        _refuse_reused(trashed)
    else:
        git_admin_dir.lock(trashed.admin_dir, trashed.lock_text)
        git_admin_dir.copy_admin_dir(trashed.admin_dir, trashed.copy)
        _rename_checked(trashed, trashed.path, trashed.folder)
    refuse_exchanged(trashed)
    git_admin_dir.restore_admin_dir(trashed.admin_dir, trashed.copy)
    git_admin_dir.lock(trashed.admin_dir, trashed.lock_text)
    git_admin_dir.write_pointer(trashed.admin_dir, trashed.pointer)
    git_admin_dir.detach_head(git.at(trashed.admin_dir, None), trashed.detach_to)
    git_admin_dir.fsync_folder(trashed.admin_dir)
    refuse_exchanged(trashed)


def is_half_back(trashed: TrashedWorktree) -> bool:
    """True if `move_back` was interrupted after the rename: the folder is in its place, git's record still in the trash."""
    if trashed.in_trash:
        return False
    detached = git_admin_dir.is_detached_at(trashed.admin_dir, trashed.detach_to)
    return git_admin_dir.read_pointer(trashed.admin_dir) == trashed.pointer or (
        detached and git_admin_dir.is_locked_by(trashed.admin_dir, f"{LOCK_PREFIX}{trashed.id}")
    )


def move_back(trashed: TrashedWorktree, git: Git, *, head: str) -> None:
    """Undo `move_to_trash` in reverse order, the lock last. `head` becomes the content of HEAD."""
    _refuse_reused(trashed)
    if trashed.in_trash:
        refuse_exchanged(trashed)
        refuse_recordless(trashed)
        os.makedirs(os.path.dirname(trashed.path), exist_ok=True)
        if os.path.lexists(trashed.path):
            raise Refused(f"{safe(trashed.path)} exists: move it away first", code="exists")
        _rename_checked(trashed, trashed.folder, trashed.path)
    _refuse_misplaced(trashed)
    if is_folder(trashed.copy):
        git_admin_dir.restore_admin_dir(trashed.admin_dir, trashed.copy)
    if is_folder(trashed.trash_dir):  # else these steps were complete before a crash
        # the temporary file is in the trash: in the worktree its name could collide with a user's file
        git_admin_dir.write_file(
            os.path.join(trashed.path, ".git"), trashed.gitfile, by=os.path.join(trashed.trash_dir, GITFILE)
        )
    git_admin_dir.write_pointer(trashed.admin_dir, trashed.gitdir)
    git_admin_dir.restore_head(git.at(trashed.admin_dir, None), head, trashed.branch if head == trashed.head else None)
    restore_git_records(trashed)
    _refuse_misplaced(trashed)
    if not layout.points_back(trashed.admin_dir, trashed.path):
        raise Refused(
            f"{safe(trashed.path)} is back, but git does not list it: run `imi repair`", code="restore-broken"
        )


def restore_git_records(trashed: TrashedWorktree) -> None:
    """Take imi's lock and temporary files off git's admin directory, if it is there."""
    git_admin_dir.remove_temporary_files(trashed.admin_dir)
    git_admin_dir.unlock(trashed.admin_dir, trashed.parked, LOCK_PREFIX)


def _refuse_reused(trashed: TrashedWorktree) -> None:
    if not trashed.is_recorded:
        raise Refused(
            f"git has reused {safe(trashed.admin_dir)}, the record of {safe(trashed.name)}, for another worktree: nothing "
            f"was done; the files are in {safe(trashed.folder)}",
            code="admin-reused",
        )


def refuse_exchanged(trashed: TrashedWorktree) -> None:
    """Refuse if the entry does not hold the folder that was moved into it: any process of the user can exchange it."""
    root = os.path.dirname(trashed.trash_dir)
    above = [os.path.dirname(root)] if os.path.basename(root) == "trash" else []
    for folder in (*above, root, trashed.trash_dir, trashed.folder):
        if not is_folder(folder):
            raise _exchanged(trashed, f"{safe(folder)} is not a folder any more but a link or a file")
    if not is_folder(trashed.folder, trashed.inode):
        copied = f"; if the repository was copied, `imi repair {safe(trashed.trash_dir)}` accepts it"
        raise _exchanged(trashed, f"{safe(trashed.folder)} is another folder than the removed one", copied)


def refuse_recordless(trashed: TrashedWorktree) -> None:
    """Refuse if neither git's record of the worktree nor its copy is left: git could not use the restored folder."""
    kept = (trashed.admin_dir, trashed.copy) if is_folder(trashed.copy) else (trashed.admin_dir,)
    if not any(os.path.lexists(os.path.join(folder, "HEAD")) for folder in kept):
        raise Refused(
            f"git's record of {safe(trashed.name)} is gone, and so is its copy: the files are in {safe(trashed.folder)}",
            code="admin-gone",
        )


def _exchanged(trashed: TrashedWorktree, what: str, advice: str = "") -> Refused:
    where = safe(trashed.trash_dir)
    return Refused(
        f"{what}: it was left alone, look for the files of {safe(trashed.name)} in {where}{advice}", code="exchanged"
    )


def _refuse_misplaced(trashed: TrashedWorktree) -> None:
    """Refuse to record a restore unless the removed folder itself is in its place."""
    if not is_folder(trashed.path, trashed.inode):
        raise Refused(
            f"{safe(trashed.path)} is not the folder that was removed: look for the files of {safe(trashed.name)} there "
            f"and in {safe(trashed.trash_dir)}",
            code="exchanged",
        )


def _rename_checked(trashed: TrashedWorktree, source: str, target: str) -> None:
    """Rename exactly the removed folder; one that was exchanged in between is put back, as when the entry was."""
    if not is_folder(source, trashed.inode):
        raise Refused(f"{safe(source)} is not the folder that was inspected: nothing was moved", code="changed")
    os.rename(source, target)
    if not is_folder(target, trashed.inode) or not is_folder(trashed.trash_dir):
        os.rename(target, source)
        raise Refused(f"{safe(source)} was exchanged during the move: it was put back", code="changed")
    git_admin_dir.fsync_folder(os.path.dirname(source))
    git_admin_dir.fsync_folder(os.path.dirname(target))
