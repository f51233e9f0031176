"""The server of `imi serve --http`: the answers of `http_routes`, made in threads, with a token that stays the same."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable

from imi_monitor import paths
from imi_monitor.actions.context import Context
from imi_monitor.cli import http_routes
from imi_monitor.cli.loopback_server import HttpRequest, LoopbackServer
from imi_monitor.model.errors import Refused

DEFAULT_PORT = 8683
_POLL_SECONDS = 0.1
_AT_ONCE = 4  # answers that are made at the same time


class HttpServer(LoopbackServer):
    """The token is in the Authorization header or the address."""

    def __init__(self, open_context: Callable[[], Context], token: str) -> None:
        super().__init__(token)
        self._open_context = open_context
        self._making = asyncio.Semaphore(_AT_ONCE)
        self.where_token_is = token_file()

    def token_of(self, request: HttpRequest) -> str:
        header = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        return header or request.values.get("token", "")

    async def respond(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._making:
            made = await asyncio.to_thread(http_routes.answer, self._open_context, request.path, request.values)
        await self.send(writer, made)
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
            await self.drain(writer)


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
