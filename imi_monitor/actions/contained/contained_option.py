"""`imi start --contained`: an agent in a contained workspace, with what it may deliver and its role."""

from __future__ import annotations

import json
import os

from imi_monitor.actions.action import Option
from imi_monitor.model import contained_names, roles
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.runs import launcher
from imi_monitor.runs.contained import denker_folders, file_delivery, workspace_end, workspace_place
from imi_monitor.runs.run_plan import ContainedWork
from imi_monitor.store import contained_work, db, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.runs.run_plan import RunPlan
    from imi_monitor.store.runs import RunRow

CONTAINED = Option(
    "contained",
    "work in a contained workspace (default: `default`): one flat folder, behind a strict wall, cleaned at the end",
    value="NAME",
    optional_value=True,
    label="In the contained workspace instead: a flat folder behind a strict wall",
    ticked=contained_names.DEFAULT,
    replaces_worktree=True,
)
DELIVER = Option(
    "deliver", "with --contained: what goes where when it is completed: report.pdf=~/Downloads/", value="FILE=DEST"
)
ROLE = Option("role", "with --contained: what the agent may do with files", value="ROLE", choices=tuple(roles.ROLES))
OPTIONS = (CONTAINED, DELIVER, ROLE)


def is_wanted(request: Request) -> bool:
    return "contained" in request.values


def refuse(request: Request) -> None:
    """Refuse what cannot be combined, before anything is made."""
    if not is_wanted(request):
        for name in ("deliver", "role"):
            if request.text(name) is not None:
                raise UsageError(f"--{name} needs --contained", code="bad-option")
        return
    for name in ("in", "new"):
        if request.text(name) is not None:
            raise UsageError(f"give --contained or --{name}, not both", code="bad-option")
    if request.text("role") is not None:
        roles.named(str(request.text("role")))
    contained_names.check_workspace(request.text("contained") or contained_names.DEFAULT)
    _deliveries(request, "/")


def prepare(context: Context, request: Request) -> ContainedWork | None:
    """The workspace of the run, made if it is not there; None without the option."""
    if not is_wanted(request):
        return None
    path = workspace_place.path_of(request.text("contained"), context.settings.text("contained.path"))
    workspace_end.settle_all(context.connection)
    _migrate(context, path)
    deliver_to = [os.path.expanduser(one) for one in context.settings.texts("contained.deliver_to")]
    return ContainedWork(path, request.text("role"), tuple(deliver_to), tuple(_deliveries(request, context.cwd)))


def _migrate(context: Context, path: str) -> None:
    """Move the files of Denker's older folders into the default workspace, as Denker does at its start."""
    if os.path.basename(path) != contained_names.DEFAULT or not denker_folders.find(os.path.dirname(path)):
        return
    done = denker_folders.migrate(context.connection, os.path.dirname(path), path, trash.BY_ITSELF)
    context.notify(f"{count(len(done.moved), 'file')} of older workspaces moved into {safe(path)}")


def work_of(row: RunRow) -> ContainedWork | None:
    """The contained work of an earlier run, for its continuation."""
    found = json.loads(row.launch).get("contained")
    if not isinstance(found, dict):
        return None
    return ContainedWork(str(found["path"]), found.get("role"), tuple(found.get("deliver_to", ())))


def begin(connection: sqlite3.Connection, plan: RunPlan) -> RunRow:
    """Put the run into the queue; a contained one while no clean-up can move its workspace away."""
    work = plan.contained
    if work is None:
        return launcher.begin(connection, plan)
    workspace_place.make(work.path)
    with workspace_place.locked(work.path):
        owner = workspace_end.claimed_by_others(connection, work.path, plan.agent, plan.user)
        if owner is not None:
            name = safe(os.path.basename(work.path))
            raise Refused(f"{safe(owner)} has claimed the workspace {name}: give another name", code="claimed")
        try:
            workspace_place.make(work.path)
            db.transact(connection, contained_work.open_life, os.path.basename(work.path), work.path)
            for name, target in work.deliveries:
                about = {"run": plan.id, "agent": plan.agent}
                db.transact(connection, contained_work.want_delivery, work.path, name, target, allowed=True, **about)
            return launcher.begin(connection, plan)
        except BaseException:  # also an interrupt
            workspace_end.discard_empty(connection, work.path)
            raise


def prompt_of(work: ContainedWork, prompt: str) -> str:
    """The first prompt, behind what the agent has to know of its workspace."""
    return f"{roles.instructions(work.role)}\n\n{prompt}"


def _deliveries(request: Request, cwd: str) -> list[tuple[str, str]]:
    """(file, target) of --deliver, several separated by commas."""
    text = request.text("deliver")
    found = []
    for part in text.split(",") if text else ():
        name, separator, wanted = part.partition("=")
        if not separator or not wanted:
            raise UsageError("--deliver takes FILE=DEST, several separated by commas", code="bad-option")
        found.append(
            (contained_names.check_file(name.strip()), file_delivery.target_of(name.strip(), wanted.strip(), cwd))
        )
    return found
