"""The whole picture at one moment: frozen, made by the engine, read by panels, `imi status` and `imi watch`.

A part that could not be read keeps its last good data, and `health` says since when and why. Nothing in here is an age:
ages are computed when they are drawn.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass, field
from imi_monitor.model.agent import Agent
from imi_monitor.model.change import Change


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a worktree is called everywhere: never its place in a list, never its path alone."""

    host: str
    repo: str
    worktree: str


@dataclass(frozen=True, slots=True)
class FileState:
    """One file that git says something about. `index` and `tree` are git's letters, `.` for unchanged."""

    path: str
    index: str
    tree: str
    origin: str | None = None
    added: int | None = None  # lines; None is unknown or binary
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as it is listed."""

    sha: str
    subject: str
    author: str
    at: str
    by: str | None = None  # the agent that held the claim when it was made


@dataclass(frozen=True, slots=True)
class GitState:
    """What git says about one worktree, and when it said so. None is unknown, never zero."""

    read_at: str
    branch: str | None
    head: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    trunk: str | None
    trunk_ahead: int | None
    trunk_behind: int | None
    files: tuple[FileState, ...]
    staged: int
    unstaged: int
    untracked: int
    conflicted: int
    operation: str | None
    stashes: int | None
    last_commit: Commit | None
    added: int | None
    removed: int | None
    partial: bool = False  # only the paths that changed were asked; a full reading follows when it is quiet

    @property
    def uncommitted(self) -> int:
        return len(self.files)


@dataclass(frozen=True, slots=True)
class ClaimState:
    """Who holds a worktree. `state` is held, stale or dead (`free` is no claim at all)."""

    key: Key
    agent: str
    state: str
    epoch: int
    claimed_at: str | None
    heartbeat_at: str | None
    task: str | None
    pid: int | None
    process: str | None = None  # the holder's process as the system names it, None when unknown


@dataclass(frozen=True, slots=True)
class Waiter:
    """One who stands in line for a worktree."""

    key: Key
    agent: str
    since: str
    place: int


@dataclass(frozen=True, slots=True)
class RegistryEvent:
    """One entry of the registry's log."""

    seq: int
    type: str
    at: str
    repo: str | None
    worktree: str | None
    agent: str | None
    data: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something could not be read, and since when."""

    what: str
    why: str
    since: str


@dataclass(frozen=True, slots=True)
class Worktree:
    """One worktree: what is certain at once (git's admin files, the registry), and what git said when it was asked."""

    key: Key
    path: str
    type: str
    branch: str | None
    is_main: bool
    missing: bool
    locked: str | None
    pr: int | None
    claim: ClaimState | None
    git: GitState | None  # None: not asked yet, or never answered
    failure: Failure | None  # why `git` is missing or old
    watched: str  # live, polling, starting, off: how its files are followed
    watched_why: str | None
    last_change: Change | None = None
    activity: tuple[
        tuple[int, int], ...
    ] = ()  # (minute since the epoch, changes in it), oldest first; quiet ones left out

    @property
    def owner(self) -> str:
        return self.claim.agent if self.claim else "human"


@dataclass(frozen=True, slots=True)
class Collision:
    """Files that are touched in two worktrees. `conflicts` None: whether a merge conflicts is not known (yet)."""

    left: Key
    right: Key | None  # None: the trunk
    files: tuple[str, ...]
    conflicts: tuple[str, ...] | None
    checked_at: str | None = None


NOT_LOOKED_FOR = "agents are not looked for: monitoring_settings.track_agent_activity is off"  # a note in its health


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How one source is doing. `failure` None is well."""

    source: str
    read_at: str | None
    failure: Failure | None
    note: str | None = None  # something to say that is no failure, such as "polling 12 worktrees"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at once. Two snapshots that differ only in `seq` and `taken_at` are never published."""

    seq: int
    taken_at: str
    host: str
    worktrees: tuple[Worktree, ...] = ()
    waiting: tuple[Waiter, ...] = ()
    changes: tuple[Change, ...] = ()  # newest last
    events: tuple[RegistryEvent, ...] = ()  # newest last
    collisions: tuple[Collision, ...] = ()
    agents: tuple[Agent, ...] = ()
    health: tuple[SourceHealth, ...] = ()
    complete: bool = False  # every worktree was asked at least once
    repositories: tuple[str, ...] = field(default=())

    def worktree(self, key: Key) -> Worktree | None:
        return next((worktree for worktree in self.worktrees if worktree.key == key), None)

    def has_read(self, source: str) -> bool:
        """Whether that source has spoken at all; before, that there is nothing of it means nothing."""
        return any(health.source == source and health.read_at for health in self.health)

    @property
    def sees_agents(self) -> bool:
        """Whether agents are looked at; a person may not want that."""
        return any(one.source == "agents" and one.read_at and one.note != NOT_LOOKED_FOR for one in self.health)

    def agents_in(self, key: Key) -> tuple[Agent, ...]:
        """Who works there, or did and is still shown."""
        return tuple(agent for agent in self.agents if agent.key == key)
