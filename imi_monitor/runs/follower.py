"""The follower: the process that turns the output of runs into rows while no other does. A program: `-m … DATABASE`.

One follows each registry; a lock decides. It also completes interrupted starts, starts queued runs, asks agents to end
whose turn has been over for long, and packs the output of old runs. Where an upgrade has replaced its code, it becomes a
follower of the new code. It begins with the first run and ends after the last.
Nothing is lost while none runs.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing, suppress
from datetime import timedelta

from imi_monitor import config, host
from imi_monitor.model import times, usage_limit
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.runs import (
    day_budget,
    follower_process,
    launcher,
    run_budget,
    run_interrupt,
    run_limit,
    run_recovery,
    run_stop,
    run_upkeep,
)
from imi_monitor.runs.code_files import RunningCode
from imi_monitor.runs.provider import TASK
from imi_monitor.runs.run_ingest import RunIngest
from imi_monitor.runs.run_turns import RunTurns
from imi_monitor.runs.run_watch import RunWatch
from imi_monitor.store import db, events, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.config import Settings

_TICK = 0.1
_MANY = 10
_NOTES = "limits"  # of a launch folder
_HOUSEKEEPING = 1.0
_LONGEST_PAUSE = 5.0


def main(database: str) -> None:
    """Follow until no run is open. A run that begins while the lock is given back is seen by the second look."""
    code = RunningCode()
    while (lock := follower_process.acquire(database)) is not None:
        try:
            _follow(database, code)
        finally:
            os.close(lock)
        if not _has_runs(database):
            return
        if code.has_changed():
            _become_new(database)


def _become_new(database: str) -> None:
    """Go on with the new code, in the same process; with the old one where the interpreter is gone."""
    with suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-m", "imi_monitor.runs.follower", database])


def _has_runs(database: str) -> bool:
    if not os.path.exists(database):
        return False
    connection = db.connect(database, create=False)
    try:
        return bool(db.read(connection, runs.list_open_here))
    finally:
        db.close(connection)


def _follow(database: str, code: RunningCode) -> None:
    pause = _TICK
    while os.path.exists(database):
        try:
            connection = db.connect(database, create=False)
            try:
                _follow_connection(connection, code)
                return
            finally:
                db.close(connection)
        except RegistryError:  # locked, full or replaced: the output waits in its files
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


def _follow_connection(connection: sqlite3.Connection, code: RunningCode) -> None:
    settings = config.read()
    ingest = RunIngest(connection, settings.number("runs.checkpoint_every"), settings.table("runs.prices"))
    ingest.settle_left()
    run_upkeep.pack_old(connection, settings.number("runs.keep_days"))
    run_upkeep.archive_old(connection, settings.number("runs.archive_days"), settings.number("trash.keep_days"))
    run_upkeep.compress_logs(connection, settings.number("logs.keep_days"))
    with closing(RunWatch()) as watch:
        _follow_open(connection, code, settings, ingest, watch)


def _follow_open(
    connection: sqlite3.Connection, code: RunningCode, settings: Settings, ingest: RunIngest, watch: RunWatch
) -> None:
    """Follow until no run is open, or the code has changed."""
    due, turns = 0.0, RunTurns()
    while db.is_current(connection):
        if ingest.update():
            turns.look(ingest.followed.values())
        if time.monotonic() >= due:
            due = time.monotonic() + _HOUSEKEEPING
            run_recovery.recover(connection)
            if db.read(connection, runs.has_queued_here):
                launcher.start_queued(connection, run_limit.at_once(connection, settings))
            _greet(ingest)
            _check_budgets(connection, ingest, settings)
            _check_claims(connection, ingest)
            offer_resumes(connection, ingest)
            _end_idle(ingest, settings.number("runs.idle_minutes"))
            if not db.read(connection, runs.has_open_here) or code.has_changed():
                return
        # many streams are read less often, each time with more
        if _rest(ingest, watch, _TICK if len(ingest.followed) < _MANY else _TICK * 3):
            due = 0.0
    raise RegistryError("the registry was replaced", code="replaced")


def _rest(ingest: RunIngest, watch: RunWatch, seconds: float) -> bool:
    """Wait until the next round, which comes at once when a process has ended; whether one was a starter.

    Meanwhile answer what walled agents ask for.
    """
    until = time.monotonic() + seconds
    requests = [one.requests.folder for one in ingest.followed.values() if one.requests.folder is not None]
    launches = [one.folder.path for one in ingest.followed.values()]
    starters = {row.pid: row.pid_started for row in ingest.starting if row.pid is not None}
    while (left := until - time.monotonic()) > 0:
        woken = watch.wait(left, [*requests, *launches], {**ingest.processes(), **starters})
        if woken.intersection(requests):
            ingest.look_at_requests()
        started = bool(woken & starters.keys())
        if ingest.expect_end(woken) or started:
            return started
    return False


def _check_budgets(connection: sqlite3.Connection, ingest: RunIngest, settings: Settings) -> None:
    for one in ingest.followed.values():
        one.count_work()
        run_budget.check(connection, one)
    day_budget.check(connection, settings, ingest.followed.values())


def _check_claims(connection: sqlite3.Connection, ingest: RunIngest) -> None:
    """Interrupt once each agent whose worktree another owner has claimed; it is never killed."""
    for row, owner in db.read(connection, runs.list_lost_claims):
        one = ingest.followed.get(row.seq)
        if one is not None and run_interrupt.interrupt_once(one, f"claim {row.epoch}"):
            data: dict[str, object] = {"run": row.id, "by": owner}
            place = (row.repo_name, row.worktree_name)
            db.transact(connection, events.record, "run.claim_lost", *place, agent_id=row.agent_id, data=data)


def offer_resumes(connection: sqlite3.Connection, ingest: RunIngest) -> None:
    """Record once that the usage limit is over for which an agent waits, unless it has gone on by itself."""
    for one in ingest.followed.values():
        reached = usage_limit.limit_of(one.reader.state, one.reader.detail, one.row.active_at)
        if reached is None or not usage_limit.is_over(reached):
            continue
        assert reached.until is not None
        note = f"over {times.stamp(reached.until)}"
        if not one.folder.count_lines(_NOTES, note):
            row = one.row
            data: dict[str, object] = {"run": row.id, "until": times.stamp(reached.until)}
            db.transact(
                connection,
                events.record,
                "run.resumable",
                row.repo_name,
                row.worktree_name,
                agent_id=row.agent_id,
                data=data,
            )
            one.folder.add_line(_NOTES, note)


def _greet(ingest: RunIngest) -> None:
    """Send the prompt of an agent whose starter died in between."""
    for one in ingest.followed.values():
        if one.row.way == TASK and one.reader.state is None and not one.folder.process().over:
            try:
                launcher.greet(one.row, one.folder)
            except (ImiError, OSError):
                continue  # it ended meanwhile


def _end_idle(ingest: RunIngest, minutes: int) -> None:
    """Ask the agents to end that have had nothing to do for so many minutes; 0: never."""
    for one in ingest.followed.values():
        since = one.turn_over_since
        reached = usage_limit.limit_of(one.reader.state, one.reader.detail, one.row.active_at)
        if (
            reached is not None
            and reached.until is not None
            and times.now() < reached.until + timedelta(minutes=minutes)
        ):
            continue  # it is resumed then
        if minutes and since is not None and host.uptime() - since >= minutes * 60:
            run_stop.ask_to_end(one.row)
            one.turn_over_since = None  # asked again after as many minutes


if __name__ == "__main__":
    main(sys.argv[1])
