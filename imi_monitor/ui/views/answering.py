"""How views ask what a snapshot does not hold: through the action that the command line would use, in a thread."""

from __future__ import annotations

from typing import Any

from imi_monitor import actions
from imi_monitor.actions.action import Request
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.base import Surroundings


def place(snapshot: Snapshot | None, key: Key | None) -> str | None:
    """A folder of the worktree's repository that exists: its own, else that of another worktree of the same repository."""
    trees = snapshot.worktrees if snapshot is not None and key is not None else ()
    there = [tree for tree in trees if key and tree.key.repo == key.repo and not tree.missing]
    own = next((tree for tree in there if tree.key == key), None)
    return own.path if own else there[0].path if there else None


def answer(
    surroundings: Surroundings, where: str | None, verb: str, values: dict[str, object], stop: ShouldStop
) -> dict[str, Any]:
    """What `imi VERB …` tells scripts. Only for actions that change nothing."""
    action = actions.find(verb)
    if action is None or action.changes:
        raise ImiError(f"{verb} is nothing that can be looked at", code="not-a-question")
    with surroundings(where) as context:
        context.cancelled = stop
        return action.run(context, Request(verb, dict(values))).data
