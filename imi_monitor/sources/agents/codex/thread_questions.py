"""The open questions of threads that Codex's daemon has loaded: read and answered for a user, beside Codex's own dialog.

A client that resumes a loaded thread gets its open questions again, and the first answer of any client counts. imi joins a
thread for that moment alone. A question is known by its thread and its item: the numbers of requests begin anew with the daemon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from imi_monitor import paths
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.codex.daemon_link import DaemonLink, Message
from imi_monitor.sources.agents.codex.websocket import ConnectionBroken

PREFIX = "codex"
_TIMEOUT = 5.0  # seconds for one answer of the daemon
_SHOWN_SECONDS = 1.0  # until it has repeated its first question
_MORE_SECONDS = 0.05  # until it has repeated the next one
_WAITS = ("waitingOnApproval", "waitingOnUserInput")
_ASKS = ("requestApproval", "requestUserInput")


@dataclass(frozen=True, slots=True)
class ThreadQuestion:
    """One open question. `record` is the daemon's request."""

    id: str
    thread: str
    cwd: str | None
    record: Message


def socket_path(home: str | None = None) -> str:
    """Return the path of the daemon's socket in this Codex home, by default the user's."""
    folder = home or os.path.realpath(os.environ.get("CODEX_HOME") or os.path.join(paths.home(), ".codex"))
    return os.path.join(folder, "app-server-control", "app-server-control.sock")


def id_of(thread: str, item: str | None = None) -> str:
    """The id of a question; without an item that of the thread's first one."""
    return ".".join((PREFIX, thread, *([item] if item else [])))


def find(ident: str | None = None) -> list[ThreadQuestion]:
    """The open questions with this id, or all; empty where no daemon answers."""
    thread = ident.split(".")[1] if ident is not None else None
    try:
        with _connected() as link:
            waiting = [one for one in link.loaded() if thread in (None, one) and _waits(link, one)]
            found = [each for one in waiting for each in _join(link, one)]
    except ConnectionBroken:
        return []
    return [one for one in found if ident is None or ident in (one.id, id_of(one.thread))]


def answer(ident: str, message: Message) -> bool:
    """Send the answer to this question; False if it is closed."""
    try:
        with _connected() as link:
            same = next((one for one in _join(link, ident.split(".")[1]) if one.id == ident), None)
            if same is None:
                return False
            link.send({**message, "id": same.record["id"]})
            return _is_resolved(link, same.record["id"])
    except ConnectionBroken:
        return False


@contextmanager
def _connected() -> Iterator[DaemonLink]:
    link = DaemonLink(socket_path(), _TIMEOUT, lambda message: None)
    try:
        link.greet()
        yield link
    finally:
        link.close()


def _waits(link: DaemonLink, thread: str) -> bool:
    answer = link.ask("thread/read", {"threadId": thread, "includeTurns": False}, may_fail=True)
    status = fields.table(fields.table(answer.get("thread")).get("status"))
    return any(one in _WAITS for one in fields.rows(status.get("activeFlags")))


def _join(link: DaemonLink, thread: str) -> list[ThreadQuestion]:
    """The open questions of the thread, which the daemon repeats behind its answer."""
    resumed = link.ask("thread/resume", {"threadId": thread, "excludeTurns": True}, may_fail=True)
    cwd = fields.path(fields.table(resumed.get("thread")).get("cwd"))
    found: list[ThreadQuestion] = []
    until = time.monotonic() + _SHOWN_SECONDS
    while (message := link.receive(until)) is not None:
        params = fields.table(message.get("params"))
        if "id" in message and str(message.get("method")).endswith(_ASKS) and params.get("threadId") == thread:
            found.append(ThreadQuestion(id_of(thread, _item(params)), thread, cwd, message))
            until = time.monotonic() + _MORE_SECONDS
    return found


def _item(params: Message) -> str:
    names = (fields.text(params.get(name), 200) for name in ("itemId", "approvalId"))
    return "+".join(one for one in names if one) or "?"


def _is_resolved(link: DaemonLink, request: object) -> bool:
    until = time.monotonic() + _TIMEOUT
    while (message := link.receive(until)) is not None:
        params = fields.table(message.get("params"))
        if message.get("method") == "serverRequest/resolved" and params.get("requestId") == request:
            return True
    return False
