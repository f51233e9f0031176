"""The rows of the dashboard's list beside worktrees: run folders, contained workspaces and watched ones.

A row has the key of its workspace, by which claims, places in line and changes are kept too. Agents that share a contained
workspace share its row.
"""

from __future__ import annotations

import os

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model.contained_names import HOME, RUNS_HOME, WATCHED_HOME, in_git
from imi_monitor.model.snapshot import Key, Snapshot, Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imi_monitor.model.agent import Agent
    from imi_monitor.model.change import Change
    from imi_monitor.model.run import Run
    from imi_monitor.model.snapshot import ClaimState

# the types of a row that is no worktree: a run folder, a contained workspace, one of another program
RUN, CONTAINED, WATCHED = "run", "contained", "watched"


class RunRows:
    """Adds the rows to snapshots; a row whose run did not change stays the same object."""

    def __init__(self) -> None:
        self._rows: dict[Key, Worktree] = {}
        self._agents: dict[int, tuple[Agent, Agent]] = {}  # by identity: the agent, and the same in its row

    def merge(self, snapshot: Snapshot) -> Snapshot:
        alone = [one for one in (*snapshot.runs, *snapshot.watched) if one.key is None]
        if not alone:
            return snapshot
        keys = {one.id: workspace_key(snapshot.host, one) for one in alone}
        changes = {(change.repo, change.worktree): change for change in snapshot.changes if not in_git(change.repo)}
        shown = _shown_runs(alone, keys)
        self._rows = {key: self._row(key, one, changes.get((key.repo, key.worktree))) for key, one in shown.items()}
        agents, self._agents = self._agents, {}
        located = []
        for agent in snapshot.agents:
            key = keys.get(agent.run or "")
            if key is not None:
                known = agents.get(id(agent))
                known = known if known is not None and known[0] is agent else (agent, replace(agent, key=key))
                self._agents[id(agent)] = known
                agent = known[1]
            located.append(agent)
        rows = tuple(self._rows.values())
        return replace(snapshot, worktrees=(*snapshot.worktrees, *rows), agents=tuple(located))

    def _row(self, key: Key, one: Run, change: Change | None) -> Worktree:
        known = self._rows.get(key)
        same = known is not None and known.run == one and known.last_change is change
        return known if known is not None and same else _made(key, one, change)


def _shown_runs(alone: Iterable[Run], keys: Mapping[str, Key]) -> dict[Key, Run]:
    """The run that each workspace's row is about; of several the one that a person has to see, else the newest at work."""
    shown: dict[Key, Run] = {}
    for one in alone:
        key = keys[one.id]
        if key not in shown or _urgency(one) > _urgency(shown[key]):
            shown[key] = one
    return shown


def _urgency(one: Run) -> tuple[bool, bool, bool]:
    return bool(one.waiting_deliveries), one.question is not None, one.is_open


def workspace_key(host: str, one: Run) -> Key:
    """The key of the workspace of a run without a worktree: of its row, its claim, its line and its changes."""
    if one.origin is not None:
        return Key(host, WATCHED_HOME, one.short)
    if one.workspace is not None:
        return Key(host, HOME, os.path.basename(one.workspace))
    return Key(host, RUNS_HOME, one.short)


def with_claims(host: str, runs: tuple[Run, ...], claims: Mapping[Key, ClaimState] | None) -> tuple[Run, ...]:
    """The runs with the claims on their workspaces."""
    if not claims or all(in_git(key.repo) for key in claims):
        return runs
    return tuple(replace(one, claim=claims.get(workspace_key(host, one))) if one.key is None else one for one in runs)


def _made(key: Key, one: Run, change: Change | None) -> Worktree:
    return Worktree(
        key=key,
        path=one.workspace or one.folder,
        type=WATCHED if one.origin is not None else CONTAINED if one.workspace else RUN,
        branch=None,
        is_main=False,
        missing=False,
        locked=None,
        pr=None,
        claim=one.claim,
        git=None,
        failure=None,
        watched="live",
        watched_why=None,
        last_change=change,
        run=one,
    )
