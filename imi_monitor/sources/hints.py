"""Hints: what one source sends to all others, through the engine, because it may concern what they read.

A hint is not a reading: a source that handles one reads the outside world itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.agent import Agent
from imi_monitor.model.run import Run
from imi_monitor.model.snapshot import GitState, Key
from imi_monitor.sources.source import RosterEntry


@dataclass(frozen=True, slots=True)
class RosterRead:
    """The engine has these worktrees now."""

    entries: tuple[RosterEntry, ...]


@dataclass(frozen=True, slots=True)
class OpenRunsRead:
    """The runs that are not over and have no worktree, the newest first."""

    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class GitStateRead:
    """The engine has a new git state of this worktree."""

    key: Key
    state: GitState


@dataclass(frozen=True, slots=True)
class AllStatusesRead:
    """Each worktree of the roster has a git state or a failure."""


@dataclass(frozen=True, slots=True)
class AgentsRead:
    """The agents, after each time their files and processes were read."""

    agents: Sequence[Agent]


@dataclass(frozen=True, slots=True)
class AgentLookedAt:
    """A person has looked at this agent's present state."""

    agent: Agent


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """These files of a worktree changed, relative to it; None: any of them may have."""

    key: Key
    paths: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class ChangedFilesRead:
    """The files that each worktree has changed and not merged, relative to it: uncommitted, or committed on its branch."""

    files: Mapping[Key, frozenset[str]]


@dataclass(frozen=True, slots=True)
class GitDirChanged:
    """A file in this git directory of one worktree changed."""

    admin_dir: str


@dataclass(frozen=True, slots=True)
class GitDirsUncertain:
    """Events in the git directories of this repository may be missing: compare their time stamps."""

    common_dir: str


@dataclass(frozen=True, slots=True)
class RefsChanged:
    """Branches or tags of this repository moved."""

    common_dir: str


@dataclass(frozen=True, slots=True)
class WorktreeListChanged:
    """A worktree may have been added, removed or switched to another branch."""


@dataclass(frozen=True, slots=True)
class SharedFilesChanged:
    """Shared files of this repository came or went; without `seen` their events may only be missing."""

    common_dir: str
    seen: bool


@dataclass(frozen=True, slots=True)
class RegistryWritten:
    """A file of the registry was written."""


@dataclass(frozen=True, slots=True)
class RegistryChanged:
    """The registry holds something new."""


@dataclass(frozen=True, slots=True)
class SinkStateChanged:
    """This process recorded a new or ended problem of a sink. Needed because own writes are no change of the registry."""


@dataclass(frozen=True, slots=True)
class RefreshRequested:
    """A person asks to read everything again now."""


@dataclass(frozen=True, slots=True)
class DiskUseWanted:
    """Whether a person looks at the disk use of worktrees."""

    wanted: bool


@dataclass(frozen=True, slots=True)
class UnreadWanted:
    """Whether a person looks at the unread changes of worktrees."""

    wanted: bool


Hint = (
    RosterRead
    | OpenRunsRead
    | GitStateRead
    | AllStatusesRead
    | AgentsRead
    | AgentLookedAt
    | FilesChanged
    | ChangedFilesRead
    | GitDirChanged
    | GitDirsUncertain
    | RefsChanged
    | WorktreeListChanged
    | SharedFilesChanged
    | RegistryWritten
    | RegistryChanged
    | SinkStateChanged
    | RefreshRequested
    | DiskUseWanted
    | UnreadWanted
)
