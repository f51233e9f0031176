"""Looking up a trash entry by what a user gives: an id, the start of one, a name, or nothing for the last removed.

Entries of the registry come first. An entry that only its note describes is chosen when it is named, or when it is the only
one; among several the user chooses, because the times in notes are only claims.
"""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.removal import unlisted_entries
from imi_monitor.actions.removal.unlisted_entries import UNUSABLE, UnlistedEntry
from imi_monitor.model import names
from imi_monitor.model.contained_names import shown_repository
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe
from imi_monitor.store import trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from imi_monitor.actions.context import Context

    Entry = TypeVar("Entry", trash.TrashEntry, UnlistedEntry)

_SHORTEST_ID = 4
_SHOWN = 5


def find_entry(context: Context, which: str | None) -> trash.TrashEntry | UnlistedEntry:
    """The entry with this id, start of an id, or name (the last removed of that name); without `which` the last removed."""
    everywhere = trash.list_kept(context.connection, what="all")
    here = _removed_here(context, everywhere)
    if which is None:
        return here[0] if here else _only_unlisted(context, everywhere)
    unlisted: list[UnlistedEntry] = []
    found: trash.TrashEntry | UnlistedEntry | None = _by_id(everywhere, which) or _by_name(
        context, here, everywhere, which
    )
    if found is None:
        unlisted = unlisted_entries.find_unlisted(context)
        found = _by_id(unlisted, which) or _by_noted_name(context, unlisted, which)
    if found is None:
        raise _unknown(context, which, everywhere, unlisted)
    return found


def _removed_here(context: Context, everywhere: list[trash.TrashEntry]) -> list[trash.TrashEntry]:
    """What was removed from the repository around the caller; outside of one everything.

    A workspace belongs to no repository: one that a person cleaned can be what was removed last here.
    """
    repository = context.find_repository()
    if repository is None:
        return everywhere
    repo_name = context.repo_name(repository)
    of_person = [entry for entry in everywhere if entry.of_folder and entry.removed_by != trash.BY_ITSELF]
    return [entry for entry in everywhere if entry.repo_name == repo_name or entry in of_person]


def _by_id(entries: list[Entry], which: str) -> Entry | None:
    found = [entry for entry in entries if entry.id == which] or [
        entry for entry in entries if len(which) >= _SHORTEST_ID and entry.id.startswith(which)
    ]
    return found[0] if len(found) == 1 else None


def _by_name(
    context: Context, here: list[trash.TrashEntry], everywhere: list[trash.TrashEntry], which: str
) -> trash.TrashEntry | None:
    for entries in (here, everywhere):
        for name in names.candidates(which, worktree_lookup.name_prefixes(context)):
            named = [entry for entry in entries if entry.worktree_name == name]
            if named:
                return _only_repository(named, which)
    return None


def _by_noted_name(context: Context, unlisted: list[UnlistedEntry], which: str) -> UnlistedEntry | None:
    for name in names.candidates(which, worktree_lookup.name_prefixes(context)):
        named = [entry for entry in unlisted if (entry.trashed or entry.files) is not None and entry.name == name]
        if named:
            return _only_one(named, f"{safe(which)!r} is the name of several removed worktrees")
    return None


def _only_unlisted(context: Context, everywhere: list[trash.TrashEntry]) -> UnlistedEntry:
    """The single entry that notes describe, in the repository around the caller if there is one."""
    around = context.find_repository()
    found = unlisted_entries.find_unlisted(context, None if around is None else [around])
    usable = [entry for entry in found if entry.kind != UNUSABLE]
    if not usable:
        raise _nothing_to_undo(everywhere, found)
    return _only_one(usable, "the registry does not know which worktree was removed last")


def _only_one(found: list[UnlistedEntry], why: str) -> UnlistedEntry:
    if len(found) > 1:
        listed = ", ".join(f"{entry.id} ({safe(entry.name)})" for entry in found[:_SHOWN])
        raise Refused(f"{why}: give one of {listed}", code="ambiguous")
    return found[0]


def _only_repository(named: list[trash.TrashEntry], which: str) -> trash.TrashEntry:
    if len({entry.repo_name for entry in named}) > 1:
        places = ", ".join(f"{entry.id} ({safe(shown_repository(entry.repo_name))})" for entry in named)
        raise Refused(f"{safe(which)!r} was removed in several repositories: give one of {places}", code="ambiguous")
    return named[0]


def _nothing_to_undo(everywhere: list[trash.TrashEntry], unlisted: list[UnlistedEntry]) -> Refused:
    if unlisted:
        number = count(len(unlisted), "entry", "entries")
        return Refused(
            f"the trash holds {number} that cannot be restored as they are: see `imi trash list`", code="unlisted"
        )
    if not everywhere:
        return Refused("the trash is empty: there is nothing to restore", code="trash-empty")
    last = everywhere[0]
    of = "" if last.of_folder else f" of {safe(last.repo_name)}"
    return Refused(
        f"nothing was removed from this repository; the last one elsewhere is {safe(last.worktree_name)}{of}:"
        f" `imi undo {last.id}`",
        code="trash-empty",
    )


def _unknown(
    context: Context, which: str, everywhere: list[trash.TrashEntry], unlisted: list[UnlistedEntry]
) -> Refused:
    entry = trash.get(context.connection, which)
    if entry is not None and entry.restored_at:
        return Refused(f"{safe(entry.worktree_name)} was already restored", code="restored")
    if entry is not None and entry.purged_at:
        return Refused(f"{safe(entry.worktree_name)} was purged and cannot be restored", code="purged")
    shown = [f"{one.id} {safe(one.worktree_name)}" for one in everywhere]
    shown += [f"{other.id} {safe(other.name)}" for other in unlisted]
    known = f"it holds {', '.join(shown[:_SHOWN])}" if shown else "it is empty"
    return Refused(f"{safe(which)!r} is not in the trash ({known})", code="not-in-trash")
