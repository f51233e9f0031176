"""What `imi repair` does in the trash: list entries the registry does not list, complete interrupted moves, note restores
that were made without the registry, and accept the folders of a copied repository."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

from imi_monitor.actions.removal import adoption, restore, trash_folder, unlisted_entries
from imi_monitor.actions.removal.unlisted_entries import INTERRUPTED, UnlistedEntry
from imi_monitor.fast.frozen_dataclass import dataclass, replace
from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import db, operations, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.trash_folder import TrashedWorktree
    from imi_monitor.git.layout import Repository


@dataclass(frozen=True, slots=True)
class TrashRepair:
    """One inconsistency of the trash; `carry_out(agent)` ends it, None if only the user can."""

    kind: str  # unlisted, interrupted, restored, exchanged
    name: str
    path: str
    sentence: str
    carry_out: Callable[[str], object] | None = None


def find_repairs(context: Context, repository: Repository, allowed: list[str]) -> list[TrashRepair]:
    """Everything in this repository's trash that does not agree with the registry. `allowed`: folders the user names."""
    found = unlisted_entries.find_unlisted(context, [repository], allowed=tuple(allowed))
    repairs = [_unlisted(context, entry) for entry in found]
    repo_name = context.repo_name(repository)
    for entry in trash.list_kept(context.connection, repo_name) if repo_name is not None else []:
        with suppress(RegistryError):  # written by another version of imi
            repair = _listed(context, entry, restore.trashed_worktree(context, entry), allowed)
            repairs += [] if repair is None else [repair]
    return repairs


def _unlisted(context: Context, found: UnlistedEntry) -> TrashRepair:
    name = safe(found.name)
    if found.kind == INTERRUPTED:
        return TrashRepair(
            INTERRUPTED,
            found.name,
            found.folder,
            f"{name}, whose move was interrupted, is in its place",
            lambda agent: adoption.complete_move(context, found, agent=agent),
        )
    if found.problem is not None:
        return TrashRepair("unlisted", found.name, found.folder, f"{name} in {safe(found.folder)}: {found.problem}")
    if context.registry_problem is not None:
        sentence = f"{name} is in the trash, and no registry can list it: `imi undo {found.id}` restores it"
        return TrashRepair("unlisted", found.name, found.folder, sentence)
    return TrashRepair(
        "unlisted",
        found.name,
        found.folder,
        f"{name} is listed in the trash again: `imi undo {found.id}` restores it",
        lambda agent: adoption.adopt(context, found, agent=agent),
    )


def _listed(
    context: Context, entry: trash.TrashEntry, trashed: TrashedWorktree, allowed: list[str]
) -> TrashRepair | None:
    if restore.is_in_place(trashed):
        sentence = f"{safe(trashed.name)} was restored without the registry, which records it now"
        return TrashRepair("restored", trashed.name, trashed.path, sentence, partial(_record, context, entry, trashed))
    exchanged = trash_folder.is_folder(trashed.folder) and not trash_folder.is_folder(trashed.folder, trashed.inode)
    if not exchanged:
        return None
    here = os.path.realpath(trashed.trash_dir)
    if not any(folder in (here, os.path.dirname(here)) for folder in allowed):
        sentence = (
            f"{safe(trashed.name)} in the trash is another folder than the removed one: if the repository was copied, "
            f"`imi repair {safe(trashed.trash_dir)}` accepts it"
        )
        return TrashRepair("exchanged", trashed.name, trashed.folder, sentence)
    sentence = f"the copy of {safe(trashed.name)} in the trash is accepted"
    return TrashRepair("exchanged", trashed.name, trashed.folder, sentence, partial(_accept, context, entry, trashed))


def _record(context: Context, entry: trash.TrashEntry, trashed: TrashedWorktree, agent: str) -> None:
    db.transact(context.connection, adoption.record_restored, entry, trashed, agent)


def _accept(context: Context, entry: trash.TrashEntry, trashed: TrashedWorktree, _agent: str) -> None:
    db.transact(context.connection, _store_inode, entry, trashed)


def _store_inode(connection: sqlite3.Connection, entry: trash.TrashEntry, trashed: TrashedWorktree) -> None:
    operations.refuse_if_busy(connection, trashed.repo_name, trashed.name)
    inode = os.lstat(trashed.folder).st_ino
    trash.set_data(connection, entry.id, {**entry.data, **replace(trashed, inode=inode).data()})
