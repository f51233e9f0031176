"""Where Claude Code keeps its things: the configuration folders in use, and how folders of transcripts are named.

A transcript lies in `projects/<slug>/<session>.jsonl`. The slug loses information (`/a/b-c` and `/a/b/c` share one), so
it only ever narrows a search; whose transcript it is, its own records say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from imi_monitor.sources.agents.base import World

_LONGEST_SLUG = 200  # longer ones are cut there and end in a hash
_NOT_IN_A_SLUG = re.compile("[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one configuration folder."""

    home: str

    @property
    def sessions(self) -> str:
        return f"{self.home}/sessions"

    @property
    def projects(self) -> str:
        return f"{self.home}/projects"

    @property
    def jobs(self) -> str:
        return f"{self.home}/jobs"

    def transcript(self, cwd: str, session: str) -> str:
        return f"{self.projects}/{slug(real(cwd) or '')}/{session}.jsonl"


def usual(world: World) -> list[str]:
    """Where configuration folders may be. The named one does not hide the usual ones: agents may run without it."""
    config = world.env.get("XDG_CONFIG_HOME") or f"{world.home}/.config"
    wanted = (world.env.get("CLAUDE_CONFIG_DIR"), f"{world.home}/.claude", f"{config}/claude")
    return [path for path in wanted if path]


def real(cwd: str) -> str | None:
    """A recorded folder as the disk has it; None for a name that no folder can have."""
    try:
        return os.path.realpath(cwd)
    except (ValueError, OSError):
        return None


def slug(path: str) -> str:
    """A folder's name as Claude writes it, which counts UTF-16 units; without the hash of a long one."""
    whole = _NOT_IN_A_SLUG.sub(lambda found: "--" if ord(found[0]) > 0xFFFF else "-", path)
    return whole[:_LONGEST_SLUG]


def may_concern(folder: str, slugs: Iterable[str]) -> bool:
    """Whether sessions of that slug can lie in one of the roots with these `slugs`."""
    name = _NOT_IN_A_SLUG.sub("-", folder)
    return any(name.startswith(one) for one in slugs)


def session_of(path: str) -> str | None:
    """The session whose transcript this is, by its name."""
    name = os.path.basename(path)
    return name[: -len(".jsonl")] if name.endswith(".jsonl") else None


class Watched:
    """Which recorded folders lie in a watched worktree; asking the disk about each is done once."""

    def __init__(self, world: World) -> None:
        self.roots = world.roots
        self.slugs = tuple(slug(root) for root in world.roots)
        self._world = world
        self._known: dict[str, bool] = {}

    def inside(self, cwd: str | None) -> bool:
        if cwd is None:
            return False
        if cwd not in self._known:
            self._known[cwd] = real(cwd) is not None and self._world.watched(cwd)
        return self._known[cwd]

    def may_hold(self, folder: str) -> bool:
        """Whether a folder of transcripts may hold some of these worktrees."""
        return may_concern(os.path.basename(folder), self.slugs)
