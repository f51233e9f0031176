"""Asks Codex's daemon for the status of its threads: the only place that shows that a thread waits for an approval.

imi only observes: it lists the loaded threads and reads their status. It never resumes or subscribes to a thread (Codex
would then send approvals to imi) and never answers a question. The protocol is experimental: an unexpected answer means
no evidence, a format note, and a new attempt after a pause.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, FAILED, RUNNING, WAITING
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.codex.websocket import ConnectionBroken, ConnectionClosed, WebSocket

_TIMEOUT = 0.25  # seconds for one answer; usual is less than a millisecond
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0
_MOST_READ = 60  # threads per poll
_NOISE = (
    "thread/started",
    "thread/closed",
    "thread/name/updated",
    "account/rateLimits/updated",
    "skills/changed",
    "configWarning",
    "remoteControl/status/changed",
    "mcpServer/startupStatus/updated",
)
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
        self._link: WebSocket | None = None
        self._number = 0
        self._pause = _FIRST_PAUSE
        self._not_before = 0.0

    @property
    def connected(self) -> bool:
        return self._link is not None

    def poll(self, now: float, whole: bool, again: Iterable[str]) -> None:
        """Take in what the daemon pushed. `whole`: list the loaded threads and read all of them; `again`: read these."""
        try:
            if self._link is None and not self._connect():
                return
            whole = whole or not self.statuses
            loaded = self._loaded() if whole else ()
            if whole:
                self.statuses = {name: one for name, one in self.statuses.items() if name in loaded}
            for thread in list(dict.fromkeys((*again, *loaded)))[:_MOST_READ]:
                self._read(thread, now)
            self._drain(now)
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

    def _connect(self) -> bool:
        clock = time.monotonic()
        if clock < self._not_before or not os.path.exists(self.path):
            return False
        self._not_before = clock + self._pause
        # the real path: a link may be longer than the hundred characters of a socket address
        self._link = WebSocket(os.path.realpath(self.path), _TIMEOUT)
        client = {"name": "imi", "title": "imi", "version": "0"}
        options = {"optOutNotificationMethods": list(_NOISE)}
        answer = self._ask("initialize", {"clientInfo": client, "capabilities": options})
        if "userAgent" not in answer:
            raise ConnectionBroken("it does not say who it is")
        self._send({"method": "initialized"})
        self._pause, self.note = _FIRST_PAUSE, None
        return True

    def _disconnect(self, why: str | None) -> None:
        """`why` None: the daemon ended, which is no problem."""
        connected = self._link is not None
        self.close()
        self.note = f"its daemon cannot be asked: {why}" if connected and why else None
        self._not_before = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _loaded(self) -> list[str]:
        found = self._ask("thread/loaded/list", {}).get("data")
        if not isinstance(found, list):
            raise ConnectionBroken("it does not list its threads")
        return [one for one in found if isinstance(one, str)]

    def _read(self, thread: str, now: float) -> None:
        answer = self._ask("thread/read", {"threadId": thread, "includeTurns": False}, may_fail=True)
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

    # -- the protocol ---------------------------------------------------------------------------------------------

    def _ask(self, method: str, params: dict[str, Any], may_fail: bool = False) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        until = time.monotonic() + _TIMEOUT
        while True:
            message = self._receive(until)
            if message is None:
                raise ConnectionBroken(f"no answer to {method}")
            if message.get("id") == self._number and "method" not in message:
                if "error" in message and not may_fail:
                    raise ConnectionBroken(f"it refuses {method}")
                return fields.table(message.get("result"))
            self._take_notification(message)

    def _drain(self, now: float) -> None:
        while (message := self._receive(0.0)) is not None:
            self._take_notification(message, now)

    def _take_notification(self, message: dict[str, Any], now: float | None = None) -> None:
        """Take in a change of status. Questions (which have an id) are left to the clients that can answer them."""
        params = fields.table(message.get("params"))
        thread = params.get("threadId")
        if message.get("method") == "thread/status/changed" and isinstance(thread, str) and "id" not in message:
            self._set_status(thread, params.get("status"), times.clock() / 1e9 if now is None else now)

    def _receive(self, until: float) -> dict[str, Any] | None:
        if self._link is None:
            raise ConnectionBroken("not connected")
        data = self._link.receive(until)
        if data is None:
            return None
        message = fields.record(data)
        if message is None:
            raise ConnectionBroken("it sends what is no record")
        return message

    def _send(self, message: dict[str, Any]) -> None:
        if self._link is None:
            raise ConnectionBroken("not connected")
        self._link.send(json.dumps(message))


def _status(value: object, now: float) -> DaemonStatus | None:
    """None for an unknown kind of status."""
    status = fields.table(value)
    kind = status.get("type")
    flags = [one for one in fields.rows(status.get("activeFlags")) if isinstance(one, str)]
    raw = f"{kind} {', '.join(flags)}".strip()
    if kind == "active":
        waits = next((_WAITS[one] for one in flags if one in _WAITS), None)
        return DaemonStatus(WAITING if waits else RUNNING, waits, raw, None, now)
    state = {"idle": COMPLETED, "systemError": FAILED}.get(kind) if isinstance(kind, str) else None
    return DaemonStatus(state, None, raw, None, now) if state else None
