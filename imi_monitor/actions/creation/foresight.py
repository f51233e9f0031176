"""What making a worktree will do, told without going to the network: for whoever has to decide."""

from __future__ import annotations

import os

from imi_monitor.actions.creation import existing, freshness, starts
from imi_monitor.git import heads
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.where import Wanted


def lines(context: Context, wanted: Wanted) -> list[str]:
    """The directory, the branch and where that starts; raises what is in the way already now."""
    found = existing.find(context, wanted)
    if found is not None:
        branch = f"on {safe(found.branch)}" if found.branch else "on no branch"
        return [f"{safe(found.name)} exists already, {branch}: goes there", f"folder  {safe(found.path)}"]
    if os.path.lexists(wanted.path):
        raise Refused(f"there is something at {safe(wanted.path)} already: choose another name", code="path-exists")
    return [
        f"makes   {safe(wanted.name)}",
        f"branch  {safe(wanted.branch)}, {_start(context, wanted)}",
        f"folder  {safe(wanted.path)}",
    ]


def _start(context: Context, wanted: Wanted) -> str:
    git = context.git(wanted.repository)
    remote = freshness.remote_name(context)
    known = heads.read(git, remote)
    starts.refuse_at_once(git, wanted, known, remote)
    if wanted.source is not None:
        return f"new, from {safe(wanted.source)}"
    if wanted.branch in known.local:
        return "which exists and is taken over as it is"
    if wanted.branch in known.remote:
        return f"taken over from {safe(remote)}"
    trunk = starts.trunk(context, wanted, known)
    if trunk is None:
        return "new; it is not clear where it starts, as no trunk is known"
    shown = f"{safe(remote)}/{safe(trunk)}, which is fetched first" if trunk in known.remote else safe(trunk)
    return f"new, from {shown}"
