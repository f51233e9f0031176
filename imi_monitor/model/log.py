"""Commits of a worktree's branch as they are listed: its own against the trunk first, then what it stands on."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit. `own` is one that the trunk does not have; `by` is the agent that held the worktree's claim then."""

    sha: str
    parents: tuple[str, ...]
    subject: str
    author: str
    at: str | None
    refs: tuple[str, ...] = ()
    own: bool = True
    by: str | None = None

    @property
    def who(self) -> str:
        return self.by or self.author

    def data(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of the log. `more` says whether anything follows; `seen` is where: (own commits, older ones)."""

    entries: tuple[Entry, ...]
    trunk: str | None
    more: bool
    seen: tuple[int, int]
