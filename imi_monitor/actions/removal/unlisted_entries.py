"""Trash entries that the registry does not list: it was set aside, replaced, is new, or cannot be read.

They are found by looking into the trash folders of the repository around the caller and of the registered ones, and are
described by their notes. An entry whose note cannot be used is listed with the reason and the place of its files.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.files import file_note
from imi_monitor.actions.files.file_note import FileNote, FileNoteError
from imi_monitor.actions.removal import note_check, purge, restore, trash_folder, trash_note
from imi_monitor.actions.removal.trash_note import NoteError, TrashNote
from imi_monitor.fast import json_writer
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import operations, registry_identity, trash, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.trash_folder import TrashedWorktree

RESTORABLE, INTERRUPTED, UNUSABLE = "restorable", "interrupted", "unusable"
_OWN_FILES = {file_note.NAME, trash_folder.NOTE, trash_folder.NOTE + trash_folder.TEMPORARY}
_ABANDONED_SECONDS = 3600.0
_LONGEST_REMOVAL_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class UnlistedEntry:
    """One entry. `problem` is why it is not restored as it is: a clause that also says what to do."""

    id: str
    folder: str
    repository: layout.Repository
    kind: str
    problem: str | None
    note: TrashNote | None = None
    trashed: TrashedWorktree | None = None
    files: trash.TrashEntry | None = None  # of an entry of files instead of a worktree

    @property
    def name(self) -> str:
        if self.files is not None:
            return self.files.worktree_name
        return self.trashed.name if self.trashed is not None else self.id

    @property
    def removed_at(self) -> str:
        """The noted time of the removal; empty without a usable note."""
        if self.files is not None:
            return self.files.removed_at
        return "" if self.note is None else self.note.removed_at or self.note.began_at

    def as_entry(self) -> trash.TrashEntry | None:
        """The entry in the form of the registry's rows, as far as its note describes it."""
        if self.note is None or self.trashed is None:
            return self.files
        trashed = self.trashed
        where = (trashed.id, trashed.repo_name, trashed.name, self.note.host, trashed.path, trashed.folder)
        removal = (self.removed_at, trashed.agent, trashed.how, json_writer.dumps(trashed.data()))
        return trash.TrashEntry((*where, *removal, None, None))


def find_unlisted(
    context: Context, repositories: list[layout.Repository] | None = None, *, allowed: tuple[str, ...] = ()
) -> list[UnlistedEntry]:
    """The entries that the registry does not list, newest first. `allowed` are folders that the user vouches for."""
    candidates: dict[str, list[layout.Repository]] = {}
    for repository in nearby_repositories(context) if repositories is None else repositories:
        for root in _trash_roots(context, repository):
            for folder in _entry_folders(root):
                candidates.setdefault(folder, []).append(repository)
    if not candidates:
        return []
    # read after the folders: a removal or restore that runs meanwhile is in the registry by now
    listed = _listed_folders(context)
    found = [
        entry
        for folder, around in candidates.items()
        if folder not in listed and (entry := _examine(context, folder, around, allowed))
    ]
    return sorted(found, key=lambda entry: entry.removed_at, reverse=True)


def nearby_repositories(context: Context) -> list[layout.Repository]:
    """The repository of `--repo`; else the one around the caller, and those of the registry."""
    if context.explicit_repo:
        return [context.repository()]
    found: dict[str, layout.Repository] = {}
    with suppress(ImiError):  # no folder, or one that was tampered with
        around = context.find_repository()
        if around is not None:
            found[around.common_dir] = around
    for repository in worktree_lookup.known_repositories(context):
        found.setdefault(repository.common_dir, repository)
    return list(found.values())


def discard_abandoned(context: Context, repository: layout.Repository) -> None:
    """Delete empty entries that a crash left before anything was moved; younger ones may belong to a running removal."""
    listed = _listed_folders(context)
    for root in _trash_roots(context, repository):
        for folder in _entry_folders(root):
            if folder not in listed and _is_empty(folder) and _age(folder) > _ABANDONED_SECONDS:
                trash_folder.discard_entry(folder)
        trash_folder.remove_empty_root(root)


def _trash_roots(context: Context, repository: layout.Repository) -> list[str]:
    """The existing trash folders that can hold worktrees of this repository; only private ones of this user."""
    parents = {os.path.dirname(repository.home)}
    for item in layout.linked_worktrees(repository.common_dir):
        above = os.path.dirname(item.path)
        root = os.path.dirname(above)
        # git's record of a removed worktree names its folder in the trash
        parents.add(os.path.dirname(root) if os.path.basename(root) == trash_folder.SIBLING_TRASH else above)
    repo_name = context.repo_name(repository)
    if repo_name is not None:
        rows = worktrees.list_worktrees(context.connection, repo_name, inactive=True)
        parents |= {os.path.dirname(row.path) for row in rows}
    roots = [trash_folder.repository_trash(repository.common_dir)]
    roots += sorted({os.path.join(os.path.realpath(parent), trash_folder.SIBLING_TRASH) for parent in parents})
    return [root for root in roots if _is_mine(root)]


def _is_mine(folder: str) -> bool:
    return trash_folder.is_folder(folder) and os.lstat(folder).st_uid == os.geteuid()


def _entry_folders(root: str) -> list[str]:
    """Everything in a trash folder that can be an entry: folders, and links in place of one."""
    try:
        with os.scandir(root) as entries:
            return sorted(entry.path for entry in entries if not entry.is_file(follow_symlinks=False))
    except OSError:
        return []


def _listed_folders(context: Context) -> set[str]:
    """The entry folders of the registry: of kept entries, and of operations that are not finished."""
    found: set[str] = set()
    of_files = trash.list_kept(context.connection, what="files")
    if of_files:
        from imi_monitor.actions.files import file_trash

        found = {file_trash.FileEntry(context, entry).folder for entry in of_files}
    for entry in trash.list_kept(context.connection):
        with suppress(RegistryError):  # written by another version of imi
            found.add(restore.trashed_worktree(context, entry).trash_dir)
    for operation in operations.list_unfinished(context.connection):
        found |= {str(operation.data[key]) for key in ("trash_dir", "aside") if key in operation.data}
    return found | {folder + purge.SUFFIX for folder in found}


def _examine(
    context: Context, folder: str, around: list[layout.Repository], allowed: tuple[str, ...]
) -> UnlistedEntry | None:
    """Describe one folder; None if it is not of these repositories, is being moved, or holds nothing of the user's."""
    identity = os.path.basename(folder)
    if identity.endswith(purge.SUFFIX):
        problem = "its purge was interrupted: delete the folder if you need nothing in it"
        return UnlistedEntry(identity.removesuffix(purge.SUFFIX), folder, around[0], UNUSABLE, problem)
    if not trash_folder.is_folder(folder):
        return UnlistedEntry(identity, folder, around[0], UNUSABLE, "it is a link and not a folder of the trash")
    if _is_empty(folder):
        return None
    if file_note.exists(folder):
        return _examine_files(context, folder, around)
    try:
        note = trash_note.read_note(folder)
        repository = _repository_of(note, folder, around)
        if repository is None or _is_moving(note):
            return None
        trashed = note_check.bind(note, repository, folder)
    except NoteError as error:
        return UnlistedEntry(identity, folder, around[0], UNUSABLE, f"its note {error}: look for its files yourself")
    kind, why = _condition(context, repository, note, trashed, allowed)
    return UnlistedEntry(identity, folder, repository, kind, why, note, trashed)


def _examine_files(context: Context, folder: str, around: list[layout.Repository]) -> UnlistedEntry:
    """Describe an entry of files by its note."""
    identity, problem = os.path.basename(folder), ""
    for repository in around:
        try:
            note = file_note.read(folder, repository)
        except FileNoteError as error:
            problem = problem or str(error)
            continue
        other = safe(note.registry_path)
        elsewhere = _is_of_other_registry(context, note)
        why = f"the registry {other} lists it: use `--db {other}`" if elsewhere else None
        return UnlistedEntry(identity, folder, repository, UNUSABLE if why else RESTORABLE, why, files=note.entry)
    return UnlistedEntry(identity, folder, around[0], UNUSABLE, f"its note {problem}: look for its files yourself")


def _is_moving(note: TrashNote) -> bool:
    """True while the process that began the removal can still be at it; a dashboard that failed at it may live for days."""
    if note.process is None or not note.process.alive:
        return False
    return 0 <= host.uptime() - note.trashed.uptime < _LONGEST_REMOVAL_SECONDS  # it lives, so this is the note's boot


def _repository_of(note: TrashNote, folder: str, around: list[layout.Repository]) -> layout.Repository | None:
    """The repository of the entry: the one whose git directory holds it, else the noted one, else the one that marks it."""
    for repository in around:
        if os.path.dirname(folder) == trash_folder.repository_trash(repository.common_dir):
            return repository
    for repository in around:
        if os.path.realpath(note.trashed.common_dir) == repository.common_dir:
            return repository
    for repository in around:
        for item in layout.linked_worktrees(repository.common_dir):
            if (item.locked or "").startswith(f"{trash_folder.LOCK_PREFIX}{os.path.basename(folder)}"):
                return repository
    return None


def _condition(
    context: Context, repository: layout.Repository, note: TrashNote, trashed: TrashedWorktree, allowed: tuple[str, ...]
) -> tuple[str, str | None]:
    """What can be done with a bound entry, and what stands in the way."""
    if not trashed.in_trash:
        if trash_folder.is_folder(trashed.path, trashed.inode):
            return INTERRUPTED, "its move was interrupted: `imi repair` completes it"
        return UNUSABLE, f"its folder was deleted from the trash, and is not at {safe(trashed.path)}"
    accepted = any(
        os.path.realpath(folder) in (trashed.trash_dir, os.path.dirname(trashed.trash_dir)) for folder in allowed
    )
    here = safe(trashed.trash_dir)
    if not trash_folder.is_folder(trashed.folder):
        return UNUSABLE, "its folder was exchanged for a link or a file"
    if not accepted and not trash_folder.is_folder(trashed.folder, trashed.inode):
        return (
            UNUSABLE,
            f"its folder is not the removed one: if the repository was copied, `imi repair {here}` accepts it",
        )
    if not accepted and _is_of_other_registry(context, note):
        other = safe(note.registry_path)
        return (
            UNUSABLE,
            f"the registry {other} lists it: use `--db {other}`, or `imi repair {here}` to list it in this one",
        )
    return RESTORABLE, note_check.place_problem(context, repository, trashed, allowed)


def _is_of_other_registry(context: Context, note: TrashNote | FileNote) -> bool:
    """True if another registry that exists made the entry. That file is not opened: the note may name any."""
    if not os.path.lexists(note.registry_path) or os.path.realpath(context.database) == os.path.realpath(
        note.registry_path
    ):
        return False
    mine = registry_identity.registry_id(context.connection)
    return note.registry_id is None or note.registry_id != mine


def _is_empty(folder: str) -> bool:
    """True if nothing but imi's own unfinished files is in the entry."""
    try:
        names = set(os.listdir(folder))
    except OSError:
        return False
    if trash_folder.NOTE in names:
        with suppress(NoteError):
            trash_note.read_note(folder)
            return False
    return names <= _OWN_FILES


def _age(folder: str) -> float:
    try:
        return times.now().timestamp() - os.lstat(folder).st_mtime
    except OSError:
        return 0.0
