"""The first prompt of a new session that goes on for one that cannot be resumed: the packet from its last checkpoint."""

from __future__ import annotations

import json

from imi_monitor.git import layout
from imi_monitor.model.errors import GitError
from imi_monitor.model.packet import packet
from imi_monitor.runs import launch_folder, run_checkpoint
from imi_monitor.store import checkpoints, db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.runs import RunRow


def first_prompt(context: Context, before: RunRow, found: Target | None, words: str | None) -> str:
    """`words`: what the user wants it to do next."""
    state = db.read(context.connection, _newest_state, before)
    files = state.get("files")
    known = [one for one in files if isinstance(one, dict)] if isinstance(files, list) else []
    changed = [str(one["path"]) for one in known if run_checkpoint.has_changed(one, str(one["path"]))]
    head = None
    if found is not None and found.admin_dir is not None:
        head = layout.read_head(found.admin_dir, found.repository.common_dir)[1]
    task = db.read(context.connection, _task, before)
    text = packet(task, state, changed=changed, uncommitted=uncommitted(context, found), head=head)
    return f"{text}\n\n{words}" if words else text


def uncommitted(context: Context, found: Target | None) -> list[str]:
    """The uncommitted files of the worktree; empty also where git cannot be asked."""
    from imi_monitor.git.git_status import read_status

    if found is None or found.admin_dir is None or found.missing:
        return []
    try:
        status = read_status(context.git(found.repository, found.admin_dir, found.path))
    except GitError:
        return []
    return [one.path for one in status.entries]


def _newest_state(connection: sqlite3.Connection, row: RunRow) -> dict[str, object]:
    """The state of the newest checkpoint of the run, else of the run whose session it took up."""
    one: RunRow | None = row
    while one is not None:
        found = checkpoints.list_checkpoints(connection, one.seq)
        if found:
            state: dict[str, object] = json.loads(found[-1].state)
            return state
        one = runs.by_id(connection, one.resumed_from) if one.resumed_from else None
    return {}


def _task(connection: sqlite3.Connection, row: RunRow) -> str:
    """What the session was begun with, whole where that is still kept; the registry has its beginning."""
    while row.resumed_from is not None and (earlier := runs.by_id(connection, row.resumed_from)) is not None:
        if earlier.session != row.session:
            break  # the session began in this run
        row = earlier
    folder = launch_folder.folder_of(row.id)
    try:
        return folder.packet() or folder.prompt()
    except (OSError, ValueError):
        return row.prompt or ""
