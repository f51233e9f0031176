"""Items for pictures of the board, in the registry of a sample world."""

from __future__ import annotations

import sqlite3

from imi_monitor.model import board
from imi_monitor.store import db, item_moves, items
from imi_monitor.store.items import NewItem

_BATCH = "reports/priorities-2026-11-19.md"
_ITEMS = (
    (NewItem("Sign in with a passkey instead of a password", priority=board.HIGH, team="web"), "claude-1", "feat-api"),
    (NewItem("Fix the flaky payment test"), "codex-1", "fix-bug"),
    (NewItem("Draw the settings page anew", priority=board.LOW), "gemini-2", "feat-ui"),
    (NewItem("Migrate the customers to the new schema", "One migration, undoable.", batch=_BATCH), None, None),
    (NewItem("Remove the dead code of the old importer", batch=_BATCH), None, None),
    (NewItem("Rotate the keys of the staging environment", priority=board.HIGH), None, None),
    (NewItem("Describe the new settings", priority=board.LOW), None, None),
    (NewItem("Measure the start of the dashboard"), None, None),
    (NewItem("Answer the review of the export"), None, None),
)


def keep(database: str) -> None:
    """Store the items: three under way, one of each other status, and some that wait."""
    connection = db.connect(database)
    try:
        db.transact(connection, _store)
    finally:
        connection.close()


def _store(connection: sqlite3.Connection) -> None:
    for new, agent, worktree in _ITEMS:
        made, _ = items.add(connection, new)
        if agent is not None:
            item_moves.begin(connection, made.id, agent, "app", worktree)
    moves = {
        "item-4": (board.BLOCKED, "waits for a copy of the customers' database"),
        "item-5": (board.COMPLETED, None),
        "item-6": (board.FAILED, "its process ended with exit status 7 in the middle of its work"),
        "item-7": (board.CANCELLED, None),
    }
    for ident, (status, reason) in moves.items():
        item_moves.move(connection, ident, status, reason=reason)
