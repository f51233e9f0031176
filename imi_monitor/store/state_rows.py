"""The rows that state files hold, and how they come back from them: a row that is newer than the file stays."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.fast import json_writer
from imi_monitor.model import board, session_record, times
from imi_monitor.model.agent import STATES, UNKNOWN
from imi_monitor.model.session_record import StreamEntry
from imi_monitor.store import agents, item_moves, items, pull_requests, session_events, worktrees
from imi_monitor.store.items import ItemRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from imi_monitor.model.foreign_run import ForeignRun, ForeignTask
    from imi_monitor.model.state_file import AgentState, SessionFiles
    from imi_monitor.store.runs import RunRow

_SESSION = (
    *("id", "host", "cli", "repo_name", "worktree_name", "agent_id", "status", "status_at", "detail", "cwd", "branch"),
    *("title", "prompt", "last_message", "model", "version", "tokens_in", "tokens_out", "tokens_cached", "cost_usd"),
    *("metadata", "started_at", "ended_at", "seen_at", "created_at", "updated_at"),
)
_NUMBERS = ("tokens_in", "tokens_out", "tokens_cached", "cost_usd")
_MOMENTS = ("status_at", "started_at", "ended_at", "created_at", "updated_at")
_LONGEST = 4000
_MOST_NUMBER = 1 << 40


def of_run(
    connection: sqlite3.Connection, run: RunRow
) -> tuple[dict[str, object] | None, dict[str, object] | None, str | None, str | None]:
    """(item, session, branch, address of the pull request) of a run; None: there is none, or it is unknown."""
    item = connection.execute(f"SELECT {ItemRow.columns} FROM items WHERE run_id = ?", (run.id,)).fetchone()
    session = connection.execute(
        f"SELECT {', '.join(_SESSION)} FROM sessions WHERE host = ? AND id = ?",
        (run.host, f"{run.program}:{run.session}"),
    ).fetchone()
    branch = None
    if run.repo_name is not None and run.worktree_name is not None:
        known = worktrees.get(connection, run.repo_name, run.worktree_name)
        branch = known.branch if known is not None else None
    return (
        None if item is None else dict(zip(ItemRow.__annotations__, item, strict=True)),
        None if session is None else dict(zip(_SESSION, session, strict=True)),
        branch,
        None if branch is None else _pull_request(connection, branch),
    )


def _pull_request(connection: sqlite3.Connection, branch: str) -> str | None:
    """The address of the pull request of a branch, as a forge listed it last."""
    for (project,) in connection.execute("SELECT project FROM forges").fetchall():
        for pull in pull_requests.read_list(connection, project).pulls:
            if getattr(pull, "head", None) == branch:
                return getattr(pull, "url", None)
    return None


class StateCount:
    """What a synchronisation has changed."""

    __slots__ = ("items", "sessions")

    def __init__(self) -> None:
        self.items = 0
        self.sessions = 0


def store(connection: sqlite3.Connection, state: SessionFiles, source: str, repo_name: str | None) -> StateCount:
    """Bring the rows up to what the state files of a session say. Again and again the same result. One transaction."""
    done = StateCount()
    if state.started_at is not None or state.repository is not None:
        done.sessions += store_session(connection, _leader_row(state, source, repo_name))
    for one in state.agents:
        own = one.ours.get("session")
        row = _own_session(own) if isinstance(own, dict) else _foreign_session(state, one, source, repo_name)
        done.sessions += store_session(connection, row)
        item = one.ours.get("item")
        if isinstance(item, dict):
            done.items += _store_own_item(connection, item)
        elif "item" not in one.ours:
            done.items += _store_foreign_item(connection, state, one, repo_name)
    return done


def text(value: object, most: int = _LONGEST) -> str | None:
    return session_record.stored_text(value, most) if isinstance(value, str) and value else None


def _own_session(given: Mapping[str, object]) -> dict[str, object]:
    """A session row that imi wrote: only its columns, with the types they have."""
    row: dict[str, object] = {}
    for name in _SESSION:
        value = given.get(name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        row[name] = (value if number else None) if name in _NUMBERS else text(value)
    for name in _MOMENTS:
        row[name] = _moment(row[name])
    row["host"] = row["host"] or host.hostname()
    row["status"] = row["status"] if row["status"] in STATES else UNKNOWN
    return row


def _moment(value: object) -> str | None:
    """A moment as it is stored; None for anything else."""
    found = times.parse(value) if isinstance(value, str) else None
    return None if found is None else times.stamp(found)


def _foreign_session(state: SessionFiles, one: AgentState, source: str, repo_name: str | None) -> dict[str, object]:
    at = one.ended_at or one.started_at or state.started_at or times.stamp()
    return {
        "id": f"{text(state.name, 200)}/{text(one.name, 200)}",
        "host": host.hostname(),
        "cli": text(one.ours.get("program"), 60) or "be-agents",
        "repo_name": repo_name,
        "worktree_name": None,
        "agent_id": text(one.name, 200),
        "status": one.session_status,
        "status_at": at,
        "detail": text(one.error),
        "branch": text(state.branch, 300),
        "prompt": text(one.description),
        "metadata": _metadata(state, source),
        "started_at": one.started_at,
        "ended_at": one.ended_at,
        "created_at": one.started_at or at,
        "updated_at": at,
    }


def _leader_row(state: SessionFiles, source: str, repo_name: str | None) -> dict[str, object]:
    at = state.ended_at or state.started_at or times.stamp()
    return {
        "id": text(state.name, 200),
        "host": host.hostname(),
        "cli": "batch",
        "repo_name": repo_name,
        "worktree_name": None,
        "agent_id": "orchestrator",
        "status": state.status,
        "status_at": at,
        "detail": None,
        "branch": text(state.branch, 300),
        "prompt": text(state.source, 300),
        "metadata": _metadata(state, source),
        "started_at": state.started_at,
        "ended_at": state.ended_at,
        "created_at": state.started_at or at,
        "updated_at": at,
    }


def _metadata(state: SessionFiles, source: str) -> str:
    about = {"state_file": source, "pr_url": text(state.pr_url, 500), "priority_file": text(state.source, 300)}
    about["target_repo"] = text(state.repository, 300)
    return json_writer.dumps({key: value for key, value in about.items() if value is not None})


def store_session(connection: sqlite3.Connection, row: dict[str, object], *, observed: bool = False) -> int:
    """Insert the session, or update it if the file is newer; returns the number of changed rows.

    `observed`: its status comes from more than the file, which stays as it is when a process ends.
    """
    if row.get("id") is None or row.get("agent_id") is None or row.get("cli") is None:
        return 0
    now = times.stamp()
    row = {**row, "seen_at": now, "metadata": row.get("metadata") or "{}"}
    for name in ("status_at", "created_at", "updated_at"):
        row[name] = row.get(name) or now
    known = connection.execute(
        "SELECT seq, updated_at, status FROM sessions WHERE host = ? AND id = ?", (row["host"], row["id"])
    ).fetchone()
    if known is not None and known[1] >= str(row["updated_at"]):
        ended = observed and known[1] == str(row["updated_at"]) and known[2] != row["status"]
        if not ended:
            return 0
    if known is not None:
        columns = ", ".join(f"{name} = ?" for name in row)
        connection.execute(f"UPDATE sessions SET {columns} WHERE seq = ?", (*row.values(), known[0]))
        return 1
    places = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO sessions ({', '.join(row)}) VALUES ({places})", tuple(row.values()))
    agents.mark_seen(connection, str(row["agent_id"]), str(row["host"]), now, "idle")
    return 1


def _store_own_item(connection: sqlite3.Connection, given: Mapping[str, object]) -> int:
    values = _own_item(given)
    if values is None:
        return 0
    known = items.get(connection, str(values["id"]))
    if known is not None:
        if known.updated_at >= str(values["updated_at"]):
            return 0
        item_moves.put(connection, known.id, {name: value for name, value in values.items() if name != "seq"})
        return 1
    taken = connection.execute("SELECT 1 FROM items WHERE seq = ?", (values["seq"],)).fetchone()
    if taken is not None:
        values["seq"] = connection.execute("SELECT max(seq) + 1 FROM items").fetchone()[0]
    items.insert(connection, values)
    return 1


def _own_item(given: Mapping[str, object]) -> dict[str, object] | None:
    """The values of an item that imi wrote; None if they are none."""
    values: dict[str, object] = {}
    for name, kind in ItemRow.__annotations__.items():
        value = given.get(name)
        if kind in ("int", "float"):
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST_NUMBER:
                return None
            values[name] = int(value) if kind == "int" else float(value)
        else:
            values[name] = text(value)
    values["text"] = values["text"] or ""
    needed = ("id", "title", "status", "priority", "created_at", "updated_at")
    known = values["status"] in board.STATUSES and values["priority"] in board.PRIORITIES
    return values if known and all(values[name] is not None for name in needed) else None


def store_task(connection: sqlite3.Connection, run: ForeignRun, one: ForeignTask) -> int:
    """The task of a foreign agent as an item; returns whether it is new or has changed."""
    new = items.NewItem(
        title=text(one.title, 300) or one.ident,
        status=one.status,
        batch=None,
        external_id=text(one.ident, 300),
        agent_id=text(run.agent, 200),
        repo_name=None,
    )
    known, added = items.add(connection, new)
    over = one.status in (board.COMPLETED, board.FAILED, board.CANCELLED)
    ends = {"started_at": one.started_at, "ended_at": one.updated_at if over else None, "error": text(one.error)}
    ends |= {"session_id": text(run.ident, 250), "status": one.status}
    if not added and all(getattr(known, name) == value for name, value in ends.items()):
        return 0
    item_moves.put(connection, known.id, {**ends, "updated_at": times.stamp()})
    return 1


def store_acts(connection: sqlite3.Connection, host_name: str, run: ForeignRun) -> None:
    """The tool calls of a foreign session, each with its events, and its files; what is known is brought up to date."""
    if not run.calls and not run.files:
        return
    found = (host_name, text(run.ident, 250))
    row = connection.execute("SELECT seq FROM sessions WHERE host = ? AND id = ?", found).fetchone()
    if row is None:
        return
    entries = []
    for call in run.calls:
        at = call.started_at or call.finished_at or times.stamp()
        entries.append(StreamEntry(f"{call.id}:start", "tool_started", "tool_started", at, call=call.id))
        if call.finished_at is not None:
            end = f"{call.id}:end"
            entries.append(StreamEntry(end, "tool_finished", "tool_finished", call.finished_at, call=call.id))
    session_events.add_acts(connection, row[0], entries, run.calls, run.files)


def _store_foreign_item(
    connection: sqlite3.Connection, state: SessionFiles, one: AgentState, repo_name: str | None
) -> int:
    """The task of a be-agents specialist, under the id that its own synchronisation gives it."""
    ident = f"task-{text(state.name, 200)}-{text(one.name, 200)}"
    title = text(one.description, 300) or f"{one.name} of {state.name}"
    new = items.NewItem(
        title=title,
        status=one.status,
        batch=text(state.source, 300),
        external_id=ident,
        agent_id=text(one.name, 200),
        repo_name=repo_name,
    )
    known, added = items.add(connection, new)
    ends = {"started_at": one.started_at, "ended_at": one.ended_at, "error": text(one.error), "session_id": state.name}
    ends |= {"status": one.status}
    if not added and all(getattr(known, name) == value for name, value in ends.items()):
        return 0
    item_moves.put(connection, known.id, {**ends, "updated_at": times.stamp()})
    return 1
