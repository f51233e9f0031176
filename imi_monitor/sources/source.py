"""What a source is, and the board it writes on.

A source looks at one part of the outside world at its own pace and says what it found. It never raises and never
blocks: what it could not read is a failure on the board, and the last good reading stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.agent import Agent
from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import ClaimState, Collision, GitState, Key, RegistryEvent, Waiter, Worktree


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """One worktree on the roster: where it is, and what costs no question to git."""

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
    held_by: str | None = None  # whom only a presence lock names: a program that does not use our registry
    held_since: str | None = None

    def claim(self, claims: Mapping[Key, ClaimState]) -> ClaimState | None:
        """The registry's claim; else that of another program, which only its presence lock tells."""
        claim = claims.get(self.key)
        if claim is not None or self.held_by is None:
            return claim
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

    def worktree(self, claims: Mapping[Key, ClaimState]) -> Worktree:
        """What is known of it before git was asked."""
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
class ClaimPeriod:
    """Who held a worktree, from when until when; `until` None is still."""

    key: Key
    agent: str
    since: str
    until: str | None


@dataclass(frozen=True, slots=True)
class RegistryReading:
    """What the registry says at one moment. `events` are only those that are new since the last picture."""

    claims: tuple[ClaimState, ...]
    waiting: tuple[Waiter, ...]
    grants: tuple[ClaimPeriod, ...]
    events: tuple[RegistryEvent, ...]


class ReadingReceiver(Protocol):
    """What the engine gives every source. All of it is called on the loop, is cheap and never raises."""

    def roster(self, entries: tuple[RosterEntry, ...]) -> None: ...

    def git(self, key: Key, state: GitState) -> None: ...

    def git_failed(self, key: Key, why: str) -> None: ...

    def changes(self, changes: Sequence[Change]) -> None: ...

    def watched(self, key: Key, how: str, why: str | None) -> None: ...

    def registry(self, picture: RegistryReading) -> None: ...

    def collisions(self, found: tuple[Collision, ...]) -> None: ...

    def agents(self, seen: tuple[Agent, ...]) -> None: ...

    def well(self, source: str, note: str | None = None) -> None: ...

    def fail(self, source: str, what: str, why: str) -> None: ...


class Source(Protocol):
    """One part of the outside world. `run` goes on until it is cancelled."""

    name: str

    async def run(self, board: ReadingReceiver) -> None: ...
