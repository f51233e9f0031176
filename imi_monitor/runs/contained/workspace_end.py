"""The end of work in a contained workspace: what is delivered, and the clean-up, which moves the folder into the trash.

Every step is recorded before it acts and can be repeated, so what a crash interrupts is completed by the next follower.
"""

from __future__ import annotations

import json
import os

from imi_monitor.model import contained_names
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe
from imi_monitor.runs.contained import file_delivery, workspace_place, workspace_trash
from imi_monitor.runs.contained.file_door import FileDoor
from imi_monitor.store import claims, contained_work, db, events, runs, trash
from imi_monitor.store.contained_work import ACTIVE, CLEANED, CLEANING, DELIVERED, DROPPED, PURGED, WAITS, WANTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.contained_work import ContainedRow, Delivery
    from imi_monitor.store.runs import RunRow

_COMPLETED = "completed"


def workspace_of(row: RunRow) -> str | None:
    """The contained workspace that a run works in; None: in none."""
    found = json.loads(row.launch).get("contained")
    return str(found["path"]) if isinstance(found, dict) else None


def settle(connection: sqlite3.Connection, row: RunRow) -> None:
    """Deliver what the ended run may deliver, and clean the workspace after its last run."""
    path = workspace_of(row)
    if path is None:
        return
    _end_left_behind(row)
    for one in db.read(connection, contained_work.list_deliveries, path, WANTED):
        if one.run == row.id:
            _settle_delivery(connection, path, one, completed=row.status == _COMPLETED)
    clean_if_over(connection, path, f"{row.short} {row.shown_state}")


def _end_left_behind(row: RunRow) -> None:
    """A contained run ends with its keeper; where its wall does not see to it, what its agent started may have outlived it."""
    from imi_monitor.runs import run_stop  # which ends runs, and so imports this module

    if not str(json.loads(row.launch).get("wall", "")).startswith("bubblewrap"):  # whose processes end with it
        run_stop.stop_left_behind(row)


def settle_all(connection: sqlite3.Connection) -> None:
    """Complete what was interrupted: clean each workspace whose runs are all over."""
    for life in db.read(connection, contained_work.list_lives, ACTIVE, CLEANING):
        ended = [row for row in _runs_in(connection, life.path) if row.created_at >= life.created_at]
        if life.state == CLEANING or ended:
            clean_if_over(connection, life.path, life.why or "its runs were over")
        elif os.path.isdir(os.path.dirname(life.path)):
            with workspace_place.locked(life.path):
                discard_empty(connection, life.path)


def discard_empty(connection: sqlite3.Connection, path: str) -> None:
    """End a workspace in which nothing is and no agent works; call it under the lock.

    Its start died before the run was recorded.
    """
    life = db.read(connection, contained_work.current, path)
    if life is None or any(row.is_open for row in _runs_in(connection, path)):
        return
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass  # it was removed by hand
    except OSError:
        return  # there are files
    db.transact(connection, _end_empty, life)


def _end_empty(connection: sqlite3.Connection, life: ContainedRow) -> None:
    contained_work.drop_wanted(connection, life.path, "its run did not begin")
    contained_work.set_state(connection, life.id, PURGED)


def clean_if_over(connection: sqlite3.Connection, path: str, why: str, by: str = trash.BY_ITSELF) -> bool:
    """Clean the workspace unless a run works there or a delivery waits for a person; whether it was cleaned."""
    if not os.path.isdir(os.path.dirname(path)):
        return False
    with workspace_place.locked(path):
        if any(row.is_open for row in _runs_in(connection, path)) or claimed_by_others(connection, path, by):
            return False
        if db.read(connection, contained_work.list_deliveries, path, WAITS):
            return False
        return clean(connection, path, why, by)


def claimed_by_others(connection: sqlite3.Connection, path: str, *own: str) -> str | None:
    """The owner of the claim on the workspace, if it is none of these."""
    owner = db.read(connection, claims.current, contained_names.HOME, os.path.basename(path)).agent_id
    return None if owner in own else owner


def clean(connection: sqlite3.Connection, path: str, why: str, by: str = trash.BY_ITSELF) -> bool:
    """Move the workspace into the trash; call it under the lock. False if there is none."""
    life = db.read(connection, contained_work.current, path)
    if life is None:
        return False
    place = life.trash_path or workspace_trash.place_of(path, life.id)
    db.transact(connection, contained_work.begin_cleaning, life.id, place, why)
    try:
        if os.path.isdir(path) and not os.path.lexists(
            place
        ):  # else a crash came behind the move, and the folder is a new one
            workspace_place.check(path)
            workspace_trash.move(path, place)
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be moved into the trash: {error.strerror}", code="unwritable") from error
    db.transact(connection, _end_life, life, place, why, by)
    return True


def deliver_now(connection: sqlite3.Connection, path: str, name: str, target: str, agent: str) -> str:
    """Deliver a file because a person says so."""
    with FileDoor(path, agent) as door:
        final = file_delivery.deliver(door, name, target)
    db.transact(connection, _log_delivery, path, name, final, None, agent)
    return final


def _settle_delivery(connection: sqlite3.Connection, path: str, one: Delivery, *, completed: bool) -> None:
    if not completed:
        db.transact(connection, contained_work.end_delivery, one.seq, DROPPED, "the run was not completed")
        return
    if not one.allowed:
        db.transact(connection, contained_work.end_delivery, one.seq, WAITS, "a person has to allow it")
        return
    try:
        with FileDoor(path, one.agent_id or "") as door:
            final = file_delivery.deliver(door, one.name, one.target)
    except ImiError as error:
        db.transact(connection, _refused_delivery, path, one, error.sentence, gone=error.code == "missing")
        return
    db.transact(connection, contained_work.end_delivery, one.seq, DELIVERED, None, final)
    db.transact(connection, _log_delivery, path, one.name, final, one.run, one.agent_id)


def _log_delivery(
    connection: sqlite3.Connection, path: str, name: str, final: str, run: str | None, agent: str | None
) -> None:
    contained_work.log(connection, path, "delivered", name, run=run, agent=agent, target=final)
    events.record(connection, "file.delivered", agent_id=agent, data={"file": name, "path": final, "run": run})


def _refused_delivery(connection: sqlite3.Connection, path: str, one: Delivery, why: str, *, gone: bool) -> None:
    """It waits for a person, who may name another place; what was never written is no longer wanted."""
    contained_work.end_delivery(connection, one.seq, DROPPED if gone else WAITS, why)
    contained_work.log(
        connection, path, "refused", one.name, run=one.run, agent=one.agent_id, target=one.target, why=why
    )
    data: dict[str, object] = {"file": one.name, "path": one.target, "run": one.run, "why": why}
    events.record(connection, "file.refused", agent_id=one.agent_id, data=data)


def _end_life(connection: sqlite3.Connection, life: ContainedRow, place: str, why: str, by: str) -> None:
    contained_work.set_state(connection, life.id, CLEANED)
    contained_work.drop_wanted(connection, life.path, "its run did not begin")
    files = len(_files(place))
    if os.path.isdir(place):
        workspace_trash.record(connection, life.id, life.path, place, by=by, how="cleaned", files=files, why=why)
    data: dict[str, object] = {"name": life.name, "files": files, "trash": place, "why": why}
    events.record(connection, "workspace.cleaned", data=data)


def _runs_in(connection: sqlite3.Connection, path: str) -> list[RunRow]:
    return [row for row in db.read(connection, runs.list_runs) if workspace_of(row) == path]


def _files(path: str) -> list[str]:
    try:
        with FileDoor(path, "") as door:
            return door.names()
    except (ImiError, OSError):
        return []
