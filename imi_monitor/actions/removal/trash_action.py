"""`imi undo` and `imi trash list|restore|purge`: restore removed worktrees, list them, delete them for good."""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.removal import grace_period, purge, restore
from imi_monitor.git import layout
from imi_monitor.model import amounts, names, times
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import operations, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.purge import PurgeCandidate, PurgedEntry
    from imi_monitor.actions.removal.restore import RestoreResult


_AGENT = Option("agent", "who you are", value="ID", aliases=("agent-id", "yi-id"))


class UndoAction(Action):
    words = ("undo",)
    group = "Merge and remove"
    label = "Undo"
    returns_path = True
    help = "bring back the worktree that was removed last, with everything in it"
    more = """Without an argument: the last one of the current repository, or of all repositories outside of one.
    A deleted branch is recreated; if the branch has moved or is checked out elsewhere, HEAD stays detached."""
    key = "U"
    key_bar = 30
    arguments = (
        Argument("which", "id or name from `imi trash list` (default: the last removed worktree)", optional=True),
    )
    options = (_AGENT,)

    def refuse(self, context: Context, request: Request) -> None:
        restore.refuse_restore(context, restore.trashed_worktree(context, _find_entry(context, request.text("which"))))

    def consequences(self, context: Context, request: Request) -> list[str]:
        entry = _find_entry(context, request.text("which"))
        trashed = restore.trashed_worktree(context, entry)
        gone, why = restore.branch_state(context.git(layout.repository_at(trashed.common_dir)), trashed)
        lines = [
            f"restores {safe(entry.worktree_name)}, removed {_long_age(entry)} ago by {safe(entry.removed_by)}",
            f"folder  {safe(entry.path)}, with every file unchanged",
        ]
        if trashed.branch is not None:
            again = f", which was deleted and is recreated at {(trashed.sha or '')[:10]}" if gone else ""
            lines.append(f"branch  {safe(trashed.branch)}{again}" if why is None else f"HEAD is detached: {why}")
        return lines

    def run(self, context: Context, request: Request) -> Outcome:
        entry = _find_entry(context, request.text("which"))
        return _restore_outcome(restore.restore_worktree(context, entry, agent=claim_options.agent(context, request)))


def _long_age(entry: trash.TrashEntry) -> str:
    age = grace_period.age_by_clock(entry)
    return "an unknown time" if age is None else amounts.long_age(age)


def _find_entry(context: Context, which: str | None) -> trash.TrashEntry:
    """The entry with this id, start of an id, or name (the last removed of that name); without `which` the last removed."""
    repo_name = _repo_name(context)
    here = trash.list_kept(context.connection, repo_name) if repo_name else trash.list_kept(context.connection)
    everywhere = trash.list_kept(context.connection)
    if which is None:
        if here:
            return here[0]
        raise _nothing_to_undo(everywhere)
    by_id = [entry for entry in everywhere if entry.id == which] or [
        entry for entry in everywhere if len(which) >= 4 and entry.id.startswith(which)
    ]
    if len(by_id) == 1:
        return by_id[0]
    for entries in (here, everywhere):
        for name in names.candidates(which, worktree_lookup.name_prefixes(context)):
            named = [entry for entry in entries if entry.worktree_name == name]
            if named:
                return _only_repository(named, which)
    raise _unknown(context, which, everywhere)


def _restore_outcome(result: RestoreResult) -> Outcome:
    trashed = result.trashed
    lines, warnings = [f"restored {safe(trashed.name)}"], []
    if result.branch_recreated:
        lines.append(f"recreated branch {safe(trashed.branch or '')}")
    if result.detached:
        warnings.append(f"{result.detached}: HEAD is detached at its old commit; run `git switch` to get on a branch")
    data: dict[str, object] = {
        "message": lines[0],
        "worktree_name": trashed.name,
        "repo": trashed.repo_name,
        "worktree_path": trashed.path,
        "branch": None if result.detached else trashed.branch,
        "branch_made_again": result.branch_recreated,
        "detached": result.detached,
        "trash_id": trashed.id,
    }
    return Outcome(lines, data, path=trashed.path, warnings=warnings)


def _repo_name(context: Context) -> str | None:
    repository = context.find_repository()
    return context.repo_name(repository) if repository is not None else None


def _only_repository(named: list[trash.TrashEntry], which: str) -> trash.TrashEntry:
    if len({entry.repo_name for entry in named}) > 1:
        places = ", ".join(f"{entry.id} ({safe(entry.repo_name)})" for entry in named)
        raise Refused(f"{safe(which)!r} was removed in several repositories: give one of {places}", code="ambiguous")
    return named[0]


def _nothing_to_undo(everywhere: list[trash.TrashEntry]) -> Refused:
    if not everywhere:
        return Refused("the trash is empty: there is nothing to restore", code="trash-empty")
    last = everywhere[0]
    return Refused(
        f"nothing was removed from this repository; the last one elsewhere is {safe(last.worktree_name)} of "
        f"{safe(last.repo_name)}: `imi undo {last.id}`",
        code="trash-empty",
    )


def _unknown(context: Context, which: str, everywhere: list[trash.TrashEntry]) -> Refused:
    entry = trash.get(context.connection, which)
    if entry is not None and entry.restored_at:
        return Refused(f"{safe(entry.worktree_name)} was already restored", code="restored")
    if entry is not None and entry.purged_at:
        return Refused(f"{safe(entry.worktree_name)} was purged and cannot be restored", code="purged")
    known = ", ".join(f"{entry.id} {safe(entry.worktree_name)}" for entry in everywhere[:5]) or "nothing"
    return Refused(f"no {safe(which)!r} in the trash; it holds {known}", code="not-in-trash")


class TrashListAction(Action):
    words = ("trash list",)
    group = "Merge and remove"
    label = "Trash"
    help = "list removed worktrees that can be restored, newest first"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        entries = _entries(context)
        keep = context.settings.number("trash.keep_days")
        lines = [_describe_entry(context, entry) for entry in entries] or ["the trash is empty"]
        return Outcome(lines, {"entries": [_data(context, entry) for entry in entries], "keep_days": keep})


class TrashRestoreAction(Action):
    words = ("trash restore",)
    group = "Merge and remove"
    label = "Restore"
    returns_path = True
    help = "restore a worktree from the trash, like `imi undo`"
    arguments = (Argument("which", "id or name from `imi trash list`"),)
    options = (_AGENT,)

    def run(self, context: Context, request: Request) -> Outcome:
        entry = _find_entry(context, request.text("which"))
        return _restore_outcome(restore.restore_worktree(context, entry, agent=claim_options.agent(context, request)))


class TrashPurgeAction(Action):
    words = ("trash purge",)
    group = "Merge and remove"
    label = "Empty the trash"
    help = "delete removed worktrees for good: without --yes it only lists them"
    more = """Without names: everything older than trash.keep_days, by the clock and by the time this machine was running.
    --all or names select others. Commits that only a purged worktree had are kept under refs/imi/kept/. The files are
    deleted in the background."""
    arguments = (Argument("which", "ids or names (default: what is older than trash.keep_days)", rest=True),)
    options = (
        Option("older-than", "only entries older than this; at least trash.keep_days", value="DAYS", number=True),
        Option("all", "everything in the trash, of any age"),
        Option("yes", "really delete"),
        Option("dry-run", "only list, as without --yes", aliases=("n",)),
        Option("wait", "wait until the files are deleted"),
        _AGENT,
    )
    dangerous = True

    def consequences(self, context: Context, request: Request) -> list[str]:
        return [_describe_candidate(one) for one in _candidates(context, request)] or ["no entry is old enough"]

    def run(self, context: Context, request: Request) -> Outcome:
        asked = _candidates(context, request)
        going = [one.entry for one in asked if one.why_not is None]
        if request.flag("yes") and not request.flag("dry-run"):
            return _purge(context, request, asked)
        lines = [_describe_candidate(one) for one in asked] or [_nothing(context)]
        if going:
            lines.append(f"nothing was deleted yet: add --yes to delete {count(len(going), 'worktree')} for good")
        return Outcome(lines, {"purged": [], "would_purge": [entry.id for entry in going], "kept": _kept(asked)})


def _purge(context: Context, request: Request, asked: list[PurgeCandidate]) -> Outcome:
    agent = claim_options.agent(context, request)
    purged: list[PurgedEntry] = []
    problems: list[str] = []
    for one in asked:
        if one.why_not is not None or context.cancelled():
            continue
        context.progress(f"purging {safe(one.entry.worktree_name)}")
        try:
            purged.append(purge.purge_entry(context, one.entry, agent=agent))
        except ImiError as error:
            problems.append(error.sentence)
    _delete(context, purged, wait=request.flag("wait"))
    lines = [f"purged {_name(done.entry)}{_kept_refs(done)}" for done in purged] or [_nothing(context)]
    lines += [_describe_candidate(one) for one in asked if one.why_not is not None]
    data: dict[str, object] = {"purged": [done.entry.id for done in purged], "would_purge": [], "kept": _kept(asked)}
    return Outcome(lines, data, warnings=problems, exit_status=1 if problems else 0)


def _delete(context: Context, purged: list[PurgedEntry], *, wait: bool) -> None:
    wanted = [done.operation for done in purged]
    if not wait:
        purge.delete_in_background(context, wanted)
        return
    for operation in operations.list_unfinished(context.connection):
        if operation.id in wanted:
            purge.delete_now(context.connection, operation)


def _candidates(context: Context, request: Request) -> list[PurgeCandidate]:
    keep = float(context.settings.number("trash.keep_days"))
    days = request.number("older-than")
    if days is not None and days < keep:
        raise UsageError(
            f"--older-than {days:g} is less than trash.keep_days ({keep:g}): name the entries, or use --all",
            code="too-young",
        )
    given = request.rest("which")
    if given:
        chosen = {entry.id: entry for entry in (_find_entry(context, which) for which in given)}
        return purge.purge_candidates(context, list(chosen.values()), named=True)
    return purge.purge_candidates(context, _entries(context), days=days, named=request.flag("all"))


def _entries(context: Context) -> list[trash.TrashEntry]:
    """Kept entries of the repository named with --repo, else of all repositories."""
    repo_name = context.repo_name(context.repository()) if context.explicit_repo else None
    return trash.list_kept(context.connection, repo_name)


def _describe_entry(context: Context, entry: trash.TrashEntry) -> str:
    clock = grace_period.age_by_clock(entry)
    age = times.age(clock) if clock is not None else "? (date in the future)"
    deleted = "" if restore.trashed_worktree(context, entry).in_trash else "  DELETED on disk: cannot be restored"
    return f"{entry.id}  {age:>4}  {_name(entry)}  {entry.how} by {safe(entry.removed_by)}{deleted}"


def _describe_candidate(one: PurgeCandidate) -> str:
    if one.why_not is not None:
        return f"stays: {one.entry.id}  {_name(one.entry)}: {one.why_not}"
    return f"{one.entry.id}  {times.age(grace_period.age_by_clock(one.entry)):>4}  {_name(one.entry)}"


def _name(entry: trash.TrashEntry) -> str:
    return f"{safe(entry.worktree_name)} of {safe(entry.repo_name)}"


def _kept_refs(done: PurgedEntry) -> str:
    return f"; its own commits are kept as {', '.join(done.kept_refs)}" if done.kept_refs else ""


def _kept(asked: list[PurgeCandidate]) -> list[dict[str, object]]:
    return [{"id": one.entry.id, "why": one.why_not} for one in asked if one.why_not is not None]


def _nothing(context: Context) -> str:
    keep = context.settings.number("trash.keep_days")
    return f"no entry is provably older than {count(keep, 'day')}; name entries or use --all to purge others"


def _data(context: Context, entry: trash.TrashEntry) -> dict[str, object]:
    trashed = restore.trashed_worktree(context, entry)
    return {
        "id": entry.id,
        "worktree_name": entry.worktree_name,
        "repo": entry.repo_name,
        "worktree_path": entry.path,
        "trash_path": trashed.folder,
        "branch": trashed.branch,
        "commit": trashed.sha,
        "removed_at": entry.removed_at,
        "removed_by": entry.removed_by,
        "how": entry.how,
        "restorable": trashed.in_trash,
        "purgeable": purge.is_due(context, entry),
    }


ACTIONS = (UndoAction(), TrashListAction(), TrashRestoreAction(), TrashPurgeAction())
