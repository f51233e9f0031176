"""`imi trash list|restore|purge`: what was removed and can be brought back, and the only way to let go of it for good."""

from __future__ import annotations

from imi_monitor.actions import undo
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.removals import grace, purge, restore
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import operations, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removals.purge import Candidate, Purged


class List(Action):
    words = ("trash list",)
    label = "Trash"
    help = "the worktrees that were removed and can be brought back, the last one first"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        entries = _entries(context)
        keep = context.settings.number("trash.keep_days")
        lines = [_line(context, entry) for entry in entries] or ["the trash is empty"]
        return Outcome(lines, {"entries": [_data(context, entry, keep) for entry in entries], "keep_days": keep})


class Restore(Action):
    words = ("trash restore",)
    label = "Restore"
    help = "bring a worktree back from the trash; the same as `imi undo`"
    arguments = (Argument("which", "its id in `imi trash list`, or its name"),)
    options = (undo.AGENT,)

    def run(self, context: Context, request: Request) -> Outcome:
        entry = undo.choose(context, request.text("which"))
        return undo.outcome(restore.restore(context, entry, agent=ownership.agent(context, request)))


class Purge(Action):
    words = ("trash purge",)
    label = "Empty the trash"
    help = "delete removed worktrees for good: without --yes it only lists them"
    more = """Takes what has been in the trash for longer than trash.keep_days, by the clock and by the time this machine was
    running; name entries, or say --all, for others. Commits that only a purged worktree had stay, under refs/imi/kept/.
    The files are deleted in the background."""
    arguments = (Argument("which", "ids or names; without any, what is old enough", rest=True),)
    options = (
        Option("older-than", "only what is older than this; not less than trash.keep_days", value="DAYS", number=True),
        Option("all", "everything in the trash, however young"),
        Option("yes", "really delete"),
        Option("dry-run", "only list, as without --yes", aliases=("n",)),
        Option("wait", "come back only when the files are deleted"),
        undo.AGENT,
    )
    dangerous = True

    def consequences(self, context: Context, request: Request) -> list[str]:
        return [_candidate_line(one) for one in _asked(context, request)] or ["nothing is old enough"]

    def run(self, context: Context, request: Request) -> Outcome:
        asked = _asked(context, request)
        going = [one.entry for one in asked if one.why_not is None]
        if request.flag("yes") and not request.flag("dry-run"):
            return _purge(context, request, asked)
        lines = [_candidate_line(one) for one in asked] or [_nothing(context)]
        if going:
            lines.append(f"nothing was deleted yet: add --yes to delete {count(len(going), 'worktree')} for good")
        return Outcome(lines, {"purged": [], "would_purge": [entry.id for entry in going], "kept": _kept(asked)})


def _purge(context: Context, request: Request, asked: list[Candidate]) -> Outcome:
    agent = ownership.agent(context, request)
    purged: list[Purged] = []
    problems: list[str] = []
    for one in asked:
        if one.why_not is not None or context.cancelled():
            continue
        context.progress(f"purging {safe(one.entry.worktree_name)}")
        try:
            purged.append(purge.purge(context, one.entry, agent=agent))
        except ImiError as error:
            problems.append(error.sentence)
    _delete(context, purged, wait=request.flag("wait"))
    lines = [f"purged {_name(done.entry)}{_kept_refs(done)}" for done in purged] or [_nothing(context)]
    lines += [_candidate_line(one) for one in asked if one.why_not is not None]
    data: dict[str, object] = {"purged": [done.entry.id for done in purged], "would_purge": [], "kept": _kept(asked)}
    return Outcome(lines, data, warnings=problems, exit_status=1 if problems else 0)


def _delete(context: Context, purged: list[Purged], *, wait: bool) -> None:
    wanted = [done.operation for done in purged]
    if not wait:
        purge.delete_in_background(context, wanted)
        return
    for operation in operations.list_unfinished(context.connection):
        if operation.id in wanted:
            purge.delete_now(context.connection, operation)


def _asked(context: Context, request: Request) -> list[Candidate]:
    keep = float(context.settings.number("trash.keep_days"))
    days = request.number("older-than")
    if days is not None and days < keep:
        raise UsageError(
            f"--older-than {days:g} is less than trash.keep_days ({keep:g}): name the entries, or use --all",
            code="too-young",
        )
    given = request.rest("which")
    if given:
        chosen = {entry.id: entry for entry in (undo.choose(context, which) for which in given)}
        return purge.candidates(context, list(chosen.values()), days=0, named=True)
    entries = _entries(context)
    return purge.candidates(context, entries, days=keep if days is None else days, named=request.flag("all"))


def _entries(context: Context) -> list[trash.TrashEntry]:
    """Of the repository named with --repo, else of all."""
    repo_name = context.repo_name(context.repository()) if context.explicit_repo else None
    return trash.list_kept(context.connection, repo_name)


def _line(context: Context, entry: trash.TrashEntry) -> str:
    clock = grace.by_clock(entry)
    age = times.age(clock) if clock is not None else "? (its date is in the future)"
    gone = "" if restore.parcel_of(context, entry).in_trash else "  DELETED by somebody: it cannot come back"
    return f"{entry.id}  {age:>4}  {_name(entry)}  {entry.how} by {safe(entry.removed_by)}{gone}"


def _candidate_line(one: Candidate) -> str:
    if one.why_not is not None:
        return f"stays: {one.entry.id}  {_name(one.entry)}: {one.why_not}"
    return f"{one.entry.id}  {times.age(grace.by_clock(one.entry)):>4}  {_name(one.entry)}"


def _name(entry: trash.TrashEntry) -> str:
    return f"{safe(entry.worktree_name)} of {safe(entry.repo_name)}"


def _kept_refs(done: Purged) -> str:
    return f"; commits that only it had are kept as {', '.join(done.kept_refs)}" if done.kept_refs else ""


def _kept(asked: list[Candidate]) -> list[dict[str, object]]:
    return [{"id": one.entry.id, "why": one.why_not} for one in asked if one.why_not is not None]


def _nothing(context: Context) -> str:
    keep = context.settings.number("trash.keep_days")
    return f"nothing has been in the trash for {count(keep, 'day')} for certain; name entries, or use --all, for others"


def _data(context: Context, entry: trash.TrashEntry, keep: int) -> dict[str, object]:
    packed = restore.parcel_of(context, entry)
    return {
        "id": entry.id,
        "worktree_name": entry.worktree_name,
        "repo": entry.repo_name,
        "worktree_path": entry.path,
        "trash_path": packed.folder,
        "branch": packed.branch,
        "commit": packed.sha,
        "removed_at": entry.removed_at,
        "removed_by": entry.removed_by,
        "how": entry.how,
        "restorable": packed.in_trash,
        "purgeable": grace.is_over(entry, keep),
    }


ACTIONS = (List(), Restore(), Purge())
