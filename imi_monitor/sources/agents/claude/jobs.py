"""Sessions in the background (`claude --bg`): `jobs/<id>/state.json` says what one needs, and how it ended."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, WAITING, Evidence
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.claude.places import Places
from imi_monitor.sources.agents.claude.records import identity

_MOST = 100
_LONGEST = 1 << 20
_ENDS = {"done": COMPLETED, "failed": FAILED, "stopped": CANCELLED}


@dataclass(frozen=True, slots=True)
class Job:
    ident: str
    session: str
    cwd: str | None
    state: str | None
    detail: str | None
    needs: str | None
    name: str | None
    version: str | None
    at: str

    def evidence(self) -> Evidence | None:
        """How it ended, or what it needs; whether it works its live registry knows better."""
        says = f"jobs/{self.ident}/state.json says {self.state}"
        if self.state in _ENDS:
            why = self.detail if self.state == "failed" else None
            return Evidence("registry", _ENDS[self.state], self.at, says, why)
        return Evidence("registry", WAITING, self.at, says, self.needs) if self.state == "blocked" else None


class Jobs:
    """The jobs of one configuration folder, by session."""

    def __init__(self, places: Places) -> None:
        self.folder = places.jobs
        self.by_session: dict[str, Job] = {}
        self.readings = 0
        self._marks: dict[str, int] = {}

    def look(self, touched: frozenset[str] | None) -> None:
        if touched is None or self.folder in touched:
            self._look_at_all()
            return
        inside = self.folder + "/"
        for path in touched:
            if path.startswith(inside):
                self._read(path.removeprefix(inside).partition("/")[0], force=True)

    def folders(self) -> list[str]:
        """Of the jobs that go on."""
        ids = [one.ident for one in self.by_session.values() if one.state not in _ENDS]
        return [self.folder, *(f"{self.folder}/{ident}" for ident in ids)] if os.path.isdir(self.folder) else []

    def _look_at_all(self) -> None:
        try:
            with os.scandir(self.folder) as found:
                dated = [(one.stat().st_mtime, one.name) for one in found]
        except OSError:
            return
        for _, ident in sorted(dated)[-_MOST:]:
            self._read(ident)

    def _read(self, ident: str, force: bool = False) -> None:
        path = f"{self.folder}/{ident}/state.json"
        try:
            mark = os.stat(path).st_mtime_ns
            if self._marks.get(ident) == mark and not force:
                return
            with open(path, "rb") as file:
                job = _job(ident, json.loads(file.read(_LONGEST)), mark)
        except (OSError, ValueError, RecursionError):
            return  # gone, or being written: it is read when it changed again
        self._marks[ident] = mark
        self.readings += 1
        if job is not None:
            self.by_session[job.session] = job


def _job(ident: str, found: object, mark: int) -> Job | None:
    told = loose.table(found)
    session = identity(told.get("sessionId"))
    if session is None:
        return None
    return Job(
        ident,
        session,
        loose.path(told.get("cwd")),
        loose.text(told.get("state"), 40),
        loose.text(told.get("detail"), 300),
        loose.text(told.get("needs"), 300),
        loose.text(told.get("name"), 200),
        loose.text(told.get("cliVersion"), 40),
        loose.moment(told.get("updatedAt")) or times.stamp(datetime.fromtimestamp(mark / 1e9, UTC)),
    )
