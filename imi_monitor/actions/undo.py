"""`imi undo`: the worktree that was removed last, or the one named, comes back as it was."""

from __future__ import annotations

from imi_monitor.actions import target
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.removals import restore
from imi_monitor.git import layout
from imi_monitor.model import names, times
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removals.restore import Restored

WHICH = Argument("which", "its id in `imi trash list`, or its name; without it the one removed last", optional=True)
AGENT = Option("agent", "who you are", value="ID", aliases=("agent-id", "yi-id"))


class Undo(Action):
    words = ("undo",)
    label = "Undo"
    help = "bring back the worktree that was removed last, with everything in it"
    more = """Without an argument: the last one of the repository you stand in, or of all when you stand in none.
    The branch is made again if it was deleted; if it has moved on or is checked out elsewhere, HEAD stays detached."""
    key = "U"
    arguments = (WHICH,)
    options = (AGENT,)

    def refuse(self, context: Context, request: Request) -> None:
        restore.refuse(context, restore.parcel_of(context, choose(context, request.text("which"))))

    def consequences(self, context: Context, request: Request) -> list[str]:
        entry = choose(context, request.text("which"))
        packed = restore.parcel_of(context, entry)
        gone, why = restore.branch_outlook(context.git(layout.repository_at(packed.common_dir)), packed)
        lines = [
            f"brings back {safe(entry.worktree_name)}, removed {times.age_of(entry.removed_at)} ago by {safe(entry.removed_by)}",
            f"folder  {safe(entry.path)}, with every file as it was",
        ]
        if packed.branch is not None:
            again = f", which was deleted and is made again at {(packed.sha or '')[:10]}" if gone else ""
            lines.append(f"branch  {safe(packed.branch)}{again}" if why is None else f"HEAD is detached: {why}")
        return lines

    def run(self, context: Context, request: Request) -> Outcome:
        entry = choose(context, request.text("which"))
        return outcome(restore.restore(context, entry, agent=ownership.agent(context, request)))


def choose(context: Context, which: str | None) -> trash.TrashEntry:
    """The entry meant: by id, by the beginning of an id, by name (the last of that name), or simply the last."""
    repo_name = _repo_name(context)
    here = trash.list_kept(context.connection, repo_name) if repo_name else trash.list_kept(context.connection)
    everywhere = trash.list_kept(context.connection)
    if which is None:
        if here:
            return here[0]
        raise _nothing(everywhere)
    by_id = [entry for entry in everywhere if entry.id == which] or [
        entry for entry in everywhere if len(which) >= 4 and entry.id.startswith(which)
    ]
    if len(by_id) == 1:
        return by_id[0]
    for entries in (here, everywhere):
        for name in names.candidates(which, target.prefixes(context)):
            named = [entry for entry in entries if entry.worktree_name == name]
            if named:
                return _only_repository(named, which)
    raise _unknown(context, which, everywhere)


def outcome(back: Restored) -> Outcome:
    lines = [f"brought back {safe(back.worktree_name)}"]
    if back.branch_made_again:
        lines.append(f"made branch {safe(back.branch or '')} again")
    warnings = []
    if back.detached:
        warnings.append(f"{back.detached}: HEAD is detached at the commit it had; `git switch` when you are ready")
    data: dict[str, object] = {
        "message": lines[0],
        "worktree_name": back.worktree_name,
        "repo": back.repo_name,
        "worktree_path": back.path,
        "branch": back.branch,
        "branch_made_again": back.branch_made_again,
        "detached": back.detached,
        "trash_id": back.trash_id,
    }
    return Outcome(lines, data, path=back.path, warnings=warnings)


def _repo_name(context: Context) -> str | None:
    repository = context.find_repository()
    return context.repo_name(repository) if repository is not None else None


def _only_repository(named: list[trash.TrashEntry], which: str) -> trash.TrashEntry:
    if len({entry.repo_name for entry in named}) > 1:
        places = ", ".join(f"{entry.id} ({safe(entry.repo_name)})" for entry in named)
        raise Refused(f"{safe(which)!r} was removed in several repositories: give one of {places}", code="ambiguous")
    return named[0]


def _nothing(everywhere: list[trash.TrashEntry]) -> Refused:
    if not everywhere:
        return Refused("nothing is in the trash, so there is nothing to bring back", code="trash-empty")
    last = everywhere[0]
    return Refused(
        f"nothing was removed from this repository; the last one elsewhere is {safe(last.worktree_name)} of "
        f"{safe(last.repo_name)}: `imi undo {last.id}`",
        code="trash-empty",
    )


def _unknown(context: Context, which: str, everywhere: list[trash.TrashEntry]) -> Refused:
    entry = trash.get(context.connection, which)
    if entry is not None and entry.restored_at:
        return Refused(f"{safe(entry.worktree_name)} was brought back already", code="restored")
    if entry is not None and entry.purged_at:
        return Refused(f"{safe(entry.worktree_name)} was purged from the trash and is gone", code="purged")
    known = ", ".join(f"{entry.id} {safe(entry.worktree_name)}" for entry in everywhere[:5]) or "nothing"
    return Refused(f"no {safe(which)!r} in the trash; it holds {known}", code="not-in-trash")


ACTIONS = (Undo(),)
