"""The contained workspace of the caller, who acts in it, and how an act is recorded from inside and outside of a wall."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Option
from imi_monitor.model import contained_names
from imi_monitor.model.errors import UsageError
from imi_monitor.runs.agent_variables import PLACE_VARIABLE, REQUESTS_VARIABLE, ROLE_VARIABLE, WALL_VARIABLE
from imi_monitor.runs.contained import request_folder, workspace_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.runs.contained.file_door import Written

WORKSPACE = Option("workspace", "the workspace; default: the one you are in, else `default`", value="NAME")


def path(context: Context, request: Request) -> str:
    """The folder of the workspace that the request means."""
    named = request.text("workspace")
    given = os.environ.get(PLACE_VARIABLE)
    if given and named is None:
        return given
    if given and named != os.path.basename(given):
        raise UsageError(
            f"you are in the workspace {os.path.basename(given)}, and no other one is yours", code="contained"
        )
    return workspace_place.path_of(named, context.settings.text("contained.path"))


def role() -> str | None:
    """The role of an agent that imi started."""
    return os.environ.get(ROLE_VARIABLE) or None


def is_inside() -> bool:
    """Whether the caller is an agent of a contained run, which asks instead of acting outside."""
    return bool(os.environ.get(PLACE_VARIABLE))


def agent(context: Context, request: Request) -> str:
    return os.environ.get("IMI_AGENT_ID") or context.agent(request)


def record(context: Context, place: str, written: Written, who: str) -> None:
    """Add a write to the audit log: through the request folder where a wall keeps the registry out of reach."""
    act = "created" if written.created else "edited"
    requests = os.environ.get(REQUESTS_VARIABLE)
    if requests:
        request_folder.ask(requests, act, written.name, size=written.size, sha256=written.sha256)
        return
    if os.environ.get(WALL_VARIABLE):
        return  # a wall without requests: what the agent writes is seen, and not known by name
    from imi_monitor.store import contained_work, db

    def log(connection: sqlite3.Connection) -> None:
        contained_work.open_life(connection, os.path.basename(place), place)
        run, size = os.environ.get("IMI_RUN_ID"), written.size
        contained_work.log(connection, place, act, written.name, agent=who, run=run, size=size, sha256=written.sha256)

    db.transact(context.connection, log)


def make(place: str) -> None:
    """Make the workspace if it is not there; inside of a wall it is."""
    contained_names.check_workspace(os.path.basename(place))
    if not is_inside():
        workspace_place.make(place)
