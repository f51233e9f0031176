"""Attempts (table `tasks`): each with its grant, agent, outcome, and the agent's sessions in the worktree meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.model import attempt as model
from imi_monitor.model import session_status as life
from imi_monitor.model.agent import UNKNOWN
from imi_monitor.store import agents, sessions
from imi_monitor.store.agents import AgentDescription
from imi_monitor.store.sessions import SessionRow

OUTCOME_OBSERVED = "sessions"  # `outcome_from` of an outcome derived from sessions
_COLUMNS = (
    "t.task_id, t.repo_name, t.worktree_name, t.epoch, g.agent_id, g.host, t.started_at, t.ended_at, g.released_at,"
    # a claim that an operation of imi replaced ended as that operation did
    " CASE WHEN g.ended = 'reserved' THEN coalesce(n.ended, g.ended) ELSE g.ended END, g.taken_by, g.reason,"
    " t.outcome, t.outcome_from, c.host, c.boot, c.pid, c.pid_started"
)
_SAME = "{0}.repo_name = t.repo_name AND {0}.worktree_name = t.worktree_name AND {0}.epoch = t.epoch"
_FROM = (
    f"FROM tasks AS t JOIN claim_history AS g ON {_SAME.format('g')} LEFT JOIN claims AS c ON {_SAME.format('c')}"
    f" LEFT JOIN claim_history AS n ON {_SAME.format('n')} + 1"
)
_END = "coalesce(t.ended_at, g.released_at)"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim working on one task. None: unknown. `outcome` is one of `model.attempt.OUTCOMES`."""

    task_id: str
    repo_name: str
    worktree_name: str
    epoch: int
    agent_id: str
    kind: str
    host: str
    described: AgentDescription
    started_at: str
    ended_at: str | None
    ended: str | None
    taken_by: str | None
    reason: str | None
    outcome: str
    outcome_from: str | None
    sessions: tuple[SessionRow, ...]


@dataclass(frozen=True, slots=True)
class AttemptFilter:
    """The wanted attempts; None: all. `agent` is a name or a program, `session` one of the attempt's sessions."""

    repo_name: str | None = None
    worktree_name: str | None = None
    agent: str | None = None
    team: str | None = None
    outcome: str | None = None
    session: SessionRow | None = None
    since: str | None = None  # not over before this time
    task: str | None = None

    def where(self) -> tuple[str, list[object]]:
        asked: list[tuple[str, list[str | None]]] = [
            ("t.repo_name = ?", [self.repo_name]),
            ("t.worktree_name = ?", [self.worktree_name]),
            ("g.agent_id = ? OR g.agent_id IN (SELECT name FROM agents WHERE kind = ?)", [self.agent, self.agent]),
            ("g.agent_id IN (SELECT name FROM agents WHERE team = ?)", [self.team]),
            (f"{_END} IS NULL OR {_END} >= ?", [self.since]),
            ("t.task_id = ?", [self.task]),
        ]
        if self.session is not None:
            one = self.session
            asked.append(("g.agent_id = ? AND g.host = ?", [one.agent_id, one.host]))
            asked.append(("t.repo_name = ? AND t.worktree_name = ?", [one.repo_name or "", one.worktree_name or ""]))
        given = [(sql, values) for sql, values in asked if values[0] is not None]
        return " AND ".join(f"({sql})" for sql, _ in given) or "1", [each for _, values in given for each in values]


def find(connection: sqlite3.Connection, wanted: AttemptFilter, limit: int | None = None) -> list[Attempt]:
    """The wanted attempts, newest first."""
    where, values = wanted.where()
    rows = connection.execute(
        f"SELECT {_COLUMNS} {_FROM} WHERE {where} ORDER BY t.started_at DESC, t.epoch DESC", values
    )
    reader = _AttemptReader(connection)
    hits: list[Attempt] = []
    for row in rows.fetchall():
        task = reader.task(row)
        if _matches(task, wanted):
            hits.append(task)
            if limit is not None and len(hits) >= limit:
                break
    return hits


def store_outcomes(connection: sqlite3.Connection, session: int) -> None:
    """Store the outcomes of a session's attempts before the session is deleted, because they are derived from it."""
    one = sessions.by_seq(connection, session)
    if one is None:
        return
    for task in find(connection, AttemptFilter(session=one)):
        if task.ended_at is not None:
            connection.execute(
                "UPDATE tasks SET outcome = ?, outcome_from = ? WHERE repo_name = ? AND worktree_name = ? AND epoch = ?"
                " AND task_id = ? AND outcome IS NULL",
                (task.outcome, task.outcome_from, task.repo_name, task.worktree_name, task.epoch, task.task_id),
            )


class _AttemptReader:
    """Makes attempts of rows; caches descriptions and sessions across rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._described = agents.list_descriptions(connection)
        self._sessions: dict[tuple[str, str, str], list[SessionRow]] = {}
        self._marks: dict[int, list[tuple[str, str]]] = {}

    def task(self, row: Sequence[object]) -> Attempt:
        def text(index: int) -> str | None:
            return None if row[index] is None else str(row[index])

        repo, worktree, agent, where = str(row[1]), str(row[2]), str(row[4]), str(row[5])
        begun, ended_at = str(row[6]), text(7) or text(8)
        # the claim went on to another task: its end does not belong to this attempt
        ended, by, why = (model.NEXT_TASK, None, None) if row[7] is not None else (text(9), text(10), text(11))
        dead = ended_at is None and _is_dead(row[14:18])
        there = self._within(repo, worktree, agent, where, begun, ended_at)
        known, source = text(12), text(13)
        if known is None:
            known = model.outcome(
                model.AttemptSpan(begun, ended_at, ended, dead), [self._status_marks(one) for one in there]
            )
            source = OUTCOME_OBSERVED if known not in (model.OPEN, UNKNOWN) else None
        return Attempt(
            str(row[0]),
            repo,
            worktree,
            int(str(row[3])),
            agent,
            agents.kind_of(agent),
            where,
            self._described.get(agent, agents.NOT_DESCRIBED),
            begun,
            ended_at,
            ended,
            by,
            why,
            known,
            source,
            tuple(there),
        )

    def _within(
        self, repo: str, worktree: str, agent: str, where: str, begun: str, ended: str | None
    ) -> list[SessionRow]:
        """The sessions of this agent in this worktree during this time, oldest first."""
        key = (repo, worktree, agent)
        if key not in self._sessions:
            meant = sessions.SessionFilter(repo, worktree, agent)
            self._sessions[key] = [one for one in sessions.find(self._connection, meant) if one.agent_id == agent]
        inside = [
            one
            for one in self._sessions[key]
            if one.host == where and (one.ended_at or one.seen_at) >= begun and (ended is None or one.began_at <= ended)
        ]
        return sorted(inside, key=lambda one: one.began_at)

    def _status_marks(self, one: SessionRow) -> list[tuple[str, str]]:
        """The session's (time, status) changes, with its interruption if its process died unrecorded."""
        if one.seq not in self._marks:
            marks = [(each.at, each.status) for each in sessions.list_status_changes(self._connection, [one.seq])]
            if one.state == life.INTERRUPTED and (not marks or marks[-1][1] != life.INTERRUPTED):
                marks.append((max([one.seen_at, *(at for at, _ in marks[-1:])]), life.INTERRUPTED))
            self._marks[one.seq] = marks
        return self._marks[one.seq]


def _is_dead(holder: Sequence[object]) -> bool:
    """True if the process of the current claim is proven gone."""
    where, boot, pid, started = holder
    number = None if pid is None else int(str(pid))
    texts = [None if each is None else str(each) for each in (where, boot, started)]
    return host.is_alive(texts[0], texts[1], number, texts[2]) is False


def _matches(task: Attempt, wanted: AttemptFilter) -> bool:
    """Filtered in Python, because sessions and outcome are computed and not stored."""
    if wanted.session is not None and all(one.seq != wanted.session.seq for one in task.sessions):
        return False
    return wanted.outcome is None or task.outcome == wanted.outcome
