"""Trash entries of files: what an act on the diff replaced, kept byte for byte, and its restore.

The entry is recorded before the first file moves. A file that was taken lies in the entry's folder under its number; where none
lies there, the act did not come that far, and the restore leaves the file alone.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.files import file_note
from imi_monitor.actions.removal import trash_folder
from imi_monitor.fast.folder_removal import remove_folder
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError, Refused, RegistryError
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, events, repositories, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.index_edit import Entry, IndexEdit
    from imi_monitor.git.runner import Git
    from imi_monitor.git.worktree_files import WorktreeFiles


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """One file of an entry: `existed` before the act, which left a file with the digest `after` (None: none) where it `writes`.

    The index had `staged_before` and has `staged_after`; `number` names what is kept.
    """

    number: int
    path: str
    writes: bool
    existed: bool
    after: str | None
    staged_before: Entry | None
    staged_after: Entry | None

    @property
    def kept(self) -> str:
        return str(self.number)

    @property
    def kept_staged(self) -> str:
        return f"{self.number}.staged"

    def data(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in type(self).__match_args__}


class FileEntry:
    """A trash entry of files, with the paths its repository has now."""

    def __init__(self, context: Context, entry: trash.TrashEntry) -> None:
        self.entry = entry
        before = str(entry.data["common_dir"])
        self.common_dir = before
        if not os.path.isdir(before):
            self.common_dir = repositories.list_common_dirs(context.connection).get(entry.repo_name, before)
        self.folder, self.admin_dir = (
            self._place(str(entry.data[name]), before) for name in ("trash_dir", "admin_dir")
        )
        files = entry.data["files"]
        assert isinstance(files, list)
        self.files = [_replaced(one) for one in files]

    def _place(self, path: str, before: str) -> str:
        """The path, also after the whole repository was moved."""
        inside = path == before or path.startswith(before + os.sep)
        return self.common_dir + path[len(before) :] if inside else path

    @property
    def names(self) -> str:
        """`src/api.py and 2 more files`."""
        first, more = safe(self.files[0].path, 200), len(self.files) - 1
        return f"{first} and {count(more, 'more file')}" if more else first

    @property
    def sentence(self) -> str:
        """`src/api.py, which was discarded in feat-x`."""
        return f"{self.names}, {self.entry.how} in {safe(self.entry.worktree_name)}"

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.files]

    @property
    def restorable(self) -> bool:
        return os.path.isdir(self.folder)

    def refuse_restore(self, context: Context) -> None:
        """Raise if the files cannot be restored in the present state."""
        _refuse_restore(context, self)

    def restore(self, context: Context, *, agent: str, recorded: bool = True) -> list[str]:
        """Put every file and its staged content back; returns warnings. Refused, and nothing is changed, for a newer file.

        Without `recorded` the registry cannot be used and learns nothing of it.
        """
        return _restore(context, self, agent=agent, recorded=recorded)

    def purge(self, context: Context, agent: str, *, recorded: bool = True) -> None:
        """Delete the entry for good; without `recorded` the registry cannot be used and learns nothing of it."""
        if recorded:
            _record_purged(context, self, agent)
        try:
            discard(self.folder)
        except (OSError, ImiError) as error:
            if not recorded:  # else what is left is listed as an entry without a note
                why = error.strerror if isinstance(error, OSError) else error.sentence
                raise Refused(f"{self.names} could not be purged: {why}", code="purge-failed") from error


def _replaced(data: dict[str, object]) -> ReplacedFile:
    before, after = data["staged_before"], data["staged_after"]
    return ReplacedFile(
        int(str(data["number"])),
        str(data["path"]),
        bool(data["writes"]),
        bool(data["existed"]),
        None if data["after"] is None else str(data["after"]),
        (str(before[0]), str(before[1])) if isinstance(before, list) else None,
        (str(after[0]), str(after[1])) if isinstance(after, list) else None,
    )


def new_folder(target: Target) -> str:
    """Make the private folder of a new entry on the worktree's file system."""
    root = next(trash_folder.trash_roots(target), None)
    if root is None:
        raise Refused(
            f"{safe(target.name)} is on another file system than its repository, so nothing can be kept for `imi undo`: "
            "nothing was changed; use git itself",
            code="other-file-system",
        )
    folder = os.path.join(root, os.urandom(5).hex())
    trash_folder.prepare_entry(folder)
    return folder


def record(context: Context, target: Target, folder: str, files: list[ReplacedFile], *, how: str, agent: str) -> str:
    """Record the entry and its event; returns the entry's id, which is the folder's name."""
    identity = os.path.basename(folder)
    data: dict[str, object] = {
        "trash_dir": folder,
        "common_dir": target.repository.common_dir,
        "admin_dir": target.admin_dir,
        "files": [one.data() for one in files],
        "boot": host.boot().partition("/")[0],
        "uptime": host.uptime(),
    }
    named = {"repo_name": context.repo_name(target.repository) or layout.repository_name(target.repository)}
    about_entry = {"id": identity, "worktree_name": target.name, "path": target.path, "removed_by": agent, "how": how}
    file_note.write(context, {**named, **about_entry}, folder, data)

    def put(connection: sqlite3.Connection) -> None:
        repo_name = context.register(target.repository, connection)
        trash.add(
            connection,
            identity,
            repo_name,
            target.name,
            path=target.path,
            trash_path=folder,
            by=agent,
            how=how,
            data=data,
        )
        about: dict[str, object] = {"how": how, "files": [one.path for one in files[:20]], "trash_id": identity}
        events.record(connection, "files.replaced", repo_name, target.name, agent_id=agent, data=about)

    db.transact(context.connection, put)
    return identity


def drop(context: Context, identity: str, folder: str) -> None:
    """End an entry whose act was undone at once."""
    db.transact(context.connection, trash.mark_restored, identity)
    discard(folder)


def discard(folder: str) -> None:
    """Delete the folder of an entry that was restored or is purged."""
    if trash_folder.is_folder(folder):
        remove_folder(folder)
    trash_folder.remove_empty_root(os.path.dirname(folder))


def _refuse_restore(context: Context, found: FileEntry) -> None:
    from imi_monitor.git.worktree_files import WorktreeFiles  # restoring a worktree does not need it

    target = _target(context, found)
    if not found.restorable:
        raise Refused(f"{found.names} cannot be restored: {safe(found.folder)} was deleted", code="trash-gone")
    files = WorktreeFiles(target.path)
    for one in found.files:
        _refuse_newer(files, found, one)


def adopt(context: Context, entry: trash.TrashEntry) -> trash.TrashEntry:
    """List an entry in the registry that only its note describes."""

    def put(connection: sqlite3.Connection) -> None:
        place = FileEntry(context, entry).common_dir
        repo_name = context.register(layout.repository_at(place), connection)
        trash.adopt(
            connection,
            entry.id,
            repo_name,
            entry.worktree_name,
            path=entry.path,
            trash_path=entry.trash_path,
            at=entry.removed_at,
            by=entry.removed_by,
            how=entry.how,
            data=entry.data,
        )

    db.transact(context.connection, put)
    return entry


def _restore(context: Context, found: FileEntry, *, agent: str, recorded: bool) -> list[str]:
    from imi_monitor.git.index_edit import IndexEdit
    from imi_monitor.git.worktree_files import WorktreeFiles

    target = _target(context, found)
    _refuse_restore(context, found)
    git = worktree_lookup.git_in(context, target)
    with IndexEdit(git) as index:
        warnings = _restore_index(git, index, found)
        _put_back(WorktreeFiles(target.path, found.folder), found)
        index.commit()
    if recorded:
        db.transact(context.connection, _record_restored, found, agent)
    discard(found.folder)
    return warnings


def _target(context: Context, found: FileEntry) -> Target:
    """The worktree of the entry, at the place where it was."""
    repository = layout.repository_at(found.common_dir) if os.path.isdir(found.common_dir) else None
    trees = worktree_lookup.list_worktrees(context, repository) if repository is not None else []
    target = next((tree for tree in trees if tree.admin_dir == found.admin_dir and not tree.missing), None)
    if target is None:
        raise Refused(
            f"{found.names} cannot be restored while {safe(found.entry.worktree_name)} is gone: its content is in "
            f"{safe(found.folder)}",
            code="missing",
        )
    return target


def _refuse_newer(files: WorktreeFiles, found: FileEntry, one: ReplacedFile) -> None:
    now = files.read(one.path) if _moves(found, one) else None
    if now is not None and now.digest != one.after:
        kept = f"; the earlier one is {safe(os.path.join(found.folder, one.kept))}" if one.existed else ""
        raise Refused(
            f"{safe(one.path)} changed since it was {found.entry.how}: nothing was restored{kept}", code="changed"
        )


def _moves(found: FileEntry, one: ReplacedFile) -> bool:
    """True if a restore has to move the file: the act had replaced it, and no restore has put it back yet."""
    return one.writes and (not one.existed or os.path.lexists(os.path.join(found.folder, one.kept)))


def _restore_index(git: Git, index: IndexEdit, found: FileEntry) -> list[str]:
    from imi_monitor.git import file_content

    changed = [one for one in found.files if one.staged_before != one.staged_after]
    now = index.entries(one.path for one in changed)
    warnings = []
    wanted: dict[str, Entry | None] = {}
    for one in changed:
        if now.get(one.path) != one.staged_after:
            warnings.append(f"{safe(one.path)} was staged anew since: that stays staged")
            continue
        wanted[one.path] = one.staged_before
        kept = os.path.join(found.folder, one.kept_staged)
        if one.staged_before is not None and os.path.lexists(kept):  # git may have deleted the object since
            with open(kept, "rb") as file:
                file_content.store_blob(git, file.read())
    if wanted:
        index.set(wanted)
    return warnings


def _put_back(files: WorktreeFiles, found: FileEntry) -> None:
    for one in found.files:
        if _moves(found, one):
            now = files.read(one.path)
            if now is not None:
                files.take(one.path, now, f"{one.kept}.after")
            if one.existed:
                files.put_back(one.path, one.kept)


def _record_restored(connection: sqlite3.Connection, found: FileEntry, agent: str) -> None:
    entry = found.entry
    if not trash.mark_restored(connection, entry.id):
        raise RegistryError(f"another imi restored {found.names} meanwhile", code="registry-changed")
    about: dict[str, object] = {"files": [one.path for one in found.files[:20]], "trash_id": entry.id}
    events.record(connection, "files.restored", entry.repo_name, entry.worktree_name, agent_id=agent, data=about)


def _record_purged(context: Context, found: FileEntry, agent: str) -> None:
    entry = found.entry

    def mark(connection: sqlite3.Connection) -> None:
        if not trash.mark_purged(connection, entry.id):
            raise Refused(f"{found.names} was restored or purged meanwhile", code="trash-gone")
        about: dict[str, object] = {"trash_id": entry.id}
        events.record(connection, "files.purged", entry.repo_name, entry.worktree_name, agent_id=agent, data=about)

    db.transact_with_ballast(context.connection, mark)
