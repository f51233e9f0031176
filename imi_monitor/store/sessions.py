"""Recorded sessions: lists, one by the prefix of its id, and the times and counts for statistics. Reads only."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from imi_monitor import host
from imi_monitor.model import session_status, state_words, times
from imi_monitor.model.agent import FAILED, RESTING, UNKNOWN

_SILENT = timedelta(minutes=3)  # three missed updates


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One recorded session; None: never known."""

    seq: int
    id: str
    host: str
    cli: str
    repo_name: str | None
    worktree_name: str | None
    agent_id: str
    status: str
    status_at: str
    lost: str | None
    detail: str | None
    cwd: str | None
    branch: str | None
    parent_id: str | None
    title: str | None
    prompt: str | None
    last_message: str | None
    model: str | None
    version: str | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    cost_usd: float | None
    context_used: int | None
    context_size: int | None
    boot: str | None
    pid: int | None
    pid_started: str | None
    metadata: str
    started_at: str | None
    ended_at: str | None
    seen_at: str
    created_at: str
    updated_at: str

    @property
    def state(self) -> str:
        """The current state; `unknown` or `interrupted` when no monitor updated the row lately."""
        return session_status.displayed_status(self.status, self.lost or self._lost_now())

    @property
    def state_word(self) -> str:
        """The state in one word; a session that has ended is done unless it failed or died."""
        state = self.state
        over = self.ended_at is not None and state not in (FAILED, session_status.INTERRUPTED)
        return state_words.DONE if over else state_words.of_status(state)

    def _lost_now(self) -> str | None:
        if self.ended_at is not None or self.status in RESTING:
            return None
        if host.is_alive(self.host, self.boot, self.pid, self.pid_started) is False:
            return session_status.INTERRUPTED
        seen = times.parse(self.seen_at)
        return None if seen is not None and abs(times.now() - seen) < _SILENT else UNKNOWN

    @property
    def own_id(self) -> str:
        """The session's id in its program, without the program's name."""
        return self.id.partition(":")[2] or self.id

    @property
    def began_at(self) -> str:
        return self.started_at or self.created_at


_COLUMNS = ", ".join(SessionRow.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """The wanted sessions; None: all. `state` is one of STATE_WORDS or OLD_STATE_WORDS."""

    repo_name: str | None = None
    worktree_name: str | None = None
    agent: str | None = None
    state: str | None = None
    since: str | None = None  # not over before this time

    def where(self) -> tuple[str, list[object]]:
        asked: list[tuple[str, list[object]]] = []
        if self.repo_name is not None:
            asked.append(("repo_name = ?", [self.repo_name]))
        if self.worktree_name is not None:
            asked.append(("worktree_name = ?", [self.worktree_name]))
        if self.agent is not None:
            asked.append(("(agent_id = ? OR cli = ?)", [self.agent, self.agent]))
        if self.since is not None:
            asked.append(("seen_at >= ? AND coalesce(ended_at, seen_at) >= ?", [self.since, self.since]))
        return " AND ".join(f"({sql})" for sql, _ in asked) or "1", [value for _, values in asked for value in values]


STATE_WORDS = (*dict.fromkeys(map(state_words.of_status, session_status.SHOWN)), state_words.DONE, "live")
OLD_STATE_WORDS = (*session_status.SHOWN, *state_words.SYNONYMS)
"""Words of earlier versions, among them the statuses in JSON."""


def find(connection: sqlite3.Connection, wanted: SessionFilter, limit: int | None = None) -> list[SessionRow]:
    """The wanted sessions, the last updated first."""
    where, values = wanted.where()
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE {where} ORDER BY seen_at DESC, seq DESC LIMIT ?",
        (*values, -1 if limit is None or wanted.state is not None else limit),
    )
    hits = [one for one in (SessionRow(*row) for row in rows) if _matches_state(one, wanted.state)]
    return hits if limit is None else hits[:limit]


def find_by_prefix(connection: sqlite3.Connection, prefix: str, most: int = 10) -> list[SessionRow]:
    """The sessions whose id, with or without the program's name, starts with `prefix`; a whole id matches only itself."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE substr(id, 1, length(?1)) = ?1"
        " OR substr(id, instr(id, ':') + 1, length(?1)) = ?1 ORDER BY seen_at DESC LIMIT ?2",
        (prefix, most),
    )
    hits = [SessionRow(*row) for row in rows]
    whole = [one for one in hits if prefix in (one.id, one.own_id)]
    return whole if len(whole) == 1 else hits


def shortest_ids(connection: sqlite3.Connection, wanted: Iterable[SessionRow], least: int = 8) -> dict[int, str]:
    """Return, by `seq`, the part of each session's id that no other recorded session has; an id may begin with a time."""
    ids = sorted(
        {str(row[0]).partition(":")[2] or str(row[0]) for row in connection.execute("SELECT id FROM sessions")}
    )
    short: dict[int, str] = {}
    for one in wanted:
        at = bisect_left(ids, one.own_id)
        near = (*ids[max(0, at - 1) : at], *ids[at + 1 : at + 2])
        short[one.seq] = one.own_id[: max(least, *(1 + _shared(one.own_id, other) for other in near), 0)]
    return short


def _shared(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def by_seq(connection: sqlite3.Connection, seq: int) -> SessionRow | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else SessionRow(*row)


def costs(connection: sqlite3.Connection, ident: str) -> tuple[int | None, float | None]:
    """(tokens read and written, money) of the session with this id on this machine; None is unknown."""
    row = connection.execute(
        "SELECT tokens_in, tokens_out, cost_usd FROM sessions WHERE host = ? AND id = ?", (host.hostname(), ident)
    ).fetchone()
    if row is None:
        return None, None
    known = [number for number in row[:2] if number is not None]
    return sum(known) if known else None, row[2]


@dataclass(frozen=True, slots=True)
class StatusChange:
    """The session is in `status` (or `ready`) from `at` on, according to an event of this `kind`."""

    session: int
    at: str
    kind: str
    status: str


def list_status_changes(connection: sqlite3.Connection, wanted: Sequence[int]) -> list[StatusChange]:
    """The status changes of these sessions, oldest first for each."""
    made: list[StatusChange] = []
    for seq in wanted:
        rows = connection.execute(
            "SELECT session, at, kind, iif(kind = ?, kind, status) FROM session_events"
            " WHERE session = ? AND status IS NOT NULL ORDER BY at, seq",
            (session_status.READY, seq),
        )
        made += [StatusChange(*row) for row in rows]
    return made


def count_activity(connection: sqlite3.Connection, session: int, since: str) -> tuple[int, int, int]:
    """(prompts, tool calls, failed tool calls) since a moment."""
    prompts = connection.execute(
        "SELECT count(*) FROM session_events WHERE session = ? AND at >= ? AND kind = 'prompt'", (session, since)
    ).fetchone()[0]
    calls, failed = connection.execute(
        "SELECT count(*), coalesce(sum(status = 'failure'), 0) FROM tool_calls"
        " WHERE session = ? AND coalesce(started_at, finished_at) >= ?",
        (session, since),
    ).fetchone()
    return int(prompts), int(calls), int(failed)


def list_written_files(connection: sqlite3.Connection, session: int, since: str) -> set[str]:
    rows = connection.execute("SELECT path FROM artifacts WHERE session = ? AND updated_at >= ?", (session, since))
    return {str(row[0]) for row in rows}


def _matches_state(one: SessionRow, state: str | None) -> bool:
    """Filtered in Python, because the current state is computed and not stored."""
    if state == "live":
        return one.ended_at is None and one.state != session_status.INTERRUPTED
    if state == "ended":
        return one.ended_at is not None
    return state is None or state_words.SYNONYMS.get(state, state) in (one.state, one.state_word)
