"""Asks Codex's daemon for the status of its threads: the only place that shows that a thread waits for an approval.

imi only observes here: it lists the loaded threads and reads their status. It never resumes or subscribes to a thread (Codex
would then send approvals to imi); `thread_questions` does, while a user answers. The protocol is experimental: an unexpected
answer means no evidence, a format note, and a new attempt after a pause.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, FAILED, RUNNING, WAITING
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.codex.daemon_link import DaemonLink
from imi_monitor.sources.agents.codex.websocket import ConnectionBroken, ConnectionClosed

_TIMEOUT = 0.25  # seconds for one answer; usual is less than a millisecond
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0
_MOST_READ = 60  # threads per poll
_WAITS = {"waitingOnApproval": "approval", "waitingOnUserInput": "an answer"}


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The status of a loaded thread."""

    state: str
    waits_for: str | None
    raw: str
    since: float | None  # when it was seen to change; None: it has not changed since imi connected
    read_at: float


class CodexDaemon:
    """Connects when the socket exists. `statuses`: of the loaded threads, by thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.statuses: dict[str, DaemonStatus] = {}
        self.note: str | None = None
        self._link: DaemonLink | None = None
        self._pause = _FIRST_PAUSE
        self._not_before = 0.0

    @property
    def connected(self) -> bool:
        return self._link is not None

    def poll(self, now: float, whole: bool, again: Iterable[str]) -> None:
        """Take in what the daemon pushed. `whole`: list the loaded threads and read all of them; `again`: read these."""
        try:
            link = self._link or self._connect()
            if link is None:
                return
            whole = whole or not self.statuses
            loaded = link.loaded() if whole else ()
            if whole:
                self.statuses = {name: one for name, one in self.statuses.items() if name in loaded}
            for thread in list(dict.fromkeys((*again, *loaded)))[:_MOST_READ]:
                self._read(link, thread, now)
            while (message := link.receive(0.0)) is not None:
                self._take_notification(message, now)
        except ConnectionClosed:
            self._disconnect(None)
        except ConnectionBroken as error:
            self._disconnect(str(error))
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            self._disconnect(f"its answer is not understood ({type(error).__name__})")

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link, self.statuses = None, {}

    def _connect(self) -> DaemonLink | None:
        clock = time.monotonic()
        if clock < self._not_before or not os.path.exists(self.path):
            return None
        self._not_before = clock + self._pause
        self._link = DaemonLink(self.path, _TIMEOUT, self._take_notification)
        self._link.greet()
        self._pause, self.note = _FIRST_PAUSE, None
        return self._link

    def _disconnect(self, why: str | None) -> None:
        """`why` None: the daemon ended, which is no problem."""
        connected = self._link is not None
        self.close()
        self.note = f"its daemon cannot be asked: {why}" if connected and why else None
        self._not_before = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _read(self, link: DaemonLink, thread: str, now: float) -> None:
        answer = link.ask("thread/read", {"threadId": thread, "includeTurns": False}, may_fail=True)
        self._set_status(thread, fields.table(answer.get("thread")).get("status"), now)

    def _set_status(self, thread: str, status: object, now: float) -> None:
        read = _status(status, now)
        if read is None:
            self.statuses.pop(thread, None)
            return
        known = self.statuses.get(thread)
        if known is not None:
            read = replace(read, since=known.since if known.raw == read.raw else now)
        self.statuses[thread] = read

    def _take_notification(self, message: dict[str, Any], now: float | None = None) -> None:
        """Take in a change of status. Questions (which have an id) are left to the clients that can answer them."""
        params = fields.table(message.get("params"))
        thread = params.get("threadId")
        if message.get("method") == "thread/status/changed" and isinstance(thread, str) and "id" not in message:
            self._set_status(thread, params.get("status"), times.clock() / 1e9 if now is None else now)


def _status(value: object, now: float) -> DaemonStatus | None:
    """Parse the status of a thread; None if its kind is unknown."""
    status = fields.table(value)
    kind = status.get("type")
    flags = [one for one in fields.rows(status.get("activeFlags")) if isinstance(one, str)]
    raw = f"{kind} {', '.join(flags)}".strip()
    if kind == "active":
        waits = next((_WAITS[one] for one in flags if one in _WAITS), None)
        return DaemonStatus(WAITING if waits else RUNNING, waits, raw, None, now)
    state = {"idle": COMPLETED, "systemError": FAILED}.get(kind) if isinstance(kind, str) else None
    return DaemonStatus(state, None, raw, None, now) if state else None
