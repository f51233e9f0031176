"""Codex's daemon, asked what its threads do: the one place where "waits for an approval" is written down.

An onlooker only: it asks which threads are loaded and reads their status, it never resumes or subscribes to one (then
approvals would be sent to us) and never answers what it is asked. The protocol is experimental: any surprise means no
evidence and a note, and a new try after a while.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from imi_monitor.model.agent import COMPLETED, FAILED, RUNNING, WAITING
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.codex.websocket import Broken, Gone, WebSocket

_TIMEOUT = 0.25  # of one question; it answers in less than a millisecond
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0
_MOST_READ = 60  # threads of one look
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
    """What a loaded thread does."""

    state: str
    waits_for: str | None
    raw: str
    since: float | None  # when it was seen to change; None: it was so when we came
    read_at: float


class CodexDaemon:
    """Connects when its socket is there; `statuses` is what is known of loaded threads."""

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

    def look(self, now: float, whole: bool, again: Iterable[str]) -> None:
        """`whole`: ask which are loaded, and read all of them; `again`: read these. What it pushed is taken anyway."""
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
        except Gone:
            self._broken(None)
        except Broken as error:
            self._broken(str(error))
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            self._broken(f"its answer is not understood ({type(error).__name__})")

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link, self.statuses = None, {}

    def _connect(self) -> bool:
        clock = time.monotonic()
        if clock < self._not_before or not os.path.exists(self.path):
            return False
        self._not_before = clock + self._pause
        # a link to a short path, as addresses of sockets have room for a hundred characters only
        self._link = WebSocket(os.path.realpath(self.path), _TIMEOUT)
        client = {"name": "imi", "title": "imi", "version": "0"}
        options = {"optOutNotificationMethods": list(_NOISE)}
        answer = self._ask("initialize", {"clientInfo": client, "capabilities": options})
        if "userAgent" not in answer:
            raise Broken("it does not say who it is")
        self._tell({"method": "initialized"})
        self._pause, self.note = _FIRST_PAUSE, None
        return True

    def _broken(self, why: str | None) -> None:
        """`why` None: it went away, as programs do."""
        connected = self._link is not None
        self.close()
        self.note = f"its daemon cannot be asked: {why}" if connected and why else None
        self._not_before = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)

    def _loaded(self) -> list[str]:
        found = self._ask("thread/loaded/list", {}).get("data")
        if not isinstance(found, list):
            raise Broken("it does not list its threads")
        return [one for one in found if isinstance(one, str)]

    def _read(self, thread: str, now: float) -> None:
        answer = self._ask("thread/read", {"threadId": thread, "includeTurns": False}, may_fail=True)
        self._note(thread, fields.table(answer.get("thread")).get("status"), now)

    def _note(self, thread: str, status: object, now: float) -> None:
        read = _status(status, now)
        if read is None:
            self.statuses.pop(thread, None)
            return
        known = self.statuses.get(thread)
        if known is not None:
            read = replace(read, since=known.since if known.raw == read.raw else now)
        self.statuses[thread] = read

    # -- the wire -------------------------------------------------------------------------------------------------

    def _ask(self, method: str, params: dict[str, Any], may_fail: bool = False) -> dict[str, Any]:
        self._number += 1
        self._tell({"id": self._number, "method": method, "params": params})
        until = time.monotonic() + _TIMEOUT
        while True:
            message = self._next(until)
            if message is None:
                raise Broken(f"no answer to {method}")
            if message.get("id") == self._number and "method" not in message:
                if "error" in message and not may_fail:
                    raise Broken(f"it refuses {method}")
                return fields.table(message.get("result"))
            self._pushed(message)

    def _drain(self, now: float) -> None:
        while (message := self._next(0.0)) is not None:
            self._pushed(message, now)

    def _pushed(self, message: dict[str, Any], now: float | None = None) -> None:
        """A change of a thread that we know; a question to us is left to those who can answer it."""
        params = fields.table(message.get("params"))
        thread = params.get("threadId")
        if message.get("method") == "thread/status/changed" and isinstance(thread, str) and "id" not in message:
            self._note(thread, params.get("status"), time.time() if now is None else now)

    def _next(self, until: float) -> dict[str, Any] | None:
        if self._link is None:
            raise Broken("not connected")
        data = self._link.receive(until)
        if data is None:
            return None
        message = fields.record(data)
        if message is None:
            raise Broken("it sends what is no record")
        return message

    def _tell(self, message: dict[str, Any]) -> None:
        if self._link is None:
            raise Broken("not connected")
        self._link.send(json.dumps(message))


def _status(value: object, now: float) -> DaemonStatus | None:
    """Unknown kinds of status say nothing."""
    status = fields.table(value)
    kind = status.get("type")
    flags = [one for one in fields.rows(status.get("activeFlags")) if isinstance(one, str)]
    raw = f"{kind} {', '.join(flags)}".strip()
    if kind == "active":
        waits = next((_WAITS[one] for one in flags if one in _WAITS), None)
        return DaemonStatus(WAITING if waits else RUNNING, waits, raw, None, now)
    state = {"idle": COMPLETED, "systemError": FAILED}.get(kind) if isinstance(kind, str) else None
    return DaemonStatus(state, None, raw, None, now) if state else None
