"""The registry off the event loop: whole store functions, each in one hop to aiosqlite's thread.

A transaction that is spread over several awaits can be cancelled between two of them and then stays open, shutting
out every other program; one hop per statement is also three times slower. So a function and its BEGIN and COMMIT
travel together: once it has started it finishes or rolls back, whatever happens to the one who asked.

aiosqlite offers no public way to run a function in its thread: `_execute` and `_conn` are its own, the version is
pinned, and a test looks at both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from sqlite3 import Connection
from typing import Concatenate, ParamSpec, TypeVar

import aiosqlite

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db

P = ParamSpec("P")
T = TypeVar("T")
_LAST_WORDS = 1.0


class AsyncRegistry:
    """An open registry. Any number of tasks may share it: their functions run one after the other."""

    def __init__(self, link: aiosqlite.Connection) -> None:
        self._link = link

    async def write(self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(connection, …)` as one transaction, as `db.transact` does it."""
        return await self._hop(partial(db.transact, self._connection(), work, *args, **kwargs))

    async def write_unsynced(
        self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`work(connection, …)` as `db.transact_unsynced` does it: for what a power cut may undo."""
        return await self._hop(partial(db.transact_unsynced, self._connection(), work, *args, **kwargs))

    async def read(self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(connection, …)` on one consistent picture, as `db.read` does it."""
        return await self._hop(partial(db.read, self._connection(), work, *args, **kwargs))

    def _connection(self) -> Connection:
        try:
            return self._link._conn
        except ValueError:
            raise _closed() from None

    async def _hop(self, function: Callable[[], T]) -> T:
        """Run it in the thread. Cancelled before its turn it never starts; later it ends by itself, and quietly."""
        job = _QueuedCall(function)
        try:
            result: T = await self._link._execute(job)  # type: ignore[no-untyped-call]
        except asyncio.CancelledError:
            job.wanted = False
            raise
        except ValueError as error:
            if not self._link._running:
                raise _closed() from error
            raise
        return result


class _QueuedCall:
    """A function in the queue of the thread, and whether anybody still wants it."""

    __slots__ = ("_function", "wanted")

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self.wanted = True

    def __call__(self) -> object:
        return self._function() if self.wanted else None


@asynccontextmanager
async def open_registry(path: str, *, create: bool = True) -> AsyncIterator[AsyncRegistry]:
    """The registry for the time of an `async with`; closed whatever happens, also when cancelled while opening."""
    link = aiosqlite.Connection(partial(db.connect, path, create=create), iter_chunk_size=64)
    # A program that dies without coming to the end of this block must not hang on the thread: SQLite rolls back by
    # itself what is unfinished when the file is opened next.
    link._thread.daemon = True
    try:
        await _uncancelled(_start(link))
        yield AsyncRegistry(link)
    finally:
        if link._thread.is_alive():
            await _close(link)


def _start(link: aiosqlite.Connection) -> asyncio.Future[None]:
    """What awaiting the link does, but with a bare future: a task would be cancelled with all others at the end of
    the loop, and leave a connection that nobody closes."""
    opened = asyncio.get_running_loop().create_future()

    def connect() -> None:
        link._connection = link._connector()  # set in the thread, so that `stop` finds it whenever it comes

    link._thread.start()
    link._tx.put_nowait((opened, connect))
    return opened


async def _close(link: aiosqlite.Connection) -> None:
    """The thread finishes what it has begun, closes, and ends."""
    try:
        await _uncancelled(link.stop())
    finally:
        link._thread.join(_LAST_WORDS)  # it has nothing left to do but to return


async def _uncancelled(future: asyncio.Future[None] | None) -> None:
    """Wait to the end even if cancelled meanwhile; the cancellation goes on afterwards."""
    cancelled = False
    while future is not None and not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            cancelled = True
    error = future.exception() if future is not None else None
    if cancelled:
        raise asyncio.CancelledError
    if error is not None:
        raise error


def _closed() -> RegistryError:
    return RegistryError("the registry was closed while it was still asked: start imi again", code="registry-closed")
