"""The rows of runs in the dashboard's list: a run without a worktree is a row of its own, beside the worktrees.

Its key has no repository, and its short id as the name, by which every command finds the run; a run of another program in a
watched workspace has its name there.
"""

from __future__ import annotations

import os

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model.contained_names import HOME, HOMES, RUNS_HOME
from imi_monitor.model.snapshot import Key, Snapshot, Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from imi_monitor.model.agent import Agent
    from imi_monitor.model.change import Change
    from imi_monitor.model.run import Run
    from imi_monitor.model.snapshot import ClaimState

# the types of a row that is a run: in its run folder, in a contained workspace, of another program
RUN, CONTAINED, WATCHED = "run", "contained", "watched"
NO_REPOSITORY = ""


class RunRows:
    """Adds the rows to snapshots; a row whose run did not change stays the same object."""

    def __init__(self) -> None:
        self._rows: dict[str, Worktree] = {}
        self._agents: dict[int, tuple[Agent, Agent]] = {}  # by identity: the agent, and the same in its row

    def merge(self, snapshot: Snapshot) -> Snapshot:
        alone = [one for one in (*snapshot.runs, *snapshot.watched) if one.key is None]
        if not alone:
            return snapshot
        changes = _last_changes(snapshot, alone)
        self._rows = {one.id: self._row(snapshot.host, one, changes.get(_place(one))) for one in alone}
        keys = {one.id: row_key(snapshot.host, one) for one in alone}
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

    def _row(self, host: str, one: Run, change: Change | None) -> Worktree:
        known = self._rows.get(one.id)
        same = known is not None and known.run == one and known.last_change is change
        return known if known is not None and same else _made(host, one, change)


def _place(one: Run) -> str:
    return one.workspace or one.folder


def _last_changes(snapshot: Snapshot, alone: list[Run]) -> dict[str, Change]:
    """The last change in each workspace, by its path: agents that share one share it."""
    places = {one.short: _place(one) for one in alone}
    found = ((places.get(change.worktree), change) for change in snapshot.changes if change.repo == NO_REPOSITORY)
    return {place: change for place, change in found if place is not None}


def row_key(host: str, one: Run) -> Key:
    return Key(host, NO_REPOSITORY, one.short)


def claim_key(host: str, one: Run) -> Key:
    """By which the claim on the workspace of a run without a worktree is kept."""
    if one.workspace is not None:
        return Key(host, HOME, os.path.basename(one.workspace))
    return Key(host, RUNS_HOME, one.short)


def with_claims(host: str, runs: tuple[Run, ...], claims: Mapping[Key, ClaimState] | None) -> tuple[Run, ...]:
    """The runs with the claims on their workspaces."""
    if not claims or not any(key.repo in HOMES for key in claims):
        return runs
    return tuple(replace(one, claim=claims.get(claim_key(host, one))) if one.key is None else one for one in runs)


def _made(host: str, one: Run, change: Change | None) -> Worktree:
    return Worktree(
        key=row_key(host, one),
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
