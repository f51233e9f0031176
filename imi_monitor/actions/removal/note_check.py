"""Checks a note of the trash against the repository before it is believed.

An agent that can write into `.git` can write a note. A note may therefore only describe the entry it lies in, a record of
git in the repository it was found in, and a place where this repository has worktrees. The folders, the id and git's record
are taken from where the note lies, never from what it says.
"""

from __future__ import annotations

import os

from imi_monitor import paths
from imi_monitor.actions.creation import creation_request
from imi_monitor.actions.removal import trash_folder
from imi_monitor.actions.removal.trash_note import NoteError
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git import git_admin_dir, layout
from imi_monitor.model import names, times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.store import worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.trash_folder import TrashedWorktree
    from imi_monitor.actions.removal.trash_note import TrashNote

_ID_LENGTH = 10
_MOST_HEAD = 1024


def bind(note: TrashNote, repository: layout.Repository, folder: str) -> TrashedWorktree:
    """The noted worktree, tied to the entry `folder` of this repository; NoteError if the note contradicts either."""
    trashed = note.trashed
    if trashed.id != os.path.basename(folder) or not is_entry_id(trashed.id):
        raise NoteError("belongs to another entry")
    _check_words(note)
    _check_record(trashed)
    _check_head(trashed)
    if os.path.realpath(trashed.common_dir) != repository.common_dir:  # the repository was moved
        trashed = trashed.under(repository.common_dir)
    record = os.path.join(repository.common_dir, "worktrees", os.path.basename(trashed.admin_dir))
    trashed = replace(trashed, common_dir=repository.common_dir, admin_dir=record, trash_dir=folder)
    _check_path(trashed)
    if os.path.islink(record) or (os.path.lexists(record) and trashed.in_trash and not is_ours(trashed)):
        raise NoteError("names the record of another worktree")
    return trashed


def is_entry_id(name: str) -> bool:
    return len(name) == _ID_LENGTH and all(char in "0123456789abcdef" for char in name)


def place_problem(
    context: Context, repository: layout.Repository, trashed: TrashedWorktree, allowed: tuple[str, ...]
) -> str | None:
    """Why the worktree is not restored to this place by a note alone; None if it may be.

    Allowed are the folders in which this repository has or would create worktrees, and those the user names (`allowed`).
    """
    path, parent = trashed.path, os.path.realpath(os.path.dirname(trashed.path))
    if any(_is_within(parent, os.path.realpath(folder)) for folder in allowed):
        return None
    root = os.path.dirname(trashed.trash_dir)
    if os.path.basename(root) == trash_folder.SIBLING_TRASH and parent == os.path.realpath(os.path.dirname(root)):
        return None
    around = safe(os.path.dirname(path))
    advice = f"`imi repair {around}` allows it"
    if os.path.basename(path).startswith("."):
        return f"its place {safe(path)} is a hidden folder: {advice}"
    if parent in (os.sep, os.path.realpath(paths.home())):
        return f"its place {safe(path)} is directly in {around}: {advice}"
    if parent not in _worktree_parents(context, repository, os.path.basename(path)):
        return f"its place {safe(path)} is not beside the worktrees of this repository: {advice}"
    return None


def _check_words(note: TrashNote) -> None:
    """Check what is stored in rows and shown: one-line texts, as imi writes them."""
    trashed = note.trashed
    lines = [trashed.name, trashed.repo_name, trashed.how, *([note.row.branch, note.row.kind] if note.row else [])]
    lines += [note.row.base_branch] if note.row and note.row.base_branch else []
    if not all(line.isprintable() and len(line) <= 4096 for line in lines):
        raise NoteError("is damaged (names)")
    if not trashed.name or "/" in trashed.name or trashed.name in (".", "..", *names.RESERVED):
        raise NoteError("names a worktree that imi does not remove")
    agents = [trashed.agent, *([note.claim.agent_id] if note.claim else [])]
    if any(names.agent_problem(agent) for agent in agents):
        raise NoteError("is damaged (owner)")
    moments = [note.began_at, note.removed_at, note.claim.claimed_at if note.claim else None]
    if any(moment is not None and times.parse(moment) is None for moment in moments):
        raise NoteError("is damaged (times)")


def _check_path(trashed: TrashedWorktree) -> None:
    path = trashed.path
    if not os.path.isabs(path) or os.path.normpath(path) != path or path == os.sep:
        raise NoteError("names no full path")
    inside = os.path.realpath(os.path.dirname(path))
    if _is_within(inside, trashed.common_dir) or os.path.basename(path) in names.RESERVED:
        raise NoteError(f"names {safe(path)}, where no worktree can be")


def _check_record(trashed: TrashedWorktree) -> None:
    """Check that folder and record of git name each other, and that the record is one of the noted repository."""
    admin = trashed.admin_dir
    records = os.path.join(trashed.common_dir, "worktrees")
    if os.path.dirname(admin) != records or os.path.basename(admin) in ("", ".", ".."):
        raise NoteError("names a record of git that is not in its repository")
    recorded = os.path.normpath(os.path.join(admin, trashed.gitdir.rstrip("\n")))
    if recorded != os.path.join(trashed.path, ".git"):
        raise NoteError("names two places for the worktree")
    start, _, target = trashed.gitfile.partition(":")
    if start != "gitdir" or os.path.normpath(os.path.join(trashed.path, target.strip())) != admin:
        raise NoteError("names two records of git")


def is_ours(trashed: TrashedWorktree) -> bool:
    """True if git's record is marked for this entry. Unlike `is_recorded`, the noted pointer proves nothing."""
    pointer = git_admin_dir.read_pointer(trashed.admin_dir) or ""
    if pointer.rstrip("\n").endswith(f"/{trashed.id}/worktree/.git"):
        return True
    return git_admin_dir.is_locked_by(trashed.admin_dir, f"{trash_folder.LOCK_PREFIX}{trashed.id}")


def _check_head(trashed: TrashedWorktree) -> None:
    head, branch, sha = trashed.head.strip(), trashed.branch, trashed.sha
    known = head.isprintable() and len(head) <= _MOST_HEAD and (sha is None or names.is_commit_id(sha))
    if not head.startswith("ref:"):
        known = known and names.is_commit_id(head)
    else:
        ref = head.removeprefix("ref:").strip()
        known = known and ref.startswith("refs/") and ".." not in ref
        if branch is not None and ref.startswith("refs/heads/"):
            known = known and ref in (f"refs/heads/{branch}", "refs/heads/.invalid")  # the latter beside a reftable
    if not known:
        raise NoteError("is damaged (branch or commit)")


def _worktree_parents(context: Context, repository: layout.Repository, name: str) -> set[str]:
    """The folders in which this repository has worktrees that stand where git says, or would create one."""
    found = {os.path.dirname(repository.home)}
    for item in layout.linked_worktrees(repository.common_dir):
        if layout.points_back(item.admin_dir, item.path):
            found.add(os.path.dirname(item.path))
    with suppress(ImiError):  # the settings cannot be read: the other places remain
        found.add(creation_request.parent_folder(repository, context.settings_of(repository), name))
    repo_name = context.repo_name(repository)
    if repo_name is not None:
        rows = worktrees.list_worktrees(context.connection, repo_name, inactive=True)
        found |= {os.path.dirname(row.path) for row in rows}
    return {os.path.realpath(folder) for folder in found}


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
