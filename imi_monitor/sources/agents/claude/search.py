"""Transcripts that no registry leads to: of sessions that ended today, and of versions that list themselves nowhere.

Years of old transcripts lie beside them. Only folders whose name can be a watched worktree's are listed, only files
that moved in the last day are opened, and few at a time: those that live were shown before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from imi_monitor.sources.agents.claude.places import Places, Watched, session_of

DAY = 24 * 3600.0
_AT_ONCE = 8


class Search:
    def __init__(self, places: Places) -> None:
        self._projects = places.projects
        self._waiting: dict[str, float] = {}  # transcripts to be opened, and when they moved
        self._seen: dict[str, float] = {}  # opened, and when they had moved

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def everywhere(self, watched: Watched, now: float) -> None:
        for folder in self._folders():
            if watched.may_hold(folder):
                self._list(folder, now)

    def among(self, touched: Iterable[str], watched: Watched, now: float) -> None:
        for path in touched:
            folder = os.path.dirname(path)
            if folder == self._projects and watched.may_hold(path):
                self._list(path, now)
            elif os.path.dirname(folder) == self._projects and session_of(path) and watched.may_hold(folder):
                self._waiting[path] = now

    def next(self) -> list[str]:
        """The next few, those that moved last first."""
        chosen = sorted(self._waiting, key=lambda path: -self._waiting[path])[:_AT_ONCE]
        for path in chosen:
            self._seen[path] = self._waiting.pop(path)
        return chosen

    def transcript_of(self, session: str) -> str | None:
        """Wherever it lies: a session that was resumed elsewhere keeps its file."""
        for folder in self._folders():
            path = f"{folder}/{session}.jsonl"
            if os.path.exists(path):
                return path
        return None

    def _folders(self) -> list[str]:
        try:
            return [f"{self._projects}/{name}" for name in os.listdir(self._projects)]
        except OSError:
            return []

    def _list(self, folder: str, now: float) -> None:
        try:
            with os.scandir(folder) as found:
                dated = [(one.path, one.stat().st_mtime) for one in found if one.name.endswith(".jsonl")]
        except OSError:
            return
        for path, moved in dated:
            if now - moved < DAY and self._seen.get(path) != moved:
                self._waiting[path] = moved
