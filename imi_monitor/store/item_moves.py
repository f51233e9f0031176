"""Moves of items that follow from claims and runs. Each runs in the transaction that changes the claim or run. Lean."""

from __future__ import annotations

from imi_monitor.model import board, times
from imi_monitor.store import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_NAMED = "id = ? OR external_id = ?"
_IDLE = (
    "SELECT i.id, i.external_id, i.started_at FROM items AS i WHERE i.status = ?"
    " AND EXISTS (SELECT 1 FROM tasks AS t WHERE t.task_id IN (i.id, i.external_id))"
    " AND NOT EXISTS (SELECT 1 FROM tasks AS t JOIN claim_history AS g USING (repo_name, worktree_name, epoch)"
    " WHERE t.task_id IN (i.id, i.external_id) AND coalesce(t.ended_at, g.released_at) IS NULL)"
    " AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = i.run_id AND r.ended_at IS NULL)"
)


def move(
    connection: sqlite3.Connection,
    item: str,
    status: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    changes: dict[str, object] | None = None,
) -> bool:
    """Set the status of an item, with its times, and record the event; False if it has it or may not get it."""
    row = connection.execute(
        "SELECT status, repo_name, worktree_name, started_at, retries FROM items WHERE id = ?", (item,)
    ).fetchone()
    if row is None or not board.may_move(row[0], status):
        return False
    at = times.stamp()
    values: dict[str, object] = {"status": status, "updated_at": at, "error": None, **(changes or {})}
    if status == board.IN_PROGRESS:
        values["started_at"] = at if row[3] is None or row[0] in board.OVER else row[3]
        values["retries"] = row[4] + (1 if row[3] is not None and row[0] != board.BLOCKED else 0)
    if status in (board.BLOCKED, board.FAILED):
        values["error"] = reason
    values["ended_at"] = at if status in board.OVER else None
    put(connection, item, values)
    data: dict[str, object] = {"task": item, "from": row[0], "to": status}
    if reason is not None:
        data["reason"] = reason
    where = (values.get("repo_name", row[1]), values.get("worktree_name", row[2]))
    repo, worktree = (None if one is None else str(one) for one in where)
    events.record(connection, "task.moved", repo, worktree, agent_id=by, data=data)
    return True


def put(connection: sqlite3.Connection, item: str, values: dict[str, object]) -> None:
    """Set columns of an item."""
    columns = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE items SET {columns} WHERE id = ?", (*values.values(), item))


def begin(
    connection: sqlite3.Connection,
    task: str,
    agent: str,
    repo_name: str | None,
    worktree_name: str | None,
    run: str | None = None,
) -> None:
    """An agent begins to work on the item that `task` names, if it names one."""
    row = connection.execute(f"SELECT id, status FROM items WHERE {_NAMED}", (task, task)).fetchone()
    if row is None:
        return
    values: dict[str, object] = {"agent_id": agent, "run_id": run}
    if worktree_name is not None:
        values |= {"repo_name": repo_name, "worktree_name": worktree_name}
    if row[1] == board.IN_PROGRESS:
        put(connection, row[0], {name: value for name, value in values.items() if value is not None})
    else:
        move(connection, row[0], board.IN_PROGRESS, by=agent, changes=values)


def finish(connection: sqlite3.Connection, task: str | None, outcome: str, by: str | None, reason: str | None) -> None:
    """The work on the item that `task` names ended with this outcome."""
    row = connection.execute(f"SELECT id, status FROM items WHERE {_NAMED}", (task, task)).fetchone()
    if row is not None and row[1] in (board.IN_PROGRESS, board.BLOCKED):
        move(connection, row[0], board.after_attempt(outcome), by=by, reason=reason)


def finish_run(connection: sqlite3.Connection, run: str, agent: str, status: str, detail: str | None) -> None:
    """The run that works on an item ended: completed, failed, cancelled or crashed."""
    row = connection.execute("SELECT id FROM items WHERE run_id = ?", (run,)).fetchone()
    if row is not None:
        finish(connection, row[0], board.FAILED if status == "crashed" else status, agent, detail)


def forget_run(connection: sqlite3.Connection, run: str) -> None:
    """The run never began, because the process that started it died: its item waits again, for the next start."""
    row = connection.execute("SELECT id FROM items WHERE run_id = ? AND status = ?", (run, board.FAILED)).fetchone()
    if row is not None:
        move(connection, row[0], board.PENDING, changes={"run_id": None})


def list_idle(connection: sqlite3.Connection, limit: int = -1) -> list[tuple[str, str | None, str | None]]:
    """(id, id in another system, start) of the items in progress that had an attempt and have no open one."""
    return connection.execute(f"{_IDLE} LIMIT ?", (board.IN_PROGRESS, limit)).fetchall()
