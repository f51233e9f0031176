"""The event log: each change of state adds its event in the same transaction.

`EVENT_KINDS` lists every kind with the keys its data may have. A new kind is one line there; screens and `imi events`
show it without further code.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.fast import json_writer
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import times
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.model.snapshot import RegistryEvent

_PULL_REQUEST = ("pr_number", "title", "author", "base", "head", "fork", "url", "state")
_SESSION = ("session", "cli", "status", "detail")
_NOTE = ("note", "text", "context", "artifacts")
_TYPE = ("type", "branch_prefix", "directory_prefix")

EVENT_KINDS: dict[str, tuple[str, ...]] = {
    "agent.described": ("emoji", "role", "team"),
    "agent.forgotten": (),
    "artifact.failed": ("file", "run", "why"),
    "artifact.saved": ("file", "run", "path"),
    "budget.used_up": ("unit", "used", "budget"),
    "budget.warned": ("unit", "used", "budget"),
    "command.ended": ("name", "line", "status", "seconds"),
    "file.delivered": ("file", "path", "run"),
    "file.refused": ("file", "path", "run", "why"),
    "files.purged": ("trash_id",),
    "files.replaced": ("how", "files", "trash_id"),
    "files.restored": ("files", "trash_id"),
    "intent.logged": _NOTE,
    "lesson.logged": _NOTE,
    "milestone.logged": _NOTE,
    "note.added": ("note", "place", "remark"),
    "note.answered": ("note", "remark"),
    "note.done": ("note",),
    "note.sent": ("notes", "round", "agent"),
    "note.withdrawn": ("notes",),
    "ref.moved": ("run", "ref", "before", "after"),
    "registry.restored": ("kept_as", "reason", "claims_lost"),
    "registry.started": ("replaces",),
    "remote.claimed": ("host", "repo", "name", "task"),
    "remote.released": ("host", "repo", "name", "how"),
    "repository.moved": ("path",),
    "repository.trusted": ("fingerprint", "programs"),
    "repository.untrusted": (),
    "run.claim_lost": ("run", "by"),
    "run.interrupted": ("run", "unit", "used", "budget"),
    "run.resumable": ("run", "until"),
    "run.used_up": ("run", "unit", "used", "budget"),
    "run.warned": ("run", "unit", "used", "budget"),
    "session.ended": (*_SESSION, "ended_at", "artifacts", "more_artifacts", "run", "committed", "uncommitted"),
    "session.progress": (*_SESSION, "from", "since", "checkpoint"),
    "session.started": (*_SESSION, "how", "began_at", "run", "user", "labels"),
    "state.synced": ("session", "items", "sessions"),
    "task.assigned": ("task", "agent", "external_id"),
    "task.created": ("task", "title", "priority", "source", "batch", "external_id", "correlation_id"),
    "task.edited": ("task", "changed"),
    "task.ended": ("task", "outcome"),
    "task.moved": ("task", "from", "to", "reason"),
    "type.added": _TYPE,
    "type.removed": _TYPE,
    "workspace.cleaned": ("name", "files", "trash", "why"),
    "workspace.purged": ("name", "path"),
    "workspace.restored": ("name", "path"),
    "worktree.adopted": ("path", "branch", "commit", "how", "trash_id", "removed_by", "claimed_by"),
    "worktree.claimed": ("epoch", "task", "how", "reason", "forced_from", "takeover_from", "died_before", "passed_by"),
    "worktree.commit": ("branch", "commit", "subject", "committed_at"),
    "worktree.created": ("path", "branch", "type", "commit", "took_over", "adopted", *_PULL_REQUEST),
    "worktree.merged": ("branch", "into", "before", "after"),
    "worktree.moved": ("path",),
    "worktree.purged": ("path", "trash_id", "kept"),
    "worktree.released": ("epoch", "task", "how", "reason", "by"),
    "worktree.removed": ("path", "branch", "commit", "how", "trash_id", "overridden"),
    "worktree.renamed": ("from", "path", "branch"),
    "worktree.restored": ("path", "branch", "trash_id"),
    "worktree.synced": ("linked", "moved", "removed", "kept", "conflicts"),
    "worktree.updated": ("from", "to", "commits", "how", *_PULL_REQUEST),
}


class Event(Row):
    """One entry of the log; `data` is JSON text as it was written."""

    seq: int
    id: str
    type: str
    host: str
    repo_name: str | None
    worktree_name: str | None
    agent_id: str | None
    epoch: int | None
    data: str
    occurred_at: str


def record(
    connection: sqlite3.Connection,
    kind: str,
    repo_name: str | None = None,
    worktree_name: str | None = None,
    *,
    agent_id: str | None = None,
    epoch: int | None = None,
    data: dict[str, object] | None = None,
) -> str:
    """Append one event of a declared kind and return its id; call it inside the transaction that makes it true."""
    unknown = set(data or ()).difference(EVENT_KINDS[kind])  # KeyError: declare the kind in EVENT_KINDS
    if unknown:
        raise ValueError(f"EVENT_KINDS does not list {sorted(unknown)} for {kind}")
    return append_row(connection, kind, repo_name, worktree_name, agent_id=agent_id, epoch=epoch, data=data)


def append_row(
    connection: sqlite3.Connection,
    kind: str,
    repo_name: str | None = None,
    worktree_name: str | None = None,
    *,
    agent_id: str | None = None,
    epoch: int | None = None,
    data: dict[str, object] | None = None,
) -> str:
    """Append an event of any kind, as another program or a newer version of imi does. imi itself uses `record`."""
    identity = new_id()
    connection.execute(
        "INSERT INTO events (id, type, host, repo_name, worktree_name, agent_id, epoch, data, occurred_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            identity,
            kind,
            host.hostname(),
            repo_name,
            worktree_name,
            agent_id,
            epoch,
            json_writer.dumps(data or {}),
            times.stamp(),
        ),
    )
    return identity


def list_events(
    connection: sqlite3.Connection,
    seq: int = 0,
    *,
    kinds: tuple[str, ...] = (),
    after: str | None = None,
    repo_name: str | None = None,
    worktree_name: str | None = None,
    repositories: tuple[str, ...] | None = None,
    limit: int = 1000,
    newest: bool = False,
    before: int | None = None,
) -> list[Event]:
    """Events behind `seq`, and in front of number `before`, in order. A kind may end in `.*`; `after` is a stored moment.

    With `repositories`: those of these repositories, and those about the registry itself.

    The limit keeps the oldest ones, so that a reader can go on from there; with `newest` it keeps the last ones.
    """
    where, values = ["seq > ?"], [seq]  # type: tuple[list[str], list[object]]
    if kinds:
        where.append("(" + " OR ".join("type GLOB ?" for _ in kinds) + ")")
        values.extend(kinds)
    for column, value in (("repo_name", repo_name), ("worktree_name", worktree_name)):
        if value is not None:
            where.append(f"{column} = ?")
            values.append(value)
    if repositories is not None:
        own = f"repo_name IN ({', '.join('?' for _ in repositories)})"
        where.append(f"({own} OR (repo_name IS NULL AND type NOT LIKE 'session.%'))")
        values.extend(repositories)
    if before is not None:
        where.append("seq < ?")
        values.append(before)
    if after is not None:
        where.append("occurred_at >= ?")
        values.append(after)
    values.append(limit)
    order = "seq DESC" if newest else "seq"
    rows = connection.execute(
        f"SELECT {Event.columns} FROM events WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?", values
    )
    found = [Event(row) for row in rows]
    return found[::-1] if newest else found


def data_of(event: Event) -> dict[str, object]:
    """The event's data; empty if it is no JSON object."""
    from imi_monitor.fast import json_reader

    try:
        found = json_reader.loads(event.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def to_model(event: Event) -> RegistryEvent:
    """Return the event as a snapshot holds it."""
    from imi_monitor.model.snapshot import RegistryEvent

    who = (event.repo_name, event.worktree_name, event.agent_id)
    return RegistryEvent(event.seq, event.type, event.occurred_at, *who, event.data)


def first_id(connection: sqlite3.Connection) -> str | None:
    """The id of the oldest event of the log."""
    row = connection.execute("SELECT id FROM events ORDER BY seq LIMIT 1").fetchone()
    return None if row is None else str(row[0])


def last_seq(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])


_RECENT = 200  # events of one worktree


def find_last_update(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> Event | None:
    """The last update of this worktree's branch."""
    row = connection.execute(
        f"SELECT {Event.columns} FROM events WHERE repo_name = ? AND worktree_name = ? AND type = 'worktree.updated'"
        " ORDER BY seq DESC LIMIT 1",
        (repo_name, worktree_name),
    ).fetchone()
    return Event(row) if row is not None else None


def find_last_command(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> Event | None:
    """The last end of a program that a user ran in this worktree, among its last events; None for one of an earlier
    worktree of that name."""
    row = connection.execute(
        f"SELECT {Event.columns} FROM (SELECT * FROM events WHERE repo_name = ? AND worktree_name = ? ORDER BY seq DESC"
        f" LIMIT {_RECENT}) WHERE type IN ('command.ended', 'worktree.created') ORDER BY seq DESC LIMIT 1",
        (repo_name, worktree_name),
    ).fetchone()
    return Event(row) if row is not None and Event(row).type == "command.ended" else None
