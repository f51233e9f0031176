"""Who works on what, for programs that write down neither: the newest sessions of a folder are those of its processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from imi_monitor.sources.agents.base import AgentProcess

_SLACK = 2.0  # seconds between a process's start and what it writes first


@dataclass(frozen=True, slots=True)
class Held:
    """A session: where, and when it was heard of last. `names`: what its process may have been told on its command line."""

    id: str
    cwd: str
    heard_at: float
    names: frozenset[str] = frozenset()
    left_by: tuple[int, str] | None = None  # its process ended, and nothing was heard since: only that one may be back


def pair(sessions: Sequence[Held], processes: Sequence[AgentProcess]) -> Mapping[str, AgentProcess]:
    """The process of each session that has one; the others have ended."""
    found: dict[str, AgentProcess] = {}
    free = sorted(processes, key=lambda one: -one.began_at)
    ordered = sorted(sessions, key=lambda one: -one.heard_at)
    for told in (True, False):
        for session in ordered:
            if session.id in found:
                continue
            owner = next((one for one in free if _fits(session, one, told)), None)
            if owner is not None:
                found[session.id] = owner
                free.remove(owner)
    return found


def _fits(session: Held, process: AgentProcess, told: bool) -> bool:
    if session.cwd != process.cwd:
        return False
    if told:
        return not session.names.isdisjoint(process.argv)
    if session.left_by is not None:
        return session.left_by == (process.pid, process.started)
    return session.heard_at >= process.began_at - _SLACK


class Unseen:
    """What became of a session's process, from look to look."""

    def __init__(self) -> None:
        self.owned = False  # it had a process when it was asked last
        self._owner: tuple[int, str] | None = None
        self._heard_alone: float | None = None

    def owner_is(self, pid: int | None, started: str | None) -> None:
        self.owned, self._heard_alone = True, None
        self._owner = (pid or 0, started or "")

    def nobody(self, heard_at: float) -> bool | None:
        """No process is proof of its end (False), unless it was heard of since: then something goes on that we cannot
        see, in a container or as another user (None)."""
        self.owned = False
        if self._heard_alone is None:
            self._heard_alone = heard_at
        return None if heard_at > self._heard_alone + _SLACK else False

    def left_by(self, heard_at: float) -> tuple[int, str] | None:
        """Who left it while we looked, as long as nothing was heard of it since."""
        return self._owner if self._heard_alone is not None and heard_at <= self._heard_alone else None
