"""`imi undo` and `imi trash list|restore|purge`: restore what was removed or replaced, list it, or delete it for good."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.removal import (
    adoption,
    grace_period,
    purge,
    restore,
    trash_lookup,
    trash_parts,
    unlisted_entries,
)
from imi_monitor.actions.removal.unlisted_entries import UnlistedEntry
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.git import layout
from imi_monitor.model import amounts, times
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import claim_history, claims, operations, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.purge import PurgeCandidate, PurgedEntry
    from imi_monitor.actions.removal.restore import RestoreResult
    from imi_monitor.actions.removal.trash_folder import TrashedWorktree
    from imi_monitor.actions.removal.trash_parts import TrashPart


_AGENT = Option("agent", "who you are", value="ID", aliases=("agent-id", "yi-id"))


class _RestoreAction(Action):
    """Restores an entry of the trash; without a name the last one."""

    group = "Merge and remove"
    needs_registry = False
    returns_path = True
    options = (_AGENT,)

    def refuse(self, context: Context, request: Request) -> None:
        found = trash_lookup.find_entry(context, request.text("which"))
        part = _part(context, found)
        if part is not None:
            part.refuse_restore(context)
        else:
            restore.refuse_restore(context, _entry_and_worktree(context, found)[1])

    def consequences(self, context: Context, request: Request) -> list[str]:
        found = trash_lookup.find_entry(context, request.text("which"))
        part = _part(context, found)
        if part is not None:
            return [f"restores {part.sentence} {_long_age(part.entry)} ago by {safe(part.entry.removed_by)}"]
        entry, trashed = _entry_and_worktree(context, found)
        gone, why = restore.branch_state(context.git(layout.repository_at(trashed.common_dir)), trashed)
        lines = [
            f"restores {safe(entry.worktree_name)}, removed {_long_age(entry)} ago by {safe(entry.removed_by)}",
            f"folder  {safe(entry.path)}, with every file unchanged",
        ]
        if trashed.branch is not None:
            again = f", which was deleted and is recreated at {(trashed.sha or '')[:10]}" if gone else ""
            lines.append(f"branch  {safe(trashed.branch)}{again}" if why is None else f"HEAD is detached: {why}")
        lines += _claim_lines(context, entry)
        return [*lines, "the registry does not list it: its note says this"] if found is not entry else lines

    def run(self, context: Context, request: Request) -> Outcome:
        return _restore(context, request)


class UndoAction(_RestoreAction):
    words = ("undo",)
    label = "Undo"
    examples = (("imi undo", "restore the worktree that was removed last"),)
    help = "bring back what was removed last: a worktree or workspace with everything in it, or discarded files"
    more = """Without an argument: the last one of the current repository, or of all repositories outside of one.
    A deleted branch is recreated; if the branch has moved or is checked out elsewhere, HEAD stays detached."""
    key = "U"
    key_bar = 41
    arguments = (Argument("which", "id or name from `imi trash list` (default: what was removed last)", optional=True),)


def _entry_and_worktree(
    context: Context, found: trash.TrashEntry | UnlistedEntry
) -> tuple[trash.TrashEntry, TrashedWorktree]:
    if not isinstance(found, UnlistedEntry):
        return found, restore.trashed_worktree(context, found)
    _, trashed = adoption.parts(found)
    entry = found.as_entry()
    assert entry is not None
    return entry, trashed


def _claim_lines(context: Context, entry: trash.TrashEntry) -> list[str]:
    """What becomes of the claim that the removal ended: nothing proves that its holder still works there."""
    if context.registry_problem is not None:
        return []
    grants = claim_history.list_grants(context.connection, entry.repo_name, entry.worktree_name, 2)
    if len(grants) < 2 or not claims.is_reservation(grants[1].agent_id) or grants[0].ended != "reserved":
        return []
    line = f"claim   {safe(grants[0].agent_id)} held it until the removal and does not hold it again"
    return [f"{line}: `imi claim {safe(entry.worktree_name)}` claims it"]


def _restore(context: Context, request: Request) -> Outcome:
    found, agent = trash_lookup.find_entry(context, request.text("which")), claim_options.agent(context, request)
    part = _part(context, found)
    if part is not None:
        return _restore_part(context, found, part, agent)
    if not isinstance(found, UnlistedEntry):
        return _restore_outcome(restore.restore_worktree(context, found, agent=agent))
    if context.registry_problem is not None:
        outcome = _restore_outcome(adoption.restore_unrecorded(context, found))
        outcome.warnings.append("the registry does not record this yet: run `imi repair` once it can be used")
        return outcome
    return _restore_outcome(
        restore.restore_worktree(context, adoption.adopt_entry(context, found, agent=agent), agent=agent)
    )


def _restore_part(context: Context, found: trash.TrashEntry | UnlistedEntry, part: TrashPart, agent: str) -> Outcome:
    if not isinstance(found, UnlistedEntry):
        return _part_outcome(part, part.restore(context, agent=agent))
    if context.registry_problem is not None:
        return _part_outcome(part, part.restore(context, agent=agent, recorded=False))
    part.refuse_restore(context)
    adoption.adopt(context, found, agent=agent)
    return _part_outcome(part, part.restore(context, agent=agent))


def _part(context: Context, found: trash.TrashEntry | UnlistedEntry) -> TrashPart | None:
    """What the entry holds if it is no worktree."""
    if not isinstance(found, UnlistedEntry):
        return trash_parts.part_of(context, found)
    return None if found.files is None else trash_parts.part_of(context, adoption.usable_entry(found, "restored"))


def _part_outcome(part: TrashPart, warnings: list[str]) -> Outcome:
    line = f"restored {part.sentence}"
    data: dict[str, object] = {
        "message": line,
        "worktree_name": part.entry.worktree_name,
        "repo": part.entry.repo_name,
        "kind": part.entry.kind,
        "files": list(part.paths),
        "trash_id": part.entry.id,
    }
    path = part.entry.path if part.entry.of_folder else None
    return Outcome([line], data, path=path, warnings=warnings)


def _long_age(entry: trash.TrashEntry) -> str:
    age = grace_period.age_by_clock(entry)
    return "an unknown time" if age is None else amounts.long_age(age)


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


class TrashListAction(Action):
    words = ("trash list",)
    group = "Merge and remove"
    needs_registry = False
    label = "Trash"
    help = "list what was removed and can be restored, newest first: worktrees, workspaces, discarded files"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        entries, unlisted = _entries(context), unlisted_entries.find_unlisted(context)
        lines = [_describe_entry(context, entry) for entry in entries]
        lines += [_describe_unlisted(context, found) for found in unlisted]
        data = [_data(context, entry) for entry in entries] + [_unlisted_data(context, found) for found in unlisted]
        keep = context.settings.number("trash.keep_days")
        return Outcome(lines or ["the trash is empty"], {"entries": data, "keep_days": keep})


class TrashRestoreAction(_RestoreAction):
    words = ("trash restore",)
    label = "Restore"
    examples = (("imi trash restore feat-user-auth", "restore it by its name"),)
    help = "bring back a removed worktree or workspace, or discarded files, from the trash"
    arguments = (Argument("which", "id or name from `imi trash list`"),)


class TrashPurgeAction(Action):
    words = ("trash purge",)
    group = "Merge and remove"
    label = "Delete for good"
    help = "delete entries of the trash for good: without --yes it only lists them"
    more = """Without names: everything older than trash.keep_days, by the clock and by the time this machine was running.
    --all or names select others. Commits that only a purged worktree had are kept under refs/imi/kept/. The files are
    deleted in the background. An entry that the registry does not list is purged by its note, if you name it."""
    needs_registry = False
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
            lines.append(
                f"nothing was deleted yet: add --yes to delete {count(len(going), 'entry', 'entries')} for good"
            )
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
            if one.unlisted is not None:
                purged.append(adoption.purge_entry(context, one.unlisted, agent=agent))
            else:
                purged.append(purge.purge_entry(context, one.entry, agent=agent))
        except ImiError as error:
            problems.append(error.sentence)
    _delete(context, purged, wait=request.flag("wait"))
    lines = [f"purged {_name(done.entry)}{_kept_refs(done)}" for done in purged] or [_nothing(context)]
    lines += [_describe_candidate(one) for one in asked if one.why_not is not None]
    data: dict[str, object] = {"purged": [done.entry.id for done in purged], "would_purge": [], "kept": _kept(asked)}
    return Outcome(lines, data, warnings=problems, exit_status=1 if problems else 0)


def _delete(context: Context, purged: list[PurgedEntry], *, wait: bool) -> None:
    wanted = [done.operation for done in purged if done.operation is not None]
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
        chosen = {found.id: found for found in (trash_lookup.find_entry(context, which) for which in given)}
        return [_named_candidate(context, found) for found in chosen.values()]
    if context.registry_problem is not None:  # ages and repositories are in the registry alone
        raise context.registry_problem
    return purge.purge_candidates(context, _entries(context), days=days, named=request.flag("all"))


def _named_candidate(context: Context, found: trash.TrashEntry | UnlistedEntry) -> PurgeCandidate:
    if not isinstance(found, UnlistedEntry):
        return purge.purge_candidates(context, [found], named=True)[0]
    (candidate,) = purge.purge_candidates(context, [adoption.usable_entry(found, "purged")], named=True)
    return replace(candidate, unlisted=found)


def _entries(context: Context) -> list[trash.TrashEntry]:
    """Kept entries of the repository named with --repo, else of all repositories."""
    repo_name = context.repo_name(context.repository()) if context.explicit_repo else None
    return trash.list_kept(context.connection, repo_name, what="all")


def _describe_entry(context: Context, entry: trash.TrashEntry) -> str:
    part = trash_parts.part_of(context, entry)
    if part is not None:
        return f"{_entry_line(entry)}: {part.names}{'' if part.restorable else '  DELETED on disk: cannot be restored'}"
    trashed = restore.trashed_worktree(context, entry)
    deleted = "" if trashed.in_trash else "  DELETED on disk: cannot be restored"
    if restore.is_in_place(trashed):
        deleted = "  RESTORED without the registry: `imi repair` records it"
    return _entry_line(entry) + deleted


def _entry_line(entry: trash.TrashEntry) -> str:
    clock = grace_period.age_by_clock(entry)
    age = times.age(clock) if clock is not None else "? (date in the future)"
    return f"{entry.id}  {age:>4}  {_name(entry)}  {entry.how} by {safe(entry.removed_by)}"


def _describe_unlisted(context: Context, found: UnlistedEntry) -> str:
    entry = found.as_entry()
    line = f"{safe(found.id)}     ?  {safe(found.folder)}" if entry is None else _entry_line(entry)
    advice = f"`imi undo {found.id}` restores it"
    if context.registry_problem is None:
        advice += ", `imi repair` lists it"
    return f"{line}  NOT IN THE REGISTRY: {found.problem or advice}"


def _describe_candidate(one: PurgeCandidate) -> str:
    if one.why_not is not None:
        return f"stays: {one.entry.id}  {_name(one.entry)}: {one.why_not}"
    return f"{one.entry.id}  {times.age(grace_period.age_by_clock(one.entry)):>4}  {_name(one.entry)}"


def _name(entry: trash.TrashEntry) -> str:
    of = "" if entry.of_folder else f" of {safe(entry.repo_name)}"
    return f"{safe(entry.worktree_name)}{of}"


def _kept_refs(done: PurgedEntry) -> str:
    return f"; its own commits are kept as {', '.join(done.kept_refs)}" if done.kept_refs else ""


def _kept(asked: list[PurgeCandidate]) -> list[dict[str, object]]:
    return [{"id": one.entry.id, "why": one.why_not} for one in asked if one.why_not is not None]


def _nothing(context: Context) -> str:
    keep = context.settings.number("trash.keep_days")
    return f"no entry is provably older than {count(keep, 'day')}; name entries or use --all to purge others"


def _data(context: Context, entry: trash.TrashEntry) -> dict[str, object]:
    part = trash_parts.part_of(context, entry)
    trashed = restore.trashed_worktree(context, entry) if part is None else None
    return {
        "id": entry.id,
        "kind": entry.kind,
        "worktree_name": entry.worktree_name,
        "repo": entry.repo_name,
        "worktree_path": entry.path,
        "trash_path": trashed.folder if trashed else entry.trash_path,
        "branch": trashed.branch if trashed else None,
        "commit": trashed.sha if trashed else None,
        "files": list(part.paths) if part is not None and entry.of_files else None,
        "why": entry.data.get("why"),
        "removed_at": entry.removed_at,
        "removed_by": entry.removed_by,
        "how": entry.how,
        "restorable": trashed.in_trash if trashed else part is not None and part.restorable,
        "purgeable": purge.is_due(context, entry),
        "listed": True,
        "problem": None,
    }


def _unlisted_data(context: Context, found: UnlistedEntry) -> dict[str, object]:
    """The same fields for an entry that the registry does not list; null where only a usable note would say it."""
    trashed, note, files = found.trashed, found.note, found.files
    return {
        "id": found.id,
        "kind": "files" if files else "worktree",
        "worktree_name": trashed.name if trashed else files.worktree_name if files else None,
        "repo": context.repo_name(found.repository) or (trashed.repo_name if trashed else None),
        "worktree_path": trashed.path if trashed else None,
        "trash_path": trashed.folder if trashed else found.folder,
        "branch": trashed.branch if trashed else None,
        "commit": trashed.sha if trashed else None,
        "files": [str(one["path"]) for one in files.data["files"]] if files else None,  # type: ignore[attr-defined]
        "why": None,
        "removed_at": found.removed_at or None,
        "removed_by": trashed.agent if trashed else files.removed_by if files else None,
        "how": trashed.how if trashed else files.how if files else None,
        "restorable": found.problem is None,
        "purgeable": False,
        "listed": False,
        "problem": found.problem,
        "registry": {"id": note.registry_id, "path": note.registry_path} if note else None,
    }


ACTIONS = (UndoAction(), TrashListAction(), TrashRestoreAction(), TrashPurgeAction())
