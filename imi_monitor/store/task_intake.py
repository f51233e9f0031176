"""A task from another program becomes an item: in one transaction with its assignment, and the claim if a worktree is named."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import names
from imi_monitor.store import claim_requests, items, repositories
from imi_monitor.store.claims import ClaimRequest
from imi_monitor.store.items import ItemRow, NewItem

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.model.task_message import IncomingTask

DOUBLED = "It came twice: without a shared reservation (Redis or PostgreSQL) another home may have it as well."


def take(connection: sqlite3.Connection, task: IncomingTask, *, maybe_doubled: bool = False) -> tuple[ItemRow, bool]:
    """Put the task on the board; (item, whether it is new). Call it inside a transaction.

    The agent that it names gets the worktree that it names, if that is unclaimed. `maybe_doubled`: another home may have it.
    """
    repo = _repository(connection, task.repo)
    worktree = task.worktree if repo is not None and _has_worktree(connection, repo, task.worktree) else None
    agent = task.agent if task.agent is not None and names.agent_problem(task.agent) is None else None
    unknown = [
        f"{what} {value!r} is not known here."
        for what, value, found in (("The repository", task.repo, repo), ("The worktree", task.worktree, worktree))
        if value is not None and found is None
    ]
    text = "\n\n".join(filter(None, (task.text, *unknown, DOUBLED if maybe_doubled else "")))
    item, new = items.add(
        connection,
        NewItem(
            task.title,
            text,
            task.priority,
            external_id=task.id,
            correlation_id=task.correlation_id,
            agent_id=agent,
            repo_name=repo,
            worktree_name=worktree,
        ),
    )
    if new and agent is not None and repo is not None and worktree is not None:
        # no process to watch yet: the agent renews the claim when it begins
        request = ClaimRequest(agent, host.ProcessIdentity(host.hostname(), host.boot(), None, None), task=item.id)
        claim_requests.claim(connection, repo, worktree, request)
    return item, new


def _repository(connection: sqlite3.Connection, named: str | None) -> str | None:
    """The registry's name of a repository that is given by its name, or as owner/name or address."""
    if named is None:
        return None
    known = [row.name for row in repositories.list_repositories(connection)]
    if named in known:
        return named
    last = named.rstrip("/").removesuffix(".git").replace(":", "/").rpartition("/")[2].lower()
    found = [name for name in known if name.lower() == last]
    return found[0] if len(found) == 1 else None


def _has_worktree(connection: sqlite3.Connection, repo: str, worktree: str | None) -> bool:
    row = connection.execute(
        "SELECT 1 FROM worktrees WHERE repo_name = ? AND worktree_name = ? AND active", (repo, worktree)
    ).fetchone()
    return row is not None
