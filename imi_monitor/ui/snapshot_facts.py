"""What rows, filters, sorts and the header derive from a snapshot, computed once for each snapshot."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import cached_property, lru_cache

from imi_monitor.model import attention, event_text, repository_names, state_words, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.event_text import EndedCommand
from imi_monitor.model.home import plain_host
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.run import Run
from imi_monitor.model.snapshot import DiskUse, HomeState, Key, Snapshot, UnreadChanges, Worktree
from imi_monitor.model.team_rows import home_of_agent

BUSY_SECONDS = 60.0  # how long a worktree is busy after a file changed
parse_time = lru_cache(4096)(times.parse)  # the same few hundred times are parsed every second
_TIMELESS = (
    "conflicts",
    "agents",
    "runs",
    "standings",
    "newest_end",
    "disk_uses",
    "names",
    "unread_changes",
    "ended_commands",
    "other_homes",
    "own_label",
    "host_width",
)  # what does not depend on the present time


class SnapshotFacts:
    """A snapshot at a moment; `me` is the agent name under which the dashboard would claim."""

    def __init__(self, snapshot: Snapshot, now: datetime, me: str = "") -> None:
        self.snapshot = snapshot
        self.now = now
        self.me = me

    @cached_property
    def conflicts(self) -> dict[Key, int]:
        """How many others a worktree conflicts with; worktrees without a conflict are left out."""
        counts: dict[Key, int] = {}
        for one in self.snapshot.collisions:
            if one.conflicts:
                for key in (one.left, one.right):
                    if key is not None:
                        counts[key] = counts.get(key, 0) + 1
        return counts

    @cached_property
    def agents(self) -> dict[Key, tuple[Agent, ...]]:
        """The relevant agents of each worktree, the most urgent first; worktrees without any are left out."""
        by_key: dict[Key, list[Agent]] = {}
        for agent in self.snapshot.agents:
            if agent.key is not None:
                by_key.setdefault(agent.key, []).append(agent)
        return {key: attention.relevant_agents(found) for key, found in by_key.items()}

    @cached_property
    def runs(self) -> dict[Key, Run]:
        """The open run in each worktree, the newest of several, and that of each row which is a run."""
        found = {one.key: one for one in reversed(self.snapshot.runs) if one.key is not None and one.is_open}
        return found | {tree.key: tree.run for tree in self.snapshot.worktrees if tree.run is not None}

    @cached_property
    def standings(self) -> Counter[str]:
        """How many relevant agents have each standing, those outside of worktrees included."""
        outside = [agent for agent in self.snapshot.agents if agent.key is None]
        return Counter(attention.standing(agent) for found in (*self.agents.values(), outside) for agent in found)

    @cached_property
    def newest_end(self) -> Agent | None:
        """The newest death or failure that no person has looked at."""
        outside = [agent for agent in self.snapshot.agents if agent.key is None]
        return attention.newest_unseen_end(one for found in (*self.agents.values(), outside) for one in found)

    @cached_property
    def names(self) -> RepositoryNames:
        return repository_names.of_snapshot(self.snapshot)

    @cached_property
    def disk_uses(self) -> dict[Key, DiskUse]:
        """What the worktrees measured so far use."""
        return {use.key: use for use in self.snapshot.disk}

    @cached_property
    def unread_changes(self) -> dict[Key, UnreadChanges]:
        """The unread changes of the worktrees counted so far."""
        return {one.key: one for one in self.snapshot.unread}

    @cached_property
    def ended_commands(self) -> dict[tuple[str, str], EndedCommand]:
        """How the last program that a user ran in a worktree ended, by repository and worktree."""
        return event_text.last_commands(self.snapshot.events)

    @cached_property
    def other_homes(self) -> dict[str, HomeState]:
        """The other homes of the team, by their labels."""
        return {home.label: home for home in self.snapshot.homes if not home.own}

    @cached_property
    def own_label(self) -> str:
        return next((home.label for home in self.snapshot.homes if home.own), plain_host(self.snapshot.host))

    @cached_property
    def host_width(self) -> int:
        """The cells of the longest label of a home with worktrees; 0 while only this home has any."""
        labels = [home.label for home in self.other_homes.values() if home.worktrees]
        return max(map(len, (self.own_label, *labels))) if labels else 0

    def home_of(self, tree: Worktree) -> HomeState | None:
        """The other home that a worktree is in; None for a worktree of this one."""
        return None if tree.key.host == self.snapshot.host else self.other_homes.get(tree.key.host)

    def ended_command(self, tree: Worktree) -> EndedCommand | None:
        """The last one in a worktree of this home: the events are this home's."""
        return self.ended_commands.get((tree.key.repo, tree.key.worktree)) if self.home_of(tree) is None else None

    def home_of_agent(self, agent: Agent) -> HomeState | None:
        """The other home that an agent works in; None for an agent of this one."""
        return home_of_agent(self.snapshot.homes, agent)

    def host_of(self, tree: Worktree) -> str:
        """The label of the worktree's home; empty while only this home has worktrees."""
        return (tree.key.host if self.home_of(tree) else self.own_label) if self.host_width else ""

    def at(self, now: datetime) -> SnapshotFacts:
        """Return the facts of the same snapshot at a later moment; facts that do not depend on time are kept."""
        later = SnapshotFacts(self.snapshot, now, self.me)
        for name in _TIMELESS:
            if name in self.__dict__:
                later.__dict__[name] = self.__dict__[name]
        return later

    def agents_in(self, tree: Worktree) -> tuple[Agent, ...]:
        return self.agents.get(tree.key, ()) if self.agents else ()

    def conflicts_of(self, tree: Worktree) -> int:
        return self.conflicts.get(tree.key, 0) if self.conflicts else 0

    def has_agent(self, tree: Worktree, *standings: str) -> bool:
        """Whether an agent there has one of these standings."""
        return any(attention.standing(agent) in standings for agent in self.agents_in(tree))

    def waits_since(self, tree: Worktree) -> str | None:
        """Since when an agent there has been asking, the longest one; None when no agent asks."""
        first = next(iter(self.agents_in(tree)), None)
        return (first.truth.since or "~") if first and attention.standing(first) == state_words.ASKS else None

    def claim_state(self, tree: Worktree) -> str:
        return tree.claim.state if tree.claim else "free"

    def is_busy(self, tree: Worktree) -> bool:
        return self._busy_seconds(tree) > 0

    def _busy_seconds(self, tree: Worktree) -> float:
        """Return for how many more seconds the worktree is busy if no file changes."""
        changed = parse_time(tree.last_change.at) if tree.last_change else None
        return 0.0 if changed is None else BUSY_SECONDS - (self.now - changed).total_seconds()

    @cached_property
    def busy_ends(self) -> list[float]:
        """Return for each busy worktree in how many seconds it stops being busy."""
        return [left for left in map(self._busy_seconds, self.snapshot.worktrees) if left > 0]

    def needs_attention(self, tree: Worktree) -> bool:
        """Whether a person should look: an agent asks, failed or intrudes, a claim is lost, there is a conflict or collision,
        or something cannot be read. Of the agents that died or failed and ended, only the newest counts."""
        return bool(
            tree.missing
            or tree.failure is not None
            or (tree.claim is not None and tree.claim.state in ("dead", "stale"))
            or (tree.git is not None and tree.git.conflicted)
            or (self.conflicts and self.conflicts_of(tree))
            or (self.agents and any(map(self._needs_attention, self.agents_in(tree))))
        )

    def _needs_attention(self, agent: Agent) -> bool:
        return attention.needs_attention(agent) and (not attention.is_unseen_end(agent) or agent is self.newest_end)
