"""The agent of a recorded session, for views about agents that the dashboard does not show any more."""

from __future__ import annotations

import json
import sqlite3

from imi_monitor.model.agent import DEAD, EXACT, Agent, SessionFacts, Truth
from imi_monitor.model.session_status import INTERRUPTED
from imi_monitor.model.snapshot import Key
from imi_monitor.store import sessions
from imi_monitor.store.sessions import SessionFilter, SessionRow


def find(connection: sqlite3.Connection, ident: str) -> Agent | None:
    """The agent of the session with this id."""
    found = sessions.find_by_prefix(connection, ident)
    return next((_agent(one) for one in found if one.id == ident), None)


def find_newest(connection: sqlite3.Connection, key: Key) -> Agent | None:
    """The agent of the last session in this worktree."""
    found = sessions.find(connection, SessionFilter(repo_name=key.repo, worktree_name=key.worktree), limit=1)
    return _agent(found[0]) if found else None


def _agent(row: SessionRow) -> Agent:
    key = Key(row.host, row.repo_name, row.worktree_name) if row.repo_name and row.worktree_name else None
    state = DEAD if row.state == INTERRUPTED else row.state
    run = json.loads(row.metadata or "{}").get("run")
    return Agent(
        id=row.id,
        cli=row.cli,
        name=row.agent_id,
        key=key,
        cwd=row.cwd,
        session=row.own_id,
        pid=row.pid,
        pid_started=row.pid_started,
        truth=Truth(state, row.status_at, None, EXACT, row.detail, ended=row.ended_at is not None or state == DEAD),
        facts=SessionFacts(
            version=row.version,
            model=row.model,
            title=row.title,
            branch=row.branch,
            started_at=row.started_at,
            ended_at=row.ended_at,
            prompt=row.prompt,
            last_message=row.last_message,
            tokens_in=row.tokens_in,
            tokens_out=row.tokens_out,
            tokens_cached=row.tokens_cached,
            cost_usd=row.cost_usd,
            context_used=row.context_used,
            context_size=row.context_size,
        ),
        seen_at=row.seen_at,
        run=str(run) if run else None,
    )
