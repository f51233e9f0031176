"""Runs in the registry: the queue, the starts, the questions, and how far their output is recorded.

Every change that two processes could make at once is a conditional UPDATE; what it returns says whether it was ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from imi_monitor import host
from imi_monitor.fast import json_writer
from imi_monitor.model import run, times
from imi_monitor.model.agent import RESTING
from imi_monitor.model.run import ALIVE, OPEN, PLACES, QUEUED, STARTING, Question, RunVerdict
from imi_monitor.store import item_moves

if TYPE_CHECKING:
    from imi_monitor.model.usage_limit import UsageLimit

_OPEN = ", ".join(f"'{one}'" for one in OPEN)
_PLACES = ", ".join(f"'{one}'" for one in PLACES)
_RESTING = ", ".join(f"'{one}'" for one in sorted(RESTING))
_ANSWER_SECONDS = 20.0
_SETTLED_DAYS = 7
_MOST_SETTLED = 200


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run; None: not known, or not yet."""

    seq: int
    id: str
    host: str
    program: str
    way: str
    status: str
    state: str | None
    detail: str | None
    agent_id: str
    user: str
    session: str | None
    repo_name: str | None
    worktree_name: str | None
    epoch: int | None
    cwd: str
    folder: str
    launch: str
    prompt: str | None
    boot: str | None
    pid: int | None
    pid_started: str | None
    stop_by: str | None
    stop_at: str | None
    exit_code: int | None
    resumed_from: str | None
    created_at: str
    started_at: str | None
    active_at: str | None
    ended_at: str | None
    archive: str | None

    @property
    def short(self) -> str:
        return self.id[:8]

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def shown_state(self) -> str:
        """The word for what it does; a process that is gone is not shown as alive before its end is recorded."""
        active = times.parse(self.active_at)
        silent = None if active is None else (times.now() - active).total_seconds()
        return run.shown_state(self.status, self.state, silent, limited=self.usage_limit is not None)

    @property
    def usage_limit(self) -> UsageLimit | None:
        """The limit of its program that ended its last turn."""
        from imi_monitor.model import usage_limit

        return usage_limit.limit_of(self.state, self.detail, self.ended_at or self.active_at)


_COLUMNS = ", ".join(RunRow.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class AskRow:
    run: int
    id: str
    tool: str
    text: str | None
    position: int
    asked_at: str
    answer: str | None
    answered_by: str | None
    answered_at: str | None
    closed_at: str | None

    @property
    def is_open(self) -> bool:
        """Nothing answered it, or what did was never taken in: the process that sent the answer may have died before."""
        return self.closed_at is None and (self.answered_at is None or self.answered_at < _unheard())


def _unheard() -> str:
    """An answer given before this moment and not taken in was not sent."""
    return times.stamp(times.now() - timedelta(seconds=_ANSWER_SECONDS))


_ASK_COLUMNS = ", ".join(AskRow.__dataclass_fields__)


def insert(connection: sqlite3.Connection, values: dict[str, object], launch: dict[str, object]) -> RunRow:
    """Add a run at the end of the queue. Call it inside the transaction that claims its worktree."""
    given = {
        **values,
        "host": host.hostname(),
        "status": QUEUED,
        "launch": json_writer.dumps(launch),
        "created_at": times.stamp(),
    }
    connection.execute(
        f"INSERT INTO runs ({', '.join(given)}) VALUES ({', '.join('?' * len(given))})", tuple(given.values())
    )
    found = by_id(connection, str(values["id"]))
    assert found is not None
    connection.execute("INSERT INTO run_offsets (run, position, lines) VALUES (?, 0, 0)", (found.seq,))
    return found


def by_id(connection: sqlite3.Connection, ident: str) -> RunRow | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM runs WHERE id = ?", (ident,)).fetchone()
    return None if row is None else RunRow(*row)


def find_by_prefix(connection: sqlite3.Connection, prefix: str) -> list[RunRow]:
    """The runs whose id, session or agent begins with `prefix`, the newest first; a whole name matches only itself."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE substr(id, 1, length(?1)) = ?1 OR substr(session, 1, length(?1)) = ?1"
        " OR agent_id = ?1 ORDER BY seq DESC LIMIT 50",
        (prefix,),
    )
    return [RunRow(*row) for row in rows]


def list_in_worktree(connection: sqlite3.Connection, names: Sequence[str], repo: str | None) -> list[RunRow]:
    """The runs in worktrees of these names, the newest first; `repo` None: of all repositories."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE worktree_name IN ({', '.join('?' * len(names))})"
        " AND (? IS NULL OR repo_name = ?) ORDER BY seq DESC LIMIT 50",
        (*names, repo, repo),
    )
    return [RunRow(*row) for row in rows]


def list_runs(connection: sqlite3.Connection, *, only_open: bool = False, limit: int | None = None) -> list[RunRow]:
    """The runs, the newest first."""
    where = f"WHERE status IN ({_OPEN})" if only_open else ""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM runs {where} ORDER BY seq DESC LIMIT ?", (-1 if limit is None else limit,)
    )
    return [RunRow(*row) for row in rows]


def count_runs(connection: sqlite3.Connection, *, only_open: bool = False) -> int:
    where = f"WHERE status IN ({_OPEN})" if only_open else ""
    return int(connection.execute(f"SELECT count(*) FROM runs {where}").fetchone()[0])


def list_open_here(connection: sqlite3.Connection) -> list[RunRow]:
    """The runs of this machine that are not over, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE status IN ({_OPEN}) AND host = ? ORDER BY seq", (host.hostname(),)
    )
    return [RunRow(*row) for row in rows]


def list_ended_here(connection: sqlite3.Connection) -> list[RunRow]:
    """The last ended runs of this machine, the newest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE status NOT IN ({_OPEN}) AND host = ? AND ended_at > ? ORDER BY seq DESC LIMIT ?",
        (host.hostname(), times.stamp(times.now() - timedelta(days=_SETTLED_DAYS)), _MOST_SETTLED),
    )
    return [RunRow(*row) for row in rows]


def count_of_task(connection: sqlite3.Connection, task: str) -> int:
    """Return how many runs were started for the task, on any machine."""
    row = connection.execute("SELECT count(*) FROM runs WHERE json_extract(launch, '$.task') = ?", (task,)).fetchone()
    return int(row[0])


def list_starting_here(connection: sqlite3.Connection) -> list[RunRow]:
    """The runs of this machine that a process starts."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE status = ? AND host = ? ORDER BY seq", (STARTING, host.hostname())
    )
    return [RunRow(*row) for row in rows]


def has_queued_here(connection: sqlite3.Connection) -> bool:
    """Whether a run of this machine waits in the queue."""
    found = connection.execute("SELECT 1 FROM runs WHERE status = ? AND host = ? LIMIT 1", (QUEUED, host.hostname()))
    return found.fetchone() is not None


def set_archive(connection: sqlite3.Connection, one: RunRow, path: str | None) -> None:
    """Note where the run's folder is packed; None: it is in its place; empty: it is gone."""
    connection.execute("UPDATE runs SET archive = ? WHERE seq = ?", (path, one.seq))


def has_open_here(connection: sqlite3.Connection) -> bool:
    """Whether a run of this machine is not over."""
    found = connection.execute(
        f"SELECT 1 FROM runs WHERE status IN ({_OPEN}) AND host = ? LIMIT 1", (host.hostname(),)
    ).fetchone()
    return found is not None


def place_in_queue(connection: sqlite3.Connection, one: RunRow) -> int:
    """1 for the run that starts next."""
    row = connection.execute(
        "SELECT count(*) FROM runs WHERE status = ? AND host = ? AND seq <= ?", (QUEUED, one.host, one.seq)
    ).fetchone()
    return int(row[0])


def count_places(connection: sqlite3.Connection, since: str) -> tuple[int, int]:
    """The runs of this machine that have a place, and how many of them started after the moment `since`.

    A run has a place from its start to the end of its turn: one without work waits for its user and takes no place.
    """
    row = connection.execute(
        f"SELECT count(*), coalesce(sum(started_at IS NULL OR started_at > ?), 0) FROM runs"
        f" WHERE status IN ({_PLACES}) AND host = ?"
        f" AND (status = '{STARTING}' OR state IS NULL OR state NOT IN ({_RESTING}))",
        (since, host.hostname()),
    ).fetchone()
    return int(row[0]), int(row[1])


def take_next(connection: sqlite3.Connection, at_once: int) -> RunRow | None:
    """Take the first queued run for this process to start, if fewer than `at_once` runs have a place."""
    here = host.hostname()
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE status = ? AND host = ? ORDER BY seq LIMIT 1", (QUEUED, here)
    ).fetchone()
    if row is None or count_places(connection, "")[0] >= at_once:
        return None
    one = RunRow(*row)
    _own(connection, one.seq)
    connection.execute("UPDATE runs SET status = ? WHERE seq = ?", (STARTING, one.seq))
    return by_id(connection, one.id)


def take_over_start(connection: sqlite3.Connection, one: RunRow) -> bool:
    """Become the process that starts this run, whose starter died; False if another process did."""
    changed = connection.execute(
        "UPDATE runs SET pid = NULL WHERE seq = ? AND status = ? AND pid IS ? AND pid_started IS ?",
        (one.seq, STARTING, one.pid, one.pid_started),
    ).rowcount
    if changed:
        _own(connection, one.seq)
    return bool(changed)


def _own(connection: sqlite3.Connection, seq: int) -> None:
    import os

    me = host.identify_process(os.getpid())
    connection.execute(
        "UPDATE runs SET boot = ?, pid = ?, pid_started = ? WHERE seq = ?", (me.boot, me.pid, me.started, seq)
    )


def mark_alive(connection: sqlite3.Connection, one: RunRow, pid: int, pid_started: str, boot: str) -> bool:
    """The agent of a starting run runs."""
    now = times.stamp()
    changed = connection.execute(
        "UPDATE runs SET status = ?, boot = ?, pid = ?, pid_started = ?, started_at = ?, active_at = ?"
        " WHERE seq = ? AND status = ?",
        (ALIVE, boot, pid, pid_started, now, now, one.seq, STARTING),
    ).rowcount
    return bool(changed)


def list_lost_claims(connection: sqlite3.Connection) -> list[tuple[RunRow, str]]:
    """The living runs of this machine whose worktree another owner has claimed since, with that owner."""
    columns = ", ".join(f"r.{name}" for name in RunRow.__dataclass_fields__)
    rows = connection.execute(
        f"SELECT c.agent_id, {columns} FROM runs AS r JOIN claims AS c USING (repo_name, worktree_name)"
        " WHERE r.status = ? AND r.host = ? AND c.agent_id IS NOT NULL AND c.agent_id <> r.agent_id AND c.epoch > r.epoch",
        (ALIVE, host.hostname()),
    )
    return [(RunRow(*row[1:]), str(row[0])) for row in rows]


def parent_session(connection: sqlite3.Connection, one: RunRow) -> str | None:
    """The recorded session of the run in which this one was started."""
    row = connection.execute(
        "SELECT program || ':' || session FROM runs WHERE id = (SELECT json_extract(launch, '$.parent') FROM runs"
        " WHERE seq = ?)",
        (one.seq,),
    ).fetchone()
    return None if row is None else row[0]


def find_open_session(connection: sqlite3.Connection, one: RunRow) -> RunRow | None:
    """An open run that works on the session of this one."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM runs WHERE session = ? AND program = ? AND seq <> ? AND status IN ({_OPEN}) LIMIT 1",
        (one.session, one.program, one.seq),
    ).fetchone()
    return None if row is None else RunRow(*row)


def set_epoch(connection: sqlite3.Connection, one: RunRow, epoch: int) -> None:
    connection.execute("UPDATE runs SET epoch = ? WHERE seq = ?", (epoch, one.seq))


def intend_stop(connection: sqlite3.Connection, one: RunRow, by: str) -> RunRow | None:
    """Record that the run is to end: the intent comes before the signal. A queued run ends here. None: it is over."""
    if not connection.execute(
        f"UPDATE runs SET stop_by = ?, stop_at = ? WHERE seq = ? AND status IN ({_OPEN})", (by, times.stamp(), one.seq)
    ).rowcount:
        return None
    unstarted = connection.execute(
        "UPDATE runs SET status = 'cancelled', ended_at = ?, detail = ? WHERE seq = ? AND status = ?",
        (times.stamp(), f"stopped by {by} before it started", one.seq, QUEUED),
    ).rowcount
    if unstarted:
        item_moves.finish_run(connection, one.id, by, "cancelled", None)
    return by_id(connection, one.id)


def end(connection: sqlite3.Connection, one: RunRow, found: RunVerdict, code: int | None) -> bool:
    """Record the end of an open run and close its questions; False if it was recorded before."""
    now = times.stamp()
    changed = connection.execute(
        f"UPDATE runs SET status = ?, detail = ?, exit_code = ?, ended_at = ? WHERE seq = ? AND status IN ({_OPEN})",
        (found.status, found.detail, code, now, one.seq),
    ).rowcount
    if changed:
        connection.execute("UPDATE asks SET closed_at = ? WHERE run = ? AND closed_at IS NULL", (now, one.seq))
        item_moves.finish_run(connection, one.id, one.agent_id, found.status, found.detail)
    return bool(changed)


# -- the output -------------------------------------------------------------------------------------------------------


def offset(connection: sqlite3.Connection, seq: int) -> tuple[int, int]:
    """(bytes, lines) of the output that are recorded."""
    row = connection.execute("SELECT position, lines FROM run_offsets WHERE run = ?", (seq,)).fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def move_offset(connection: sqlite3.Connection, seq: int, before: int, after: int, lines: int) -> bool:
    """Compare and set: False if another reader recorded these lines; then nothing of them may be recorded again."""
    changed = connection.execute(
        "UPDATE run_offsets SET position = ?, lines = lines + ? WHERE run = ? AND position = ?",
        (after, lines, seq, before),
    ).rowcount
    return bool(changed)


def record_progress(
    connection: sqlite3.Connection, one: RunRow, session: str | None, state: str | None, detail: str | None
) -> None:
    """Record what the output says about the agent now."""
    connection.execute(
        "UPDATE runs SET session = coalesce(?, session), state = ?, detail = ?, active_at = ? WHERE seq = ?",
        (session, state, detail, times.stamp(), one.seq),
    )


def record_asks(connection: sqlite3.Connection, seq: int, asked: Iterable[Question], closed: Sequence[str]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO asks (run, id, tool, text, position, asked_at) VALUES (?, ?, ?, ?, ?, ?)",
        [(seq, one.id, one.tool, one.text, one.position, one.at) for one in asked],
    )
    now = times.stamp()
    connection.executemany(
        "UPDATE asks SET closed_at = ? WHERE run = ? AND id = ? AND closed_at IS NULL",
        [(now, seq, ident) for ident in closed],
    )


def list_asks(connection: sqlite3.Connection, seq: int, *, only_open: bool = True) -> list[AskRow]:
    rows = connection.execute(f"SELECT {_ASK_COLUMNS} FROM asks WHERE run = ? ORDER BY asked_at, id", (seq,))
    return [one for one in (AskRow(*row) for row in rows) if one.is_open or not only_open]


def answer_ask(connection: sqlite3.Connection, seq: int, ident: str, answer: str, by: str) -> bool:
    """Reserve the answer of one question for the caller; False if it was answered or closed before."""
    changed = connection.execute(
        "UPDATE asks SET answer = ?, answered_by = ?, answered_at = ?"
        " WHERE run = ? AND id = ? AND closed_at IS NULL AND (answered_at IS NULL OR answered_at < ?)",
        (answer, by, times.stamp(), seq, ident, _unheard()),
    ).rowcount
    return bool(changed)


def withdraw_answer(connection: sqlite3.Connection, seq: int, ident: str) -> None:
    """The reserved answer was not sent: the question is open again."""
    connection.execute(
        "UPDATE asks SET answer = NULL, answered_by = NULL, answered_at = NULL WHERE run = ? AND id = ?", (seq, ident)
    )
