"""A minimal WebSocket client for a unix socket: text frames out and in, control frames answered or skipped.

Never blocks longer than its timeout. The `websockets` library would fit as well, but importing it costs 33 ms and 6 MB of
the dashboard's 60 MB (measured with websockets 17.4), and it starts a thread per connection.
"""

from __future__ import annotations

import base64
import os
import socket
import struct
import time

_MOST = 16 << 20  # of one message
_TEXT, _CONTINUED, _CLOSE, _PING, _PONG = 1, 0, 8, 9, 10


class ConnectionBroken(OSError):
    """The server is gone, too slow, or speaks another protocol."""


class ConnectionClosed(ConnectionBroken):
    """The server ended the connection properly."""


class WebSocket:
    """A connection. Any error raises `ConnectionBroken` and ends its use."""

    def __init__(self, path: str, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._data = b""
        self._parts = b""
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(path)
            self._shake_hands(time.monotonic() + timeout)
        except (OSError, ValueError) as error:
            self._socket.close()
            raise ConnectionBroken(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor for `select`: readable when a message may have arrived."""
        return self._socket.fileno()

    def __del__(self) -> None:
        self._socket.close()

    def send(self, text: str) -> None:
        self._send_frame(_TEXT, text.encode())

    def receive(self, until: float) -> bytes | None:
        """The next message; None if none came until then (monotonic clock)."""
        while True:
            frame = self._next_frame()
            if frame is None:
                if not self._receive_bytes(until):
                    return None
                continue
            message = self._message(*frame)
            if message is not None:
                return message

    def _shake_hands(self, until: float) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._data:
            if len(self._data) > 1 << 16 or not self._receive_bytes(until):
                raise ConnectionBroken("no answer to the handshake")
        head, self._data = self._data.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n", 1)[0] + b" ":
            raise ConnectionBroken("it does not speak WebSocket")

    def _receive_bytes(self, until: float) -> bool:
        """Receive more bytes; False at the deadline."""
        left = until - time.monotonic()
        try:
            self._socket.settimeout(max(left, 0.0))
            data = self._socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise ConnectionClosed(str(error)) from error
        if not data:
            raise ConnectionClosed("it closed the connection")
        self._data += data
        return True

    def _next_frame(self) -> tuple[int, bool, bytes] | None:
        """One complete frame of the received bytes: its kind, whether it ends its message, its content."""
        if len(self._data) < 2:
            return None
        length, at = self._data[1] & 127, 2
        if self._data[1] & 128:
            raise ConnectionBroken("a server does not mask")
        if length > 125:
            size = 2 if length == 126 else 8
            if len(self._data) < 2 + size:
                return None
            length, at = int.from_bytes(self._data[2 : 2 + size], "big"), 2 + size
        if length > _MOST:
            raise ConnectionBroken("too long a message")
        if len(self._data) < at + length:
            return None
        first, content = self._data[0], self._data[at : at + length]
        self._data = self._data[at + length :]
        return first & 15, bool(first & 128), content

    def _message(self, kind: int, last: bool, content: bytes) -> bytes | None:
        if kind == _CLOSE:
            raise ConnectionClosed("it closed the connection")
        if kind == _PING:
            self._send_frame(_PONG, content)
        if kind not in (_TEXT, _CONTINUED):
            return None
        self._parts = content if kind == _TEXT else self._parts + content
        if len(self._parts) > _MOST:
            raise ConnectionBroken("too long a message")
        return self._parts if last else None

    def _send_frame(self, kind: int, content: bytes) -> None:
        size = len(content)
        length = bytes([128 | size]) if size < 126 else bytes([254]) + struct.pack(">H", size)
        if size > 0xFFFF:
            length = bytes([255]) + struct.pack(">Q", size)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[number % 4] for number, byte in enumerate(content))
        try:
            self._socket.settimeout(0.2)
            self._socket.sendall(bytes([128 | kind]) + length + mask + masked)
        except OSError as error:
            raise ConnectionClosed(str(error)) from error
