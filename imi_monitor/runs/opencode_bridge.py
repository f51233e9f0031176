"""The bridge of an opencode in a window: its screen serves HTTP on a port of this machine, behind a password."""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from imi_monitor.runs.providers.opencode import prompt_message
from imi_monitor.runs.server_bridge import Message, ServerBridge

_AGAIN_SECONDS = 0.2
_ANSWER_SECONDS = 10.0
_GREETING_SECONDS = 2.0  # one that listens while it starts may not answer at all
_HEARTBEAT_SECONDS = 60.0  # the server sends one each ten seconds
_USER, _PASSWORD = "OPENCODE_SERVER_USERNAME", "OPENCODE_SERVER_PASSWORD"
_KEPT = (
    "session.created",
    "session.updated",
    "session.status",
    "session.error",
    "permission.",
    "question.",
    "message.",
)
_SKIPPED = ("message.part.delta",)


class OpencodeBridge(ServerBridge):
    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        password = os.environ.get(_PASSWORD) or secrets.token_urlsafe(24)
        user = os.environ.get(_USER) or "opencode"
        self._headers = {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
        self._known: set[str] = set()  # sessions that were described
        server = ["--hostname", "127.0.0.1", "--port", str(self._port)]
        self.start_screen([*self.plan["argv"], *server, *self.words], **{_PASSWORD: password, _USER: user})
        threading.Thread(target=self._listen, daemon=True).start()

    def sources(self) -> list[Any]:
        return []

    def receive(self) -> None:
        return  # the listening thread does

    def end(self) -> None:
        return  # the server is the screen

    def send(self, message: Message) -> None:
        with suppress(OSError, http.client.HTTPException):  # what becomes of it is an event
            self._ask("POST", str(message.get("post")), message.get("body"))

    # -- events -----------------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while True:
            with suppress(OSError, http.client.HTTPException, ValueError):
                self._listen_once()
            time.sleep(_AGAIN_SECONDS)

    def _listen_once(self) -> None:
        connection = self._connect(_GREETING_SECONDS)
        try:
            connection.request("GET", "/event", headers=self._headers)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                return
            began = False
            for line in answer:
                if not began:
                    if connection.sock is not None:
                        connection.sock.settimeout(_HEARTBEAT_SECONDS)
                    self._catch_up()
                    self._take_up()
                began = True
                if line.startswith(b"data:"):
                    self._take(json.loads(line[5:]))
        finally:
            connection.close()

    def _catch_up(self) -> None:
        """Record what happened before the connection: which sessions work, and what is asked."""
        status = self._ask("GET", "/session/status")
        for session, one in (status if isinstance(status, dict) else {}).items():
            self._take({"type": "session.status", "properties": {"sessionID": session, "status": one}})
        for kind in ("permission", "question"):
            asked = self._ask("GET", f"/{kind}")
            for one in asked if isinstance(asked, list) else ():
                self._take({"type": f"{kind}.asked", "properties": one})

    def _take_up(self) -> None:
        """Begin the first turn of a session that is taken up."""
        session, text = self.plan.get("resumes"), self.folder.prompt()
        if isinstance(session, str) and session not in self._known:
            self._describe(session)
            if text:
                self.send(prompt_message(session, text))

    def _take(self, event: Message) -> None:
        kind, properties = str(event.get("type")), event.get("properties")
        if not kind.startswith(_KEPT) or kind in _SKIPPED or not isinstance(properties, dict):
            return
        session = properties.get("sessionID")
        if kind in ("session.created", "session.updated"):
            self._known.add(str(session))
        elif isinstance(session, str) and session not in self._known:
            self._describe(session)
        self.record(json.dumps({"type": kind, "properties": properties}).encode())

    def _describe(self, session: str) -> None:
        """Record what a session is of which only other events came, and its messages so far."""
        self._known.add(session)
        info = self._ask("GET", f"/session/{session}")
        if not isinstance(info, dict):
            return
        self.record(
            json.dumps({"type": "session.updated", "properties": {"sessionID": session, "info": info}}).encode()
        )
        messages = self._ask("GET", f"/session/{session}/message?limit=20")
        for one in messages if isinstance(messages, list) else ():
            self.record(json.dumps({"type": "message.updated", "properties": {"info": one.get("info")}}).encode())
            for part in one.get("parts") or ():
                self.record(json.dumps({"type": "message.part.updated", "properties": {"part": part}}).encode())

    # -- requests ---------------------------------------------------------------------------------------------------------

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=seconds)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """The server's answer as JSON; None if it has none."""
        connection = self._connect(_ANSWER_SECONDS)
        try:
            data = None if body is None else json.dumps(body)
            headers = {**self._headers, **({} if data is None else {"content-type": "application/json"})}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
            with suppress(ValueError):
                return json.loads(text) if answer.status == http.client.OK else None
            return None
        finally:
            connection.close()
