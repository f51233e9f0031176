"""Runs with one prompt, side by side: what each changed, what its check said, what it cost, and where it is in the way."""

from __future__ import annotations

import json
import sqlite3

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.files import review_diff
from imi_monitor.actions.runs import several_start
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.event_text import data_of
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, runs, sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.worktree_review import WorktreeReview
    from imi_monitor.store.runs import RunRow

_MOST_RUNS = 1000


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run of the group, and its worktree; None: it is no longer there."""

    row: RunRow
    found: Target | None


def find_group(context: Context, name: str | None) -> tuple[str, list[ComparedRun]]:
    """The group of this name, or that of a worktree or run, or the newest; of each worktree the newest run."""
    rows = db.read(context.connection, runs.list_runs, limit=_MOST_RUNS)
    grouped = [(group, row) for row in rows if (group := several_start.group_of(row)) and row.worktree_name]
    repository = context.find_repository()
    repo = context.repo_name(repository) if repository is not None else None
    here = [pair for pair in grouped if repo is None or pair[1].repo_name == repo]
    wanted = next((group for group, row in here if name is None or name in _names(group, row)), None)
    if wanted is None:
        what = (
            "no agents were started with one prompt"
            if name is None
            else f"no runs of one prompt are {safe(name, 80)!r}"
        )
        raise Refused(f"{what}: `imi start claude,codex --new feat/NAME --prompt TEXT` starts some", code="no-group")
    newest: dict[str, RunRow] = {}
    for group, row in here:
        if group == wanted:
            newest.setdefault(str(row.worktree_name), row)
    members = [ComparedRun(row, _find(context, row)) for row in reversed(newest.values())]
    return wanted, members


def _names(group: str, row: RunRow) -> tuple[str, ...]:
    return (group, group.replace("/", "-", 1), str(row.worktree_name), row.id, row.short, row.agent_id)


def _find(context: Context, row: RunRow) -> Target | None:
    try:
        found = worktree_lookup.find_worktree(context, str(row.worktree_name), row.repo_name)
    except ImiError:
        return None
    return None if found.missing else found


def compare(context: Context, members: list[ComparedRun]) -> list[dict[str, object]]:
    """One row for each run; null where something is unknown."""
    reviews = {one.row.id: _review(context, one) for one in members}
    changed = {ident: {file.path for file in found.diff.files} for ident, found in reviews.items() if found is not None}
    return [_row(context, one, reviews[one.row.id], changed) for one in members]


def _review(context: Context, one: ComparedRun) -> WorktreeReview | None:
    try:
        return review_diff.read(context, one.found) if one.found is not None else None
    except ImiError:
        return None


def _row(
    context: Context, one: ComparedRun, review: WorktreeReview | None, changed: dict[str, set[str]]
) -> dict[str, object]:
    row = one.row
    mine = changed.get(row.id)
    shared = (
        None if mine is None else {path for other, paths in changed.items() if other != row.id for path in paths & mine}
    )
    began, ended = times.parse(row.started_at), times.parse(row.ended_at)
    known = review is not None
    return {
        "worktree_name": row.worktree_name,
        "repo": row.repo_name,
        "path": one.found.path if one.found is not None else None,
        "branch": one.found.branch if one.found is not None else None,
        "removed_from_disk": one.found is None,
        "run": row.id,
        "program": row.program,
        "agent": row.agent_id,
        "model": json.loads(row.launch).get("model"),
        "status": row.status,
        "state": row.shown_state,
        "detail": row.detail,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "seconds": None if began is None else ((ended or times.now()) - began).total_seconds(),
        "files": len(review.diff.files) + review.diff.omitted if known and review else None,
        "added": review.diff.added if known and review else None,
        "removed": review.diff.removed if known and review else None,
        "unread": review.progress.unread if known and review else None,
        "total": review.progress.total if known and review else None,
        "same_files": None if shared is None else sorted(shared)[:50],
        "check": _check(context, row),
        **db.read(context.connection, _spent, row),
    }


def _check(context: Context, row: RunRow) -> dict[str, object] | None:
    """The last command that `imi exec` or `!` ran there since the run began."""
    last = db.read(context.connection, events.find_last_command, row.repo_name or "", row.worktree_name or "")
    event = events.to_model(last) if last is not None else None
    if event is None or event.at < row.created_at:
        return None
    data = data_of(event)
    return {"command": data.get("name") or data.get("line"), "status": data.get("status"), "at": event.at}


def _spent(connection: sqlite3.Connection, row: RunRow) -> dict[str, object]:
    """Tokens and money of its session, as the program reports them."""
    tokens, cost = sessions.costs(connection, f"{row.program}:{row.session}") if row.session else (None, None)
    return {"tokens": tokens, "cost_usd": cost}
