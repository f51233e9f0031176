"""What a source is, what it reads, and the receiver it reports its readings to.

A source observes one part of the outside world at its own pace. It never raises and never blocks: what it could not
read is reported as a failure, and the last good reading stays.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.agent import Agent
from imi_monitor.model.attribution import ClaimPeriod
from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import UNKNOWN_CLAIM, ClaimState, GitState, Intent, Key, RegistryEvent, Waiter, Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.config import Settings
    from imi_monitor.model.agent_names import GivenName
    from imi_monitor.model.pull_request import PullRequest
    from imi_monitor.model.snapshot import Snapshot
    from imi_monitor.sources.agents.session_recorder import SessionRecorder
    from imi_monitor.sources.files.watcher import FileWatcher
    from imi_monitor.sources.hints import Hint
    from imi_monitor.store.async_registry import AsyncRegistry


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """One worktree of the roster: from git's own files and the registry, without running git."""

    key: Key
    path: str
    admin_dir: str
    common_dir: str
    type: str
    branch: str | None
    head: str | None
    is_main: bool
    missing: bool
    locked: str | None
    pr: int | None
    trusted: bool
    held_by: str | None = None  # named only by a presence lock: a program that does not use the registry
    held_since: str | None = None

    def claim(self, claims: Mapping[Key, ClaimState] | None) -> ClaimState | None:
        """Return the registry's claim, else the claim of another program that only its presence lock shows.

        `claims` is None while the registry cannot be used.
        """
        claim = claims.get(self.key) if claims is not None else None
        if claim is not None:
            return claim
        if self.held_by is None:
            return None if claims is not None else ClaimState(self.key, "", UNKNOWN_CLAIM, 0, None, None, None, None)
        return ClaimState(
            self.key,
            self.held_by,
            "held",
            0,
            self.held_since,
            None,
            None,
            None,
            process="another program (presence lock)",
        )

    def worktree(self, claims: Mapping[Key, ClaimState] | None) -> Worktree:
        """Return the worktree as it is known before its git status is read."""
        return Worktree(
            key=self.key,
            path=self.path,
            type=self.type,
            branch=self.branch,
            is_main=self.is_main,
            missing=self.missing,
            locked=self.locked,
            pr=self.pr,
            claim=self.claim(claims),
            git=None,
            failure=None,
            watched="starting",
            watched_why=None,
        )


@dataclass(frozen=True, slots=True)
class RegistryReading:
    """The registry at one moment; `events` are only those that are new since the last reading of the same registry."""

    claims: tuple[ClaimState, ...]
    waiting: tuple[Waiter, ...]
    periods: tuple[ClaimPeriod, ...]
    events: tuple[RegistryEvent, ...]
    registry_id: str | None = None
    generation: int = 0
    anew: bool = False  # another registry than that of the last reading
    intents: tuple[tuple[Key, Intent], ...] = ()


class ReadingReceiver(Protocol):
    """Receives the readings of all sources; the engine is one.

    All methods are called on the event loop, are cheap and never raise.
    """

    def update(self, **fields: object) -> None:
        """Set these fields of the snapshot: for a reading that is shown as it is."""

    def set_roster(self, entries: tuple[RosterEntry, ...]) -> None: ...

    def set_git_state(self, key: Key, state: GitState) -> None: ...

    def set_git_failure(self, key: Key, why: str) -> None: ...

    def add_changes(self, changes: Sequence[Change]) -> None: ...

    def set_earlier_changes(self, changes: tuple[Change, ...]) -> None:
        """Set what was changed while files were not followed, oldest first. The newest is the last change of a worktree
        without a change that was seen."""

    def set_watch_mode(self, key: Key, mode: str, why: str | None) -> None: ...

    def set_registry(self, reading: RegistryReading) -> None: ...

    def set_registry_unusable(self, why: str) -> None:
        """Every claim is unknown until the next reading."""

    def set_agents(self, agents: tuple[Agent, ...]) -> None: ...

    def set_pull_requests(self, pulls: Mapping[Key, PullRequest]) -> None:
        """Set the pull request of each worktree that has one."""

    def set_agent_names(self, names: Mapping[str, GivenName]) -> None:
        """Set the names that the registry has, by `agent_names.name_key`."""

    def set_healthy(self, source: str, note: str | None = None) -> None: ...

    def set_failure(self, source: str, what: str, why: str) -> None: ...

    def send_hint(self, hint: Hint) -> None:
        """Pass the hint on to every source."""

    def snapshots(self) -> AsyncIterator[Snapshot]:
        """Yield the present snapshot and each one that follows, for a source that publishes them."""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What sources are made from."""

    registry: AsyncRegistry
    database: str
    common_dirs: tuple[str, ...] | None  # of the repositories; None: all that the registry has
    settings: Settings
    watcher: FileWatcher
    recorder: SessionRecorder
    # by a repository's common directory: the folder that holds `sync/`, and the folders of shared files in it
    find_shared_folders: Callable[[str], tuple[str, tuple[str, ...]] | None]
    read_only: bool = False  # True: no source may claim or link

    @property
    def tracks_agents(self) -> bool:
        return self.settings.flag("agents.track_activity")


class Source:
    """Observes one part of the outside world."""

    name: str

    async def run(self, receiver: ReadingReceiver) -> None:
        """Report readings until cancelled."""
        raise NotImplementedError

    def handle_hint(self, hint: Hint) -> None:
        """React to what another source found. Called on the event loop; must be cheap."""
