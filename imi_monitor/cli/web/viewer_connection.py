"""The WebSocket of one viewer: messages in both directions, kept alive by pings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from websockets.exceptions import ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from imi_monitor.cli.loopback_server import HttpRequest

_MOST_MESSAGE = 1 << 20  # bytes; a paste is the largest
_MOST_REASON = 120  # bytes; the protocol allows 123
_READ = 1 << 16
_PING_SECONDS = 20.0
_UNANSWERED = 2  # pings


class ViewerConnection:
    """Speaks the protocol on a connection whose request has been checked."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        drain: Callable[[asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._drain = drain
        self._protocol = ServerProtocol(max_size=_MOST_MESSAGE)

    async def accept(self, request: HttpRequest) -> bool:
        """Answer the request to change to this protocol; False after an answer that refuses it."""
        self._protocol.receive_data(request.head)
        event = next(iter(self._protocol.events_received()), None)
        if isinstance(event, Request):
            self._protocol.send_response(self._protocol.accept(event))
        await self._flush()
        return self._protocol.state is State.OPEN

    async def messages(self) -> AsyncIterator[str]:
        """The text messages of the viewer until the connection is over."""
        parts: list[bytes] = []
        waited = 0
        while self._protocol.state is State.OPEN:
            try:
                async with asyncio.timeout(_PING_SECONDS):
                    data = await self._reader.read(_READ)
            except TimeoutError:
                waited += 1
                if waited > _UNANSWERED:
                    return
                self._protocol.send_ping(b"")
                await self._flush()
                continue
            if not data:
                return
            waited = 0
            self._protocol.receive_data(data)
            await self._flush()  # pongs, and the answer to a close or a fault
            for event in self._protocol.events_received():
                if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                    parts.append(bytes(event.data))
                    if event.fin:
                        yield b"".join(parts).decode("utf-8", "replace")
                        parts.clear()

    async def send(self, data: bytes) -> None:
        """Send output of the terminal; TimeoutError if the viewer does not take it."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(data)
            await self._flush()

    async def tell(self, text: str) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(text.encode())
            await self._flush()

    async def close(self, code: int, sentence: str) -> None:
        """End the connection with a reason that the page shows."""
        try:
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(code, sentence.encode()[:_MOST_REASON].decode("utf-8", "ignore"))
                await self._flush()
        except (OSError, TimeoutError, ProtocolError):
            self.abort()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
        await self._drain(self._writer)
