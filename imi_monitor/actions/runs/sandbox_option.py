"""`--sandbox`: the wall that `imi start` builds around an agent."""

from __future__ import annotations

import json
import os

from imi_monitor.actions.action import Option
from imi_monitor.actions.contained import contained_option
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.runs import run_wall, walls
from imi_monitor.runs.provider import TASK, WINDOW
from imi_monitor.runs.run_wall import RunWall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.runs.provider import Spec
    from imi_monitor.store.runs import RunRow

SANDBOX = Option(
    "sandbox",
    "a wall of the kernel around the agent: write (it changes its worktree and nothing else), strict (it also sees nothing of"
    " your home folder), off (default)",
    value="LEVEL",
    choices=walls.LEVELS,
    label="Behind a wall: it changes its worktree and nothing else",
    ticked=walls.WRITE,
)


def level(context: Context, request: Request, before: RunRow | None = None) -> str:
    """The wanted wall: as given, as the resumed run had it, else by the settings."""
    given = request.text("sandbox")
    if given is None and before is not None:
        given = str(json.loads(before.launch).get("sandbox") or walls.OFF)
    if given is None and contained_option.is_wanted(request):
        return walls.STRICT
    if given is None:
        given = context.settings.text("runs.sandbox") or walls.OFF
    if given not in walls.LEVELS:
        raise UsageError(
            f"--sandbox {safe(given, 40)!r} is unknown: use one of {', '.join(walls.LEVELS)}", code="bad-option"
        )
    return given


def refuse(context: Context, request: Request) -> None:
    """Refuse what cannot be combined, and a machine without a wall, before anything is made."""
    if level(context, request) == walls.OFF:
        return
    if request.text("way") == WINDOW:
        raise UsageError(
            "--sandbox needs --way task: a window is answered by files that no wall may open", code="bad-option"
        )
    walls.find()


def wall_of(
    context: Context,
    request: Request,
    agent: str,
    spec: Spec,
    found: Target | None,
    before: RunRow | None,
    contained: bool,
) -> RunWall | None:
    """The wall of a run; None: it has none. Refused without a mechanism, and in the trunk's worktree."""
    wanted = level(context, request, before)
    if wanted == walls.OFF:
        return None
    if found is not None and (found.is_main or found.admin_dir is None):
        raise Refused(
            f"{safe(found.name)} is the trunk's worktree, whose git folder no wall can share: use --new TYPE/NAME",
            code="no-wall",
        )
    git = run_wall.linked_folders(found.repository, found.admin_dir) if found is not None and found.admin_dir else None
    readable = [os.path.realpath(os.path.expanduser(one)) for one in context.settings.texts("runs.readable")]
    branch = found.branch if found is not None else None
    seen = tuple(filter(os.path.isdir, readable))
    return RunWall(wanted, walls.find(), agent, spec.program, git, branch, seen, flat=contained)


def advice(request: Request, found: Target | None, wanted: str) -> str | None:
    """What `imi start` suggests where an agent has no wall and reads what strangers wrote, or works without a terminal."""
    if wanted != walls.OFF or found is None or found.is_main or walls.program() is None:
        return None
    if found.kind == "review":
        why = f"{safe(found.name)} is a review: what a stranger wrote there can lead the agent"
    elif request.text("way") == TASK and request.text("sandbox") is None:
        why = "it works without a terminal in which a person sees what it does"
    else:
        return None
    way = "--sandbox write keeps it inside of its worktree"
    return advised(why, way, "a wall keeps it inside of its worktree", joint="; ")
