"""What is known of one worktree: what the registry and git's own files tell at once, and what `git status` tells.

Unknown is None, never 0: a worktree nobody could ask is not clean, and one without an upstream is not level with it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

NOBODY = "human"  # who works where nobody claimed


@dataclass(frozen=True, slots=True)
class Known:
    """What costs no git process. `claim_state` is free, held, stale or dead; `locked` and `prunable` say why."""

    worktree_name: str
    repo: str
    path: str
    branch: str | None
    type: str
    is_main: bool = False
    agent_id: str | None = None
    claim_state: str = "free"
    pr_number: int | None = None
    missing: bool = False
    locked: str | None = None
    prunable: str | None = None

    @property
    def owner(self) -> str:
        """The owner as people read it; work that nobody claimed is a human's."""
        if self.agent_id is None:
            return NOBODY
        return self.agent_id if self.claim_state == "held" else f"{self.agent_id} ({self.claim_state})"

    @property
    def states(self) -> list[str]:
        """What is out of the ordinary about it, in words."""
        found = [f"missing: {self.prunable or 'its folder is gone'}"] if self.missing else []
        if self.locked is not None:
            found.append(f"locked: {self.locked}" if self.locked else "locked")
        return found

    def data(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Reading:
    """A worktree's state at one moment. With `error` set, everything git would have told is None."""

    known: Known
    head: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    trunk: str | None = None
    trunk_ahead: int | None = None
    trunk_behind: int | None = None
    staged: int | None = None
    unstaged: int | None = None
    untracked: int | None = None
    conflicted: int | None = None
    uncommitted: int | None = None  # files, however many of the four states each is in
    operation: str | None = None
    last_commit_at: str | None = None
    last_change_at: str | None = None
    last_change_path: str | None = None
    error: str | None = None

    def data(self) -> dict[str, object]:
        """Flat, as scripts want it."""
        fields = asdict(self)
        fields.pop("known")
        return {**self.known.data(), **fields}
