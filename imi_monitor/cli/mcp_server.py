"""The Model Context Protocol on the standard streams: one JSON message a line.

Two eras of the protocol are spoken at once. Up to 2025-11-25 a client begins with `initialize`; from 2026-07-28 on there is no
handshake: `server/discover` names the versions, and each request carries its version in `_meta`. Lean: an agent waits for it.
"""

from __future__ import annotations

import os
import sys

from imi_monitor import __version__
from imi_monitor.fast import json_reader, json_writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from imi_monitor.cli.mcp_tools import ToolBox

Message = dict[str, object]

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_LONGEST_LINE = 4 << 20
_PARSE, _INVALID, _NO_METHOD, _BAD_PARAMS, _BAD_VERSION = -32700, -32600, -32601, -32602, -32022
_CACHE_MS = 3_600_000  # the tools stay the same for as long as the process lives

INSTRUCTIONS = (
    "imi coordinates several coding agents in git worktrees of one repository. Call where_am_i first. Claim the worktree you"
    " work in before you edit, and release it when your work is committed. Call overview before larger edits: it says who works"
    " where, and which files of yours other worktrees have changed. Where a call is refused, the text says why and what to do;"
    " do not work in a worktree that another agent holds: use wait, or ask."
)


class RpcError(Exception):
    """An error of the protocol; what a tool refuses is a result instead."""

    def __init__(self, code: int, text: str, data: object = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.data = data


class McpServer:
    """Answers the messages of one client."""

    def __init__(self, tools: ToolBox, write: Callable[[bytes], None]) -> None:
        self._tools = tools
        self._write = write
        self._info = {"name": "imi", "title": "imi", "version": __version__}
        self._waiting: dict[object, Callable[[], None]] = {}  # by the request's id: ends a call that waits

    def receive(self, line: bytes) -> None:
        """Answer one line. What cannot be parsed gets an answer without an id."""
        try:
            message = json_reader.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            self._fail(None, RpcError(_PARSE, "the line is not JSON"))
            return
        if not isinstance(message, dict):
            self._fail(None, RpcError(_INVALID, "one JSON object a line is expected"))
            return
        method, ident = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if "result" not in message and "error" not in message:  # this server asks nothing, so it needs no answer
                self._fail(ident, RpcError(_INVALID, "the message has no method"))
            return
        params = message.get("params", {})
        if "id" not in message:
            self._note(method, params)
            return
        try:
            if not isinstance(params, dict):
                raise RpcError(_BAD_PARAMS, "the parameters must be an object")
            self._answer(method, ident, params)
        except RpcError as error:
            self._fail(ident, error)

    def close(self) -> None:
        """The client is gone: end the calls that wait."""
        for cancel in list(self._waiting.values()):
            cancel()

    def _note(self, method: str, params: object) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            ident = params.get("requestId")
            cancel = self._waiting.get(ident) if isinstance(ident, (str, int)) else None
            if cancel is not None:
                cancel()

    def _answer(self, method: str, ident: object, params: Message) -> None:
        stateless = _is_stateless(method, params)
        if method == "tools/call":
            self._call(ident, params, stateless)
        elif method == "initialize":
            self._send(ident, self._hello(params))
        elif method == "server/discover":
            found = {"supportedVersions": list(STATELESS_VERSIONS), **self._offer()}
            self._send(ident, {**found, **_cached(), "_meta": {_SERVER_KEY: self._info}})
        elif method == "tools/list":
            self._send(ident, {"tools": self._tools.list_tools(), **(_cached() if stateless else {})})
        elif method == "ping":
            self._send(ident, {})
        else:
            raise RpcError(_NO_METHOD, f"imi has no method {method[:80]}")

    def _hello(self, params: Message) -> Message:
        asked = params.get("protocolVersion")
        version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": version, **self._offer(), "serverInfo": self._info}

    def _offer(self) -> Message:
        return {"capabilities": {"tools": {}}, "instructions": self._tools.instructions or INSTRUCTIONS}

    def _call(self, ident: object, params: Message, stateless: bool) -> None:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RpcError(_BAD_PARAMS, "tools/call needs a name and arguments")
        if not self._tools.has(name):
            raise RpcError(_BAD_PARAMS, f"imi has no tool {name[:80]}")
        extra: Message = {"resultType": "complete"} if stateless else {}
        if not self._tools.may_wait(name):
            self._send(ident, {**self._tools.call(name, arguments), **extra})
            return
        import threading

        stop = threading.Event()

        def wait() -> None:
            try:
                self._send(ident, {**self._tools.call(name, arguments, stop.is_set), **extra})
            finally:
                self._waiting.pop(ident, None)

        self._waiting[ident] = stop.set
        threading.Thread(target=wait, name=f"call-{name}").start()

    def _send(self, ident: object, result: Message) -> None:
        self._write_message({"jsonrpc": "2.0", "id": ident, "result": result})

    def _fail(self, ident: object, error: RpcError) -> None:
        about: Message = {"code": error.code, "message": error.text}
        if error.data is not None:
            about["data"] = error.data
        self._write_message({"jsonrpc": "2.0", "id": ident, "error": about})

    def _write_message(self, message: Message) -> None:
        self._write(json_writer.dumps(message).encode("utf-8", "replace") + b"\n")


def _is_stateless(method: str, params: Message) -> bool:
    """Whether the request is of the era without a handshake; RpcError for a version of it that imi does not speak."""
    meta = params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    if version is None:
        return method == "server/discover"
    if version in STATELESS_VERSIONS:
        return True
    if version in HANDSHAKE_VERSIONS:
        return False
    supported = [*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS]
    raise RpcError(_BAD_VERSION, "unsupported protocol version", {"supported": supported, "requested": version})


def _cached() -> Message:
    return {"resultType": "complete", "ttlMs": _CACHE_MS, "cacheScope": "private"}


def serve(database: str | None, run: str | None) -> int:
    """Answer the client on the standard streams until it closes them; returns the exit status."""
    from imi_monitor.cli.mcp_tools import ToolBox

    answers = _protect_output()
    server = McpServer(ToolBox(database, run), lambda data: _write_all(answers, data))
    try:
        for line in _lines(sys.stdin.buffer):
            if line.strip():
                server.receive(line)
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the client is gone
    finally:
        server.close()
    return 0


def _protect_output() -> int:
    """The handle of the answers. The standard output goes to the standard error from now on, so nothing else gets between."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of the input; a line without an end in sight becomes one that cannot be parsed."""
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := stream.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                continue
            line = b"too long"
        yield line


def _write_all(handle: int, data: bytes) -> None:
    """One write for an ordinary message; threads write whole messages because `os.write` is one system call each."""
    while data:
        data = data[os.write(handle, data) :]
