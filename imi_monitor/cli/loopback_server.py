"""A server on loopback: requests with a token, and nothing for the pages of other origins.

A request needs the token, and a Host and Origin of this server: a name that an attacker's page resolves to 127.0.0.1 is none.
A reader that is slow costs a place, and the oldest place that waits goes to the next one: many of them do not stop the server.
Requests that have shown the token have places of their own, which others cannot take.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
from collections.abc import Callable
from dataclasses import dataclass

from imi_monitor.model.errors import Refused, UsageError

ADDRESS = "127.0.0.1"
JSON, TEXT, EVENTS = "application/json", "text/plain; charset=utf-8", "text/event-stream"
_MOST_HEAD = 16 << 10
_HEAD_SECONDS = 5.0
_MOST_PLACES = 256
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
_REASONS |= {405: "Method Not Allowed", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The head of a request; header names are in lower case."""

    method: str
    path: str
    values: dict[str, str]
    headers: dict[str, str]
    head: bytes = b""


@dataclass(frozen=True, slots=True)
class RouteAnswer:
    """A status with a body; or `more`, which is called again and again: the next part, None when it is over."""

    status: int
    kind: str
    body: bytes = b""
    more: Callable[[], bytes | None] | None = None
    headers: tuple[str, ...] = ()


def failure(status: int, sentence: str) -> RouteAnswer:
    return RouteAnswer(status, JSON, json.dumps({"success": False, "error": sentence}).encode())


class _Places:
    """Connections that may be open at a time; where all places are taken, the oldest connection is cut."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[asyncio.StreamWriter, None] = {}

    def take(self, writer: asyncio.StreamWriter) -> None:
        while len(self._taken) >= self._most:
            oldest = next(iter(self._taken))
            del self._taken[oldest]
            oldest.transport.abort()
        self._taken[writer] = None

    def leave(self, writer: asyncio.StreamWriter) -> None:
        self._taken.pop(writer, None)


class LoopbackServer:
    """Answers on one port until it is closed. A subclass says what, and where a request has its token."""

    where_token_is = "the address that imi printed"
    most_admitted = 256  # connections with the token
    write_seconds = 10.0  # until a reader is too slow

    def __init__(self, token: str) -> None:
        self._token = token
        self._waiting = _Places(_MOST_PLACES)
        self.admitted = _Places(self.most_admitted)
        self.port = 0

    async def respond(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request that has the token."""
        raise NotImplementedError

    def token_of(self, request: HttpRequest) -> str:
        raise NotImplementedError

    @property
    def origins(self) -> list[str]:
        return [f"http://{name}:{self.port}" for name in (ADDRESS, "localhost")]

    async def open(self, port: int) -> asyncio.Server:
        """Listen on a port of this machine; Refused if another program has it."""
        try:
            server = await asyncio.start_server(self._serve, ADDRESS, port, limit=_MOST_HEAD, backlog=512)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise Refused(f"port {port} cannot be used: {why}: give another by --port", code="port") from error
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting.take(writer)
        try:
            await self._answer(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the reader is gone, or too slow
        except asyncio.CancelledError:
            pass  # the server ends; asyncio prints cancelled connections with a traceback
        finally:
            self._waiting.leave(writer)
            self.admitted.leave(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await self.send(writer, failure(431, "the head of the request is too long"))
            return
        request = parse(head)
        refused = failure(400, "this is no request") if request is None else self._refusal(request)
        if request is None or refused is not None:
            assert refused is not None
            await self.send(writer, refused)
            return
        self._waiting.leave(writer)
        self.admitted.take(writer)
        await self.respond(request, reader, writer)

    def _refusal(self, request: HttpRequest) -> RouteAnswer | None:
        """Return the refusal, or None. The token is compared last, so that a foreign page learns nothing about it."""
        own = self.origins
        if f"http://{request.headers.get('host', '').lower()}" not in own:
            return failure(403, f"use {own[0]}: this host is not served")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in own:
            return failure(403, "pages of other origins are not served")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return failure(403, "pages of other origins are not served")
        if request.method != "GET":
            return failure(405, "only GET is served")
        given = self.token_of(request)
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
            return failure(401, f"the token is missing or wrong: it is in {self.where_token_is}")
        return None

    async def send(self, writer: asyncio.StreamWriter, made: RouteAnswer) -> None:
        length = f"Content-Length: {len(made.body)}\r\n" if made.more is None else ""
        others = "".join(f"{line}\r\n" for line in made.headers)
        head = (
            f"HTTP/1.1 {made.status} {_REASONS[made.status]}\r\nContent-Type: {made.kind}\r\n{length}{others}"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + made.body)
        await self.drain(writer)

    async def drain(self, writer: asyncio.StreamWriter) -> None:
        """Wait until the reader has taken most of what was written; TimeoutError if it does not."""
        async with asyncio.timeout(self.write_seconds):
            await writer.drain()


def parse(head: bytes) -> HttpRequest | None:
    """The request of a head; None for anything but a plain one without a body."""
    try:
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        method, target, version = first.split(" ")
    except ValueError:
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            return None
        headers[name.lower()] = value.strip()
    body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    if version not in ("HTTP/1.0", "HTTP/1.1") or not target.startswith("/") or body:
        return None
    path, _, values = target.partition("?")
    try:
        return HttpRequest(method, path, parameters(values), headers, head)
    except ValueError:
        return None


def parameters(text: str) -> dict[str, str]:
    """The values behind the question mark, decoded; the first of each name counts."""
    from urllib.parse import parse_qsl

    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=50):
        found.setdefault(name, value)
    return found


def port_of(number: float | None, usual: int) -> int:
    if number is None:
        return usual
    if number != int(number) or not 0 <= number < 65536:
        raise UsageError("--port takes a number from 0 to 65535; 0 is any free one", code="bad-option")
    return int(number)
