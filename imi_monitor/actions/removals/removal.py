"""Taking a worktree out of its place without losing anything of it: the verdict, then the move into the trash.

1. The verdict. 2. One transaction: the claim is reserved, which fails if it was granted anew, and the intent is written with
all that is needed to undo it. 3. Another look, right before the move. 4. The move. 5. One transaction makes it true. Here is
the first; the others are in removing.py.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.actions.action import Request
from imi_monitor.actions.removals import inspection, reasons, removing, trash_place
from imi_monitor.actions.removals.parcel import Parcel
from imi_monitor.git import layout, parking
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import Overrides, Reason, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removals.inspection import Look
    from imi_monitor.actions.target import Target

NOTHING = Overrides()


@dataclass(frozen=True, slots=True)
class Removed:
    """A worktree that is in the trash now."""

    trash_id: str
    repo_name: str
    worktree_name: str
    path: str
    trash_path: str
    branch: str | None
    sha: str | None
    verdict: Verdict
    notes: tuple[str, ...] = ()


def inspect(context: Context, found: Target, *, agent: str | None = None, deep: bool = False) -> Verdict:
    """Everything that speaks against removing it; `agent` is whose claim does not count (default: the caller's)."""
    return inspection.look(context, found, agent or context.agent(Request("", {})), deep=deep).verdict


def remove(
    context: Context,
    found: Target,
    *,
    agent: str,
    how: str = "removed",
    overrides: Overrides = NOTHING,
    look: Look | None = None,
) -> Removed:
    """Move the worktree into the trash, or refuse with all reasons and change nothing. `how` goes into its row.

    `look` is what the caller has seen already, if it did; it is checked against the present once more before the move.
    """
    look = look or inspection.look(context, found, agent)
    refuse(look, overrides)
    warnings, look = _pre_remove(context, look, agent, overrides)
    repo_name = context.register(found.repository)
    try:
        packed = _into_trash(context, look, repo_name, agent, how, overrides)
    except OSError as error:
        raise _failed(found, error) from error
    return Removed(
        packed.id, repo_name, found.name, found.path, packed.folder, packed.branch, packed.sha, look.verdict, warnings
    )


def refuse(look: Look, overrides: Overrides) -> None:
    """Raise with every reason that still stands, and with what it would take."""
    standing = look.verdict.against(force=overrides.force, yes_really=overrides.yes_really)
    if standing:
        raise refusal(look.found, look.verdict, standing)


def refusal(found: Target, verdict: Verdict, standing: tuple[Reason, ...]) -> Refused:
    listed = reasons.lines(standing) if len(standing) > 1 else []
    return Refused(
        reasons.headline(found.name, standing),
        code="not-safe" if len(standing) > 1 else standing[0].code,
        details=[*listed, *reasons.lines(verdict.notes), reasons.way_out(found.name, verdict)],
        data={
            "worktree_name": found.name,
            "repo": found.repo_name,
            "reasons": [reason.data() for reason in verdict.reasons],
        },
    )


def _into_trash(context: Context, look: Look, repo_name: str, agent: str, how: str, overrides: Overrides) -> Parcel:
    for root in trash_place.roots(look.found):
        packed = _pack(look, repo_name, root, agent, how, overrides)
        try:
            removing.carry_out(context, look, packed, overrides)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            continue  # in spite of equal devices: a bind mount or an overlay; try beside it
        return packed
    raise trash_place.other_file_system(look.found)


def _pre_remove(context: Context, look: Look, agent: str, overrides: Overrides) -> tuple[tuple[str, ...], Look]:
    """The repository's own commands, if there are any; they may change something, so it is looked at anew."""
    found = look.found
    if found.repo_name is None or not context.settings.commands(found.repo_name, "pre_remove"):
        return (), look
    if found.kind == "review":  # as after its creation: `make stop` there is whatever a stranger wrote
        return ("its pre_remove commands were not run, because it is a pull request's",), look
    from imi_monitor.actions.sharing import repository_commands

    report = repository_commands.run(context, found.repository, "pre_remove", found.path, found.name)
    if report is None:
        return (), look
    again = inspection.look(context, found, agent)
    refuse(again, overrides)
    return tuple(report.warnings), again


def _pack(look: Look, repo_name: str, root: str, agent: str, how: str, overrides: Overrides) -> Parcel:
    found = look.found
    admin_dir = found.admin_dir or ""
    parked = parking.remember(admin_dir)
    gitfile = layout.read_regular(os.path.join(found.path, ".git"), 1 << 16)
    if gitfile is None:
        raise Refused(f"the .git file of {safe(found.name)} cannot be read: nothing was done", code="tampered")
    identity = os.urandom(5).hex()
    lifted = look.verdict.codes() if overrides.force else []
    return Parcel(
        id=identity,
        repo_name=repo_name,
        name=found.name,
        common_dir=found.repository.common_dir,
        admin_dir=admin_dir,
        path=found.path,
        trash_dir=os.path.join(root, identity),
        inode=os.lstat(found.path).st_ino,
        gitfile=os.fsdecode(gitfile),
        head=parked.head,
        gitdir=parked.gitdir,
        locked=parked.locked,
        branch=look.status.branch if look.status else found.branch,
        sha=look.status.oid if look.status else (found.linked.head if found.linked else None),
        agent=agent,
        how=how,
        overridden=tuple(lifted),
        boot=host.boot().partition("/")[0],
        uptime=host.uptime(),
    )


def _failed(found: Target, error: OSError) -> Refused:
    return Refused(
        f"{safe(found.name)} could not be moved into the trash ({error.strerror}): nothing was changed",
        code="move-failed",
    )
