"""The registry for the event loop: each call runs one whole store function in aiosqlite's thread.

A transaction spread over several awaits can be cancelled between two of them and then blocks every other program; one
await per statement is also three times slower. So a function travels with its BEGIN and COMMIT: once started, it
commits or rolls back even if its caller is cancelled.

aiosqlite runs statements, not functions. Its public `Connection(connector, …)` accepts any object as the connection:
here one whose `execute` calls a function on the registry's real connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from sqlite3 import Connection
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import aiosqlite

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db
from imi_monitor.store.followed_registry import FollowedRegistry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.lost_registry import FindTraces

P = ParamSpec("P")
T = TypeVar("T")
_JOIN_SECONDS = 1.0


class AsyncRegistry:
    """An open registry. Any number of tasks may share it: their functions run one after the other."""

    def __init__(self, link: aiosqlite.Connection) -> None:
        self._link = link

    async def open(self) -> None:
        """Open the file now, so that its errors are raised here."""
        await self._call(lambda _: None)

    async def write(self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(connection, …)` as one transaction, as `db.transact` runs it."""
        return await self._call(lambda connection: db.transact(connection, work, *args, **kwargs))

    async def write_unsynced(
        self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`work(connection, …)` as `db.transact_unsynced` runs it: a power cut may undo it."""
        return await self._call(lambda connection: db.transact_unsynced(connection, work, *args, **kwargs))

    async def read(self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(connection, …)` on one consistent state, as `db.read` runs it."""
        return await self._call(lambda connection: db.read(connection, work, *args, **kwargs))

    async def settle(self) -> None:
        """Wait until every commit is on disk: what is told to others must not be undone by a power cut."""
        await self._call(db.sync_to_disk)

    async def _call(self, function: Callable[[Connection], T]) -> T:
        """Run the function in the thread. Cancelled before its turn it never starts; later it completes unobserved."""
        call = _Call(function)
        try:
            await self._link.execute_fetchall("", (call,))
        except asyncio.CancelledError:
            call.cancelled = True
            raise
        except ValueError as error:
            raise RegistryError(
                "the registry was closed while it was still in use: start imi again", code="registry-closed"
            ) from error
        return cast(T, call.outcome())


class _Call:
    """A function in the thread's queue, and its result or error."""

    __slots__ = ("_error", "_function", "_result", "cancelled")

    def __init__(self, function: Callable[[Connection], object]) -> None:
        self._function = function
        self._result: object = None
        self._error: BaseException | None = None
        self.cancelled = False

    def run(self, registry: FollowedRegistry) -> None:
        if self.cancelled:
            return
        try:
            self._result = self._function(registry.connection())
        except BaseException as error:  # noqa: BLE001  raised by `outcome` in the caller's task
            registry.handle(error)
            self._error = error

    def outcome(self) -> object:
        if self._error is not None:
            raise self._error
        return self._result


class _CallingConnection:
    """The object that aiosqlite uses as its connection; all methods run in aiosqlite's thread.

    The registry is opened by the first call and not by the connector, because aiosqlite loses a connection whose opening
    is cancelled.
    """

    def __init__(self, registry: FollowedRegistry) -> None:
        self._registry = registry
        self.thread: threading.Thread | None = None
        self.started = threading.Event()

    def start(self) -> Any:
        """The connector."""
        self.thread = threading.current_thread()
        self.started.set()
        return self

    def execute(self, _sql: str, parameters: tuple[_Call]) -> _CallingConnection:
        parameters[0].run(self._registry)
        return self

    def fetchall(self) -> list[Any]:
        return []

    def close(self) -> None:
        self._registry.close()


@asynccontextmanager
async def open_registry(
    path: str, *, create: bool = True, find_traces: FindTraces | None = None, required: bool = True
) -> AsyncIterator[AsyncRegistry]:
    """The registry for an `async with`; closed however it ends, also when cancelled while opening.

    It follows its file: each call uses the one that is there then. If it is not `required`, it need not be usable now.
    """

    def connect(create: bool) -> Connection:
        connection = db.connect(path, create=create, find_traces=find_traces)
        db.spare_ballast(connection)  # leave the ballast to actions: the records of the engine can wait for space
        return connection

    calling = _CallingConnection(FollowedRegistry(path, connect, create=create))
    link = _make_in_daemon_thread(lambda: aiosqlite.Connection(calling.start, iter_chunk_size=64))
    try:
        await link
    except BaseException:  # aiosqlite has stopped its thread; the registry is not open yet
        _join(calling)
        raise
    try:
        registry = AsyncRegistry(link)
        with suppress(*() if required else (RegistryError,)):
            await registry.open()
        yield registry
    finally:
        try:
            await _wait_uncancelled(link.stop())
        finally:
            _join(calling)


def _make_in_daemon_thread(make: Callable[[], aiosqlite.Connection]) -> aiosqlite.Connection:
    """Create the link in a daemon thread, because its thread inherits that.

    A program that ends without leaving `open_registry` must not hang on the thread; SQLite rolls back unfinished
    transactions when the file is opened next.
    """
    made: list[aiosqlite.Connection] = []
    maker = threading.Thread(target=lambda: made.append(make()), daemon=True)
    maker.start()
    maker.join()
    return made[0]


def _join(calling: _CallingConnection) -> None:
    """Wait until the thread, which has nothing left to do, has ended."""
    if calling.started.wait(_JOIN_SECONDS) and calling.thread is not None:
        calling.thread.join(_JOIN_SECONDS)


async def _wait_uncancelled(future: asyncio.Future[None] | None) -> None:
    """Wait for the future even if cancelled meanwhile; the cancellation is raised afterwards."""
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
