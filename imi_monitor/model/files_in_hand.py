"""Files in hand: those that a working agent edits at this moment, or has written and not committed."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Sequence

from imi_monitor.model.agent import WORKING, Agent
from imi_monitor.model.snapshot import Key

_EDITS = frozenset(
    {"Edit", "Write", "MultiEdit", "NotebookEdit", "write_file", "replace", "edit", "write", "apply_patch"}
)


def what_it_writes(agent: Agent) -> tuple[str | None, tuple[str, ...]]:
    """(the file that a working agent edits now, those that it has written)"""
    if agent.truth.ended or agent.session is None or agent.state not in WORKING:
        return None, ()
    tool = agent.truth.tool
    return tool.target if tool is not None and tool.name in _EDITS else None, agent.facts.files


def list_in_hand(
    agents: Sequence[Agent], key: Key, root: str, changed: Collection[str] | None = None
) -> Iterator[tuple[str, Agent]]:
    """(path in the worktree, agent), some of them twice; of what was written only the `changed` files, if they are known."""
    for agent in agents:
        if agent.key != key:
            continue
        edited, files = what_it_writes(agent)
        if edited and (path := _relative(posixpath.join(agent.cwd or root, edited), root)):
            yield path, agent
        for written in files:
            path = _relative(written, root)
            if path and (changed is None or path in changed):
                yield path, agent


def _relative(path: str, root: str) -> str:
    return path[len(root) + 1 :] if path.startswith(f"{root}/") else ""
