"""The snapshot: the frozen state of everything at one moment, made by the engine for panels, `imi status` and `imi watch`.

A part that cannot be read keeps its last good data; `health` says since when and why. A snapshot holds moments, never ages:
ages are computed when they are drawn.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass, field
from imi_monitor.model.agent import Agent
from imi_monitor.model.change import Change
from imi_monitor.model.commit import Commit
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.state_words import UNCLAIMED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.run import Run


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Identifies a worktree everywhere, instead of its position in a list or its path."""

    host: str
    repo: str
    worktree: str


@dataclass(frozen=True, slots=True)
class FileState:
    """One file of `git status`. `index` and `tree` are git's letters, `.` for unchanged."""

    path: str
    index: str
    tree: str
    origin: str | None = None
    added: int | None = None  # lines; None is unknown or binary
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class GitState:
    """The git state of one worktree, and when it was read. None is unknown, never zero."""

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
    merged: bool = False  # the trunk has all commits of a branch that had some of its own
    partial: bool = False  # only the changed paths were read; a full reading follows when the worktree is quiet

    @property
    def uncommitted(self) -> int:
        return len(self.files)


UNKNOWN_CLAIM = "unknown"  # the state of every claim while the registry cannot be used


@dataclass(frozen=True, slots=True)
class ClaimState:
    """The claim of a worktree. `state` is held, stale or dead (without a claim it is free), or unknown: then it counts as
    held, and `agent` is empty."""

    key: Key
    agent: str
    state: str
    epoch: int
    claimed_at: str | None
    heartbeat_at: str | None
    task: str | None
    pid: int | None
    process: str | None = None  # the name of the holder's process, None when unknown
    sessions: tuple[str, ...] = ()  # the sessions of agent programs from which it was claimed


@dataclass(frozen=True, slots=True)
class Waiter:
    """One entry of the line for a claimed worktree."""

    key: Key
    agent: str
    since: str
    place: int


@dataclass(frozen=True, slots=True)
class RegistryEvent:
    """One event of the registry."""

    seq: int
    type: str
    at: str
    repo: str | None
    worktree: str | None
    agent: str | None
    data: str
    host: str | None = None  # the label of the other home that has recorded it; None: this one


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """Why something could not be read, and since when."""

    what: str
    why: str
    since: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What is to be achieved in a worktree, and the last milestone since, if there is one."""

    text: str
    by: str
    at: str
    reached: str | None = None
    reached_at: str | None = None


@dataclass(frozen=True, slots=True)
class Worktree:
    """One worktree: what git's admin files and the registry say, and its git state.

    In the dashboard's list also a workspace that is no worktree: of a run, contained or watched; git knows nothing of it.
    """

    key: Key
    path: str
    type: str
    branch: str | None
    is_main: bool
    missing: bool
    locked: str | None
    pr: int | None
    claim: ClaimState | None
    git: GitState | None  # None: not read yet, or never readable
    failure: SourceFailure | None  # why `git` is missing or old
    watched: str  # how its files are followed: live, polling, starting or off
    watched_why: str | None
    last_change: Change | None = None
    # (minute since the epoch, changes in it), oldest first; minutes without changes are left out
    activity: tuple[tuple[int, int], ...] = ()
    pull: PullRequest | None = None  # as the forge listed it last
    intent: Intent | None = None
    run: Run | None = None  # the run in it, the most urgent one, if it is no worktree

    @property
    def typed_name(self) -> str:
        """The name by which commands take it: HOST:NAME for one of another home, which has no path here."""
        return self.own_name if self.path else f"{self.key.host}:{self.key.worktree}"

    @property
    def own_name(self) -> str:
        """The name by which commands take it on its own machine: the run's where it is no worktree."""
        return self.key.worktree if self.run is None else self.run.short

    @property
    def owner(self) -> str:
        if self.claim is None:
            return UNCLAIMED if self.run is None else self.run.agent
        return "?" if self.claim.state == UNKNOWN_CLAIM else self.claim.agent


@dataclass(frozen=True, slots=True)
class Collision:
    """Files that two worktrees both changed, or one branch that two machines have. `conflicts` is None while a merge was not
    tried; between machines it cannot be."""

    left: Key
    right: Key | None  # None: the trunk
    files: tuple[str, ...]
    conflicts: tuple[str, ...] | None
    checked_at: str | None = None
    branch: str | None = None  # that both have checked out, on different machines


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What a worktree uses on disk, measured while the dashboard shows it. None is unknown, never zero."""

    key: Key
    size: int | None
    unreadable: int  # folders that could not be read: it uses more


@dataclass(frozen=True, slots=True)
class UnreadChanges:
    """How many hunks of a worktree are unread, of how many; counted while the dashboard shows it. None is unknown."""

    key: Key
    unread: int | None
    total: int | None
    partial: bool = False  # there are more than were counted


# the note of the agents source when it is switched off
NOT_LOOKED_FOR = "agents are not observed: agents.track_activity is off"


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """The health of one source; `failure` is None while it works."""

    source: str
    read_at: str | None
    failure: SourceFailure | None
    note: str | None = None  # information that is no failure, such as "polling 12 worktrees"


@dataclass(frozen=True, slots=True)
class RegistryState:
    """Which registry was read last, and why it cannot be used now."""

    registry_id: str | None = None
    generation: int = 0
    replaced: int = 0  # how often another one took its place while this process ran
    problem: str | None = None  # None: it can be used


# the states of a home
HERE = "here"
UNCONFIRMED = "unconfirmed"  # no sign of life for a while, or the team's Redis cannot be reached
OFFLINE = "offline"
NEWER = "newer"  # it publishes by a newer protocol, which is not read


@dataclass(frozen=True, slots=True)
class DayWork:
    """What agents have done in one repository on the day that ends at `until`. None: unknown."""

    repo: str  # the repository's identity; empty: outside of repositories, or in several
    until: str
    sessions: int = 0
    working: int | None = None  # seconds
    waiting: int | None = None
    tokens: int | None = None
    cents: int | None = None  # hundredths of a US dollar
    files: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class HomeState:
    """One home of the team and what it publishes. In the keys of its worktrees and agents the host is its label.

    Worktrees and agents of the own home are in the snapshot itself, so they are left out here.
    """

    id: str
    label: str
    host: str
    user: str
    version: str
    since: str
    state: str
    seen: str | None  # the last sign of life, for a home that is not here
    own: bool
    worktrees: tuple[Worktree, ...] = ()
    agents: tuple[Agent, ...] = ()
    rejected: int = 0  # rows that could not be read
    day: tuple[DayWork, ...] = ()  # empty: it does not say what its agents have done today


@dataclass(frozen=True, slots=True)
class ForgeState:
    """A repository's list of pull requests: when and by which program it was read, why a later attempt failed."""

    repo: str
    via: str | None
    read_at: str | None
    problem: str | None
    problem_since: str | None


@dataclass(frozen=True, slots=True)
class SinkState:
    """One receiver of events: how many it does not have yet, and why."""

    name: str
    backlog: int  # events that wait for it
    waiting_since: str | None  # of the first of them
    parked: int  # events that it refuses
    dropped: int  # events that were deleted before it had them
    sent_at: str | None
    problem: str | None
    problem_since: str | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment. The engine publishes no snapshot that differs only in `seq` and `taken_at`."""

    seq: int
    taken_at: str
    host: str
    worktrees: tuple[Worktree, ...] = ()
    waiting: tuple[Waiter, ...] = ()
    changes: tuple[Change, ...] = ()  # newest last
    earlier: tuple[Change, ...] = ()  # of uncommitted files, from before the first event; newest last
    events: tuple[RegistryEvent, ...] = ()  # newest last
    collisions: tuple[Collision, ...] = ()
    agents: tuple[Agent, ...] = ()
    health: tuple[SourceHealth, ...] = ()
    complete: bool = False  # every worktree was read at least once
    repositories: tuple[str, ...] = field(default=())
    disk: tuple[DiskUse, ...] = ()  # of the worktrees measured so far; `imi watch` measures none
    unread: tuple[UnreadChanges, ...] = ()  # of the worktrees counted so far; `imi watch` counts none
    registry: RegistryState = field(default=RegistryState())
    forges: tuple[ForgeState, ...] = ()  # of repositories whose forge was asked
    homes: tuple[HomeState, ...] = ()  # of the team, the own one too; none without a team
    team_events: tuple[RegistryEvent, ...] = ()  # the last ones of other homes, in the order of the feed
    runs: tuple[Run, ...] = ()  # of this home, the newest first
    watched: tuple[Run, ...] = ()  # of other programs, in watched workspaces, the newest first
    sinks: tuple[SinkState, ...] = ()  # the receivers of events that are configured
    identities: tuple[tuple[str, str], ...] = ()  # (repository here, what all homes call it), while there is a team

    def worktree(self, key: Key) -> Worktree | None:
        return next((worktree for worktree in self.worktrees if worktree.key == key), None)

    def run_of(self, agent: Agent | None) -> Run | None:
        """The run that this agent belongs to, also a watched one."""
        if agent is None or agent.run is None:
            return None
        return next((one for one in (*self.runs, *self.watched) if one.id == agent.run), None)

    def has_read(self, source: str) -> bool:
        """Return whether that source has reported at all; before its first reading, absent data means nothing."""
        return any(health.source == source and health.read_at for health in self.health)

    @property
    def sees_agents(self) -> bool:
        """Whether the agents source is on."""
        return any(one.source == "agents" and one.read_at and one.note != NOT_LOOKED_FOR for one in self.health)

    def agents_in(self, key: Key) -> tuple[Agent, ...]:
        """Return the agents of a worktree, also ended ones that are still shown."""
        return tuple(agent for agent in self.agents if agent.key == key)
