"""The server of `imi serve --http`: GET on loopback with a token, and nothing for the pages of other origins.

A request needs the token, and a Host and Origin of this server: a name that an attacker's page resolves to 127.0.0.1 is none.
A reader that is slow costs a place, and the oldest place that waits goes to the next one: many of them do not stop the server.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from imi_monitor import paths
from imi_monitor.actions.context import Context
from imi_monitor.cli import http_routes
from imi_monitor.cli.http_routes import RouteAnswer
from imi_monitor.model.errors import Refused, UsageError

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8683
_MOST_HEAD = 16 << 10
_HEAD_SECONDS = 5.0
_WRITE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_MOST_PLACES = 256
_AT_ONCE = 4  # answers that are made at the same time
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
_REASONS |= {405: "Method Not Allowed", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The head of a request; header names are in lower case."""

    method: str
    path: str
    values: dict[str, str]
    headers: dict[str, str]


class HttpServer:
    """Answers on one port until it is closed."""

    def __init__(self, open_context: Callable[[], Context], token: str) -> None:
        self._open_context = open_context
        self._token = token
        self._places: dict[asyncio.StreamWriter, None] = {}
        self._making = asyncio.Semaphore(_AT_ONCE)
        self.port = 0

    async def open(self, port: int) -> asyncio.Server:
        """Listen on a port of this machine; Refused if another program has it."""
        try:
            server = await asyncio.start_server(self._serve, ADDRESS, port, limit=_MOST_HEAD, backlog=512)
        except OSError as error:
            raise Refused(f"port {port} cannot be used: {os.strerror(error.errno or 0)}", code="port") from error
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._take_place(writer)
        try:
            await self._answer(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the reader is gone, or too slow
        finally:
            self._places.pop(writer, None)
            writer.close()

    def _take_place(self, writer: asyncio.StreamWriter) -> None:
        """Give this connection a place, and where all are taken that of the oldest."""
        while len(self._places) >= _MOST_PLACES:
            oldest = next(iter(self._places))
            del self._places[oldest]
            oldest.transport.abort()
        self._places[writer] = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await self._send(writer, http_routes.failure(431, "the head of the request is too long"))
            return
        request = parse(head)
        refused = http_routes.failure(400, "this is no request") if request is None else self._refusal(request)
        if request is None or refused is not None:
            assert refused is not None
            await self._send(writer, refused)
            return
        async with self._making:
            made = await asyncio.to_thread(http_routes.answer, self._open_context, request.path, request.values)
        await self._send(writer, made)
        while made.more is not None:
            await asyncio.sleep(_POLL_SECONDS)
            async with self._making:
                part = await asyncio.to_thread(made.more)
            if part is None:
                return
            if part:
                writer.write(part)
            if reader.at_eof():
                return
            await _drain(writer)

    def _refusal(self, request: HttpRequest) -> RouteAnswer | None:
        """Why the request is not answered; the token is compared last, so that a foreign page learns nothing of it."""
        own = {f"{name}:{self.port}" for name in (ADDRESS, "localhost")}
        if request.headers.get("host", "").lower() not in own:
            return http_routes.failure(403, f"use http://{ADDRESS}:{self.port}: this host is not served")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{name}" for name in own}:
            return http_routes.failure(403, "pages of other origins are not served")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return http_routes.failure(403, "pages of other origins are not served")
        if request.method != "GET":
            return http_routes.failure(405, "only GET is served")
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip() or request.values.get(
            "token", ""
        )
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
            return http_routes.failure(401, f"the token is missing or wrong: it is in {token_file()}")
        return None

    async def _send(self, writer: asyncio.StreamWriter, made: RouteAnswer) -> None:
        length = f"Content-Length: {len(made.body)}\r\n" if made.more is None else ""
        head = (
            f"HTTP/1.1 {made.status} {_REASONS[made.status]}\r\nContent-Type: {made.kind}\r\n{length}"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + made.body)
        await _drain(writer)


async def _drain(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
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
        return HttpRequest(method, path, http_routes.parameters(values), headers)
    except ValueError:
        return None


def token_file() -> str:
    return os.path.join(paths.state_dir(), "http-token")


def read_token() -> str:
    """The token, which the user alone can read; made at the first use."""
    path = token_file()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass  # of an earlier use
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(handle, encoding="ascii", errors="replace") as file:
        info = os.fstat(handle)
        if info.st_uid != os.getuid() or info.st_mode & 0o077:
            raise Refused(f"{path} can be read by others: `chmod 600` it, or delete it", code="token")
        token = file.read(200).strip()
    if len(token) < 20:
        raise Refused(f"{path} holds no token: delete it, and a new one is made", code="token")
    return token


def port_of(number: float | None) -> int:
    if number is None:
        return DEFAULT_PORT
    if number != int(number) or not 0 <= number < 65536:
        raise UsageError("--port takes a number from 0 to 65535; 0 is any free one", code="bad-option")
    return int(number)
