"""One connection to a RabbitMQ. Imports aio-pika (0.1 s), so import it only where one is set.

aio-pika's own reconnecting is not used: it hides faults, and imi waits between attempts itself. Its loggers write
tracebacks on the terminal, so they are silenced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import aio_pika
from aio_pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelClosed,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.links.server_url import ServerAddress
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
for _name in ("aio_pika", "aiormq"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


class BrokerUnfit(Exception):
    """The broker answers, but what imi needs is not there or not allowed."""


# ChannelInvalidStateError is a RuntimeError
FAULTS: tuple[type[Exception], ...] = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, BrokerUnfit)


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One message: its id, routing key, and what it holds."""

    id: str
    type: str
    key: str
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One message that was received. `tag` acknowledges it."""

    id: str | None
    type: str | None
    key: str
    app: str | None
    body: bytes
    redelivered: bool
    tag: Any


class AmqpLink:
    """Publishes with confirms, and consumes. Each method may raise one of FAULTS; then `close`, and open a new link."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._connection: Any = None
        self._channel: Any = None
        self._exchange: Any = None

    async def open(self, exchange: str) -> None:
        """Connect, and find the topic exchange; one that is missing is made, durable."""
        async with asyncio.timeout(CONNECT_SECONDS * 2):
            self._connection = await aio_pika.connect(self._address.url, timeout=CONNECT_SECONDS, heartbeat=10)
            self._channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
            try:
                self._exchange = await self._channel.get_exchange(exchange, ensure=True)
            except ChannelNotFoundEntity:  # the broker has closed the channel
                self._channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
                self._exchange = await self._channel.declare_exchange(exchange, "topic", durable=True)

    async def publish(self, messages: Sequence[OutgoingMessage]) -> dict[str, str]:
        """Publish all, persistent; returns, once the broker has them, why it gave some of them back, by id."""
        done = await asyncio.gather(*(self._publish(one) for one in messages), return_exceptions=True)
        refused: dict[str, str] = {}
        for one, outcome in zip(messages, done, strict=True):
            if isinstance(outcome, PublishError):
                refused[one.id] = f"no queue takes {one.key}"
            elif isinstance(outcome, asyncio.CancelledError):  # aiormq cancels what waits when the connection is lost
                raise ConnectionResetError("the connection was lost")
            elif isinstance(outcome, BaseException):
                raise outcome
        return refused

    async def _publish(self, one: OutgoingMessage) -> None:
        message = aio_pika.Message(
            one.body,
            content_type=one.content_type,
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=one.id,
            type=one.type,
            app_id="imi",
        )
        await self._exchange.publish(message, one.key, mandatory=True, timeout=ANSWER_SECONDS)

    async def bind_own_queue(self, keys: Sequence[str]) -> Any:
        """A queue of this connection alone, which ends with it."""
        queue = await self._channel.declare_queue(exclusive=True, auto_delete=True, timeout=ANSWER_SECONDS)
        for key in keys:
            await queue.bind(self._exchange, key, timeout=ANSWER_SECONDS)
        return queue

    async def bind_queue(self, name: str, keys: Sequence[str], at_once: int) -> Any:
        """A durable queue that several homes share; each gets so many messages that it has not acknowledged."""
        await self._channel.set_qos(prefetch_count=at_once)
        queue = await self._channel.declare_queue(name, durable=True, timeout=ANSWER_SECONDS)
        for key in keys:
            await queue.bind(self._exchange, key, timeout=ANSWER_SECONDS)
        return queue

    async def messages(self, queue: Any) -> AsyncIterator[IncomingMessage]:
        """The messages of a queue as they come; raises when the connection is lost."""
        box: asyncio.Queue[Any] = asyncio.Queue()
        await queue.consume(box.put, timeout=ANSWER_SECONDS)
        while True:
            try:
                async with asyncio.timeout(1.0):
                    one = await box.get()
            except TimeoutError:
                if self._connection.is_closed or self._channel.is_closed:
                    raise ConnectionResetError("the connection was lost") from None
                continue
            yield IncomingMessage(
                one.message_id, one.type, one.routing_key or "", one.app_id, one.body, bool(one.redelivered), one
            )

    async def acknowledge(self, one: IncomingMessage) -> None:
        await one.tag.ack()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAULTS):
                async with asyncio.timeout(2.0):
                    await connection.close()


def fault_of(error: Exception) -> str:
    """The end of a sentence that begins with the broker: `cannot be reached`. It names no password."""
    text = safe(redact(str(error)), 200)
    if isinstance(error, AuthenticationError | ProbableAuthenticationError):
        return "refuses the user or password"
    if (tls := _tls_fault_of(error)) is not None:
        return tls
    if isinstance(error, ChannelPreconditionFailed):
        return f"has an exchange or queue of that name with other settings: {text}"
    if isinstance(error, DeliveryError):
        return "takes no more messages now (a queue is full)"
    if isinstance(error, TimeoutError):
        return f"does not answer within {CONNECT_SECONDS:g} s (slow, out of disk or memory, or a TLS port?)"
    if isinstance(error, BrokerUnfit):
        return text
    if isinstance(error, ChannelClosed) and "ACCESS_REFUSED" in text:
        return f"does not allow what imi needs: {text}"
    if isinstance(error, OSError):
        return "cannot be reached"
    return f"closed the connection: {text or type(error).__name__}"


def _tls_fault_of(error: Exception) -> str | None:
    """Return what is wrong with the encryption, if that is the cause; aiormq raises an error of its own from it."""
    import ssl

    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"has a certificate that is not trusted ({safe(cause.verify_message, 100)}): name its CA by ?cafile=FILE"
    if isinstance(cause, ssl.SSLError):
        return f"does not speak TLS as it should ({safe(cause.reason or 'an error', 60)}): is this its TLS port?"
    if isinstance(cause, FileNotFoundError):
        return "cannot be verified: a file of certificates that its address names does not exist"
    return None
