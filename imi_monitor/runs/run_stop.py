"""Stops a run for sure: the intent, the program's own way, a signal to its group, then all that descends from it.

A signal to the group is not enough, because programs start their tools in sessions of their own. So the family is noted
before the first signal: afterwards orphans hang below another process.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from imi_monitor import host
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import Refused
from imi_monitor.runs import launch_folder, providers, run_claim, run_end
from imi_monitor.runs.agent_variables import RUN_VARIABLE
from imi_monitor.runs.provider import WINDOW
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from imi_monitor.runs.launch_folder import LaunchFolder
    from imi_monitor.runs.provider import Message
    from imi_monitor.store.runs import RunRow

    Family = dict[int, str]  # pid -> start

ASKED, TERMINATED, KILLED, OVER = "asked", "terminated", "killed", "over"
_PATIENCE = 3.0  # seconds for each step
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Stopped:
    """`how`: asked, terminated, killed, or over before; `killed`: processes of the family that had to be killed."""

    how: str
    killed: int


def stop(connection: sqlite3.Connection, row: RunRow, by: str) -> Stopped | None:
    """End the run and everything that descends from its agent; None if it was over."""
    current = db.transact(connection, _intend, row, by)
    if current is None:
        return None
    if not current.is_open:
        run_end.settle(connection, current)
        return Stopped(OVER, 0)  # it left the queue
    folder = launch_folder.folder_of(row.id)
    born = folder.birth()
    if born is None or folder.process().over:
        return Stopped(OVER, _kill(_left_behind(row)))
    family = {born.pid: born.started}

    def gone() -> bool:
        family.update(_family(family))
        return folder.process().over

    how = _end_agent(row, folder, born.pid, gone)
    family.update(_left_behind(row))
    del family[born.pid]
    return Stopped(how, _kill(family))


def _intend(connection: sqlite3.Connection, row: RunRow, by: str) -> RunRow | None:
    """Record the intent; a run that leaves the queue by it gives its claim back."""
    current = runs.intend_stop(connection, row, by)
    if current is not None and not current.is_open:
        run_claim.release(connection, current)
    return current


def ask_to_end(row: RunRow) -> bool:
    """Tell an agent without work to end, in its program's own way; no signal is sent. False if it has no such way."""
    messages = _last_messages(row)
    if not messages:
        return False
    with suppress(Refused):  # it does not read any more
        launch_folder.folder_of(row.id).send(messages)
    return True


def _last_messages(row: RunRow) -> list[Message]:
    """A window takes none: a person may sit there, and a signal ends it."""
    return [] if row.way == WINDOW else providers.by_name(row.program).finish()


def stop_left_behind(row: RunRow) -> int:
    """Kill what an ended agent left behind; the number of processes."""
    return _kill(_left_behind(row))


def list_left_behind(rows: Sequence[RunRow]) -> dict[str, list[tuple[int, str]]]:
    """(pid, command) of the processes that the agents of ended runs left behind and that still run, by run."""
    named = host.processes_by_variable(RUN_VARIABLE) if rows else {}
    left = {row.id: _left_behind(row, named.get(row.id, {})) for row in rows}
    return {
        ident: [(pid, host.process_name(pid) or "?") for pid in sorted(pids)] for ident, pids in left.items() if pids
    }


def _left_behind(row: RunRow, named: Family | None = None) -> Family:
    """By the keeper's record, and by the environment that all processes of a run have: the keeper may have been killed."""
    if named is None:
        named = host.processes_by_variable(RUN_VARIABLE).get(row.id, {})
    noted = dict(launch_folder.folder_of(row.id).process().left)
    return {**{pid: started for pid, started in noted.items() if host.start_time(pid) == started}, **named}


def _end_agent(row: RunRow, folder: LaunchFolder, pid: int, gone: Callable[[], bool]) -> str:
    gone()
    messages = _last_messages(row)
    if messages:
        with suppress(Refused):  # it does not read any more
            folder.send(messages)
        if _wait(gone):
            return ASKED
    _signal_group(pid, signal.SIGCONT)  # a stopped process does not hear the next one
    _signal_group(pid, signal.SIGTERM)
    if _wait(gone):
        return TERMINATED
    _signal_group(pid, signal.SIGKILL)
    if not _wait(gone):
        raise Refused(f"process {pid} does not end, not even by SIGKILL: it waits for a device or a file system")
    return KILLED


def _wait(gone: Callable[[], bool]) -> bool:
    until = time.monotonic() + _PATIENCE
    while not gone():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)  # the keeper made it the leader of its group


def _family(known: Family) -> Family:
    """All that descends from the known processes that still run."""
    return host.descendants([pid for pid, started in known.items() if host.start_time(pid) == started])


def _kill(family: Family) -> int:
    """Kill these processes and what descends from them now, and wait for their ends; returns their number.

    A pid that another process uses meanwhile is left alone.
    """
    killed: Family = {}
    for pid, started in {**family, **_family(family)}.items():
        if host.start_time(pid) == started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed[pid] = started
    _wait(lambda: all(host.start_time(pid) != started for pid, started in killed.items()))
    return len(killed)
