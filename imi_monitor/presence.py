"""Presence locks, `.iMi/presence/<worktree>.lock`: copies of claims that other programs of a cluster read.

Only clusters with `.iMi/` have them. A lock holds iMi's JSON or the older bare agent id. A lock that another program wrote counts
as a claim of the owner it names, because its writer does not read our registry; a lock that this registry wrote decides nothing.
The hot commands import this module.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.fast import json_writer
from imi_monitor.model.text import safe
from imi_monitor.store import claims, registry_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.git.layout import Repository
    from imi_monitor.store.claims import Claim

_MOST = 1 << 16  # bytes of a lock file that are read
_ROUNDS = 20
UNREADABLE = "?"


class PresenceOwner:
    """The owner in a lock; `agent` is UNREADABLE when the file does not name one."""

    __slots__ = ("agent", "since")

    def __init__(self, agent: str, since: str | None) -> None:
        self.agent = agent
        self.since = since


def presence_lock_path(repository: Repository, worktree_name: str) -> str | None:
    """Return the path of the lock; None outside clusters and in those without `.iMi/`."""
    cluster = repository.cluster
    if cluster is None or not os.path.isdir(os.path.join(cluster, ".iMi")):
        return None
    return os.path.join(cluster, ".iMi", "presence", f"{worktree_name}.lock")


def foreign_owner(path: str | None, database: str) -> PresenceOwner | None:
    """Return the owner in a lock that another program wrote; None without one."""
    if path is None:
        return None
    try:
        raw = _read(path)
    except FileNotFoundError:
        return None
    except OSError:
        return PresenceOwner(UNREADABLE, None)  # an unreadable lock never means free
    return None if _is_ours(raw, database) else _owner(raw)


def update_presence_lock(
    connection: sqlite3.Connection, path: str | None, repo_name: str, name: str, database: str
) -> str | None:
    """Make the lock equal to the claim in the registry; returns a warning when that fails, because the lock never decides.

    It is called after each commit. Two processes may overlap, so each repeats until the claim is the one it has written: the
    last writer has read the last claim.
    """
    if path is None:
        return None
    registry = {"registry": database, "registry_id": registry_identity.registry_id(connection)}
    done: tuple[str | None, int] | None = None
    for _ in range(_ROUNDS):
        claim = claims.current(connection, repo_name, name)
        if done == (claim.agent_id, claim.epoch):
            return None
        try:
            if claim.agent_id is None:
                _remove(path, database)
            else:
                _write(path, claim, registry)
        except OSError as error:
            return f"the presence lock {safe(path)} could not be updated: {error.strerror}"
        done = (claim.agent_id, claim.epoch)
    return None  # the claim changes faster than we write: the next owner's own update comes last


def _write(path: str, claim: Claim, registry: dict[str, str | None]) -> None:
    content = {
        "agent_id": claim.agent_id,
        "claimed_at": claim.claimed_at,
        "hostname": host.hostname(),
        "epoch": claim.epoch,
        "worktree": claim.worktree_name,
        "task_id": claim.task_id,
        **registry,
    }
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}~"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.write(handle, f"{json_writer.dumps(content, 2)}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(temporary, path)


def _remove(path: str, database: str) -> None:
    try:
        if _is_ours(_read(path), database):  # a lock that another program wrote meanwhile stays
            os.unlink(path)
    except FileNotFoundError:
        return


def _read(path: str) -> bytes:
    # O_NONBLOCK: a FIFO in its place must not block
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(handle, _MOST)
    finally:
        os.close(handle)


def _is_ours(raw: bytes, database: str) -> bool:
    """Return whether this registry wrote it, by searching our own notation, so that no JSON parser is imported."""
    marks = {"registry": database, "hostname": host.hostname()}
    return all(f'"{key}": {json_writer.dumps(value)}'.encode() in raw for key, value in marks.items())


def _owner(raw: bytes) -> PresenceOwner:
    text = raw.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return PresenceOwner(text.partition("\n")[0].strip() or UNREADABLE, None)
    import json

    try:
        tree = json.loads(text)
    except ValueError:
        return PresenceOwner(UNREADABLE, None)
    agent, since = tree.get("agent_id"), tree.get("claimed_at")
    return PresenceOwner(
        agent if isinstance(agent, str) and agent else UNREADABLE, since if isinstance(since, str) else None
    )
