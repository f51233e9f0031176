"""One connection to Codex's daemon: JSON-RPC over a WebSocket on a unix socket. The protocol is experimental."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.codex.websocket import ConnectionBroken, WebSocket

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

Message = dict[str, Any]


class DaemonLink:
    """Any error raises `ConnectionBroken` and ends its use. `take` gets what comes in between a request and its answer."""

    def __init__(self, path: str, timeout: float, take: Callable[[Message], None]) -> None:
        self._timeout, self._take, self._number = timeout, take, 0
        # the real path: a link may be longer than the hundred characters of a socket address
        self._socket = WebSocket(os.path.realpath(path), timeout)

    def greet(self) -> None:
        """Say who imi is; before anything else."""
        client = {"name": "imi", "title": "imi", "version": "0"}
        options = {"optOutNotificationMethods": list(_NOISE)}
        answer = self.ask("initialize", {"clientInfo": client, "capabilities": options})
        if "userAgent" not in answer:
            raise ConnectionBroken("it does not say who it is")
        self.send({"method": "initialized"})

    def close(self) -> None:
        self._socket.close()

    def ask(self, method: str, params: Message, *, may_fail: bool = False) -> Message:
        """The result of a request."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        until = time.monotonic() + self._timeout
        while (message := self.receive(until)) is not None:
            if message.get("id") == self._number and "method" not in message:
                if "error" in message and not may_fail:
                    raise ConnectionBroken(f"it refuses {method}")
                return fields.table(message.get("result"))
            self._take(message)
        raise ConnectionBroken(f"no answer to {method}")

    def receive(self, until: float) -> Message | None:
        """The next message; None if none came until then (monotonic clock)."""
        data = self._socket.receive(until)
        if data is None:
            return None
        message = fields.record(data)
        if message is None:
            raise ConnectionBroken("it sends what is no record")
        return message

    def send(self, message: Message) -> None:
        self._socket.send(json.dumps(message))

    def loaded(self) -> list[str]:
        """The ids of the threads that it has loaded."""
        found = self.ask("thread/loaded/list", {}).get("data")
        if not isinstance(found, list):
            raise ConnectionBroken("it does not list its threads")
        return [one for one in found if isinstance(one, str)]
