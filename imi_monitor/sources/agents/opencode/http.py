"""Asks an opencode that was started with `--port` what it does: it alone knows whether a tool waits for leave.

Only when its own command line shows a port, only on this machine, and only for a moment; one that does not answer (it
is stopped, or wants a password) is left alone for a while.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from imi_monitor.sources.agents import loose

_PATIENCE = 0.15  # seconds for one answer
_MOST = 512 << 10
_AFTER_SILENCE = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Answers:
    """`busy`: session -> busy, retry; who is not in it is idle. `asking`: session -> what for, and which tool call."""

    busy: dict[str, dict[str, Any]]
    asking: dict[str, tuple[str, str | None]]


def port(argv: Sequence[str]) -> int | None:
    for word, following in zip(argv, (*argv[1:], ""), strict=True):
        text = following if word == "--port" else word.removeprefix("--port=") if word.startswith("--port=") else ""
        if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
            return int(text)
    return None


class Asker:
    def __init__(self) -> None:
        self._silent: dict[int, float] = {}  # port -> until when it is not asked

    def ask(self, number: int, now: float) -> Answers | None:
        if now < self._silent.get(number, 0):
            return None
        try:
            status = loose.table(_get(number, "/session/status"))
            permissions, questions = _get(number, "/permission"), _get(number, "/question")
        except (OSError, http.client.HTTPException, ValueError):
            self._silent[number] = now + _AFTER_SILENCE
            return None
        asking = {**_asking(questions, "question"), **_asking(permissions, "permission for ")}
        return Answers({str(key): loose.table(value) for key, value in status.items()}, asking)


def _asking(answer: object, what: str) -> dict[str, tuple[str, str | None]]:
    found = {}
    for one in map(loose.table, loose.rows(answer)):
        session, kind = loose.text(one.get("sessionID"), 200), loose.text(one.get("permission"), 100)
        if session:
            call = loose.text(loose.table(one.get("tool")).get("callID"), 200)
            found[session] = (what + (kind or "a tool") if what.endswith(" ") else what, call)
    return found


def _get(number: int, path: str) -> object:
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=_PATIENCE)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        if answer.status == 404 and path == "/question":  # older ones have none
            return []
        if answer.status != 200:
            raise ValueError(f"it answers {answer.status}")
        return json.loads(answer.read(_MOST))
    finally:
        connection.close()
