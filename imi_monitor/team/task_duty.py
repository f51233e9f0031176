"""The duty to take tasks: what others publish for any home goes onto the board of one of them.

A task is reserved first, in the team's Redis or in PostgreSQL, so that no two homes have it; then the item is written; then
the broker may forget the message. With RabbitMQ alone a crash between the last two may give it to two homes: the item says so.
Its text is never run and never typed into an agent. With `tasks.start = "auto"` an agent is started on it, within the limits
of runs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from imi_monitor.actions import find
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.links import redis_url, server_url
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.model import task_message
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import count, safe
from imi_monitor.sources.source import ReadingReceiver, SourceContext
from imi_monitor.store import db, item_moves, registry_identity, repositories, task_intake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.config import Settings
    from imi_monitor.links.amqp_link import AmqpLink, IncomingMessage
    from imi_monitor.links.postgres_link import PostgresLink
    from imi_monitor.links.redis_link import RedisLink
    from imi_monitor.store.items import ItemRow

NAME = "tasks"
_AT_ONCE = 4
_RESERVED_SECONDS = 7 * 86400
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class TaskDuty:
    """Takes tasks from the queue while this process has the duties."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._settings = context.settings
        self._home = ""
        self._rejected = 0

    @property
    def wanted(self) -> bool:
        return bool(self._settings.text("servers.amqp_url") and self._settings.text("tasks.queue"))

    async def run(self, receiver: ReadingReceiver) -> None:
        insecure = self._settings.flag("team.insecure")
        try:
            address = server_url.parse_amqp(self._settings.text("servers.amqp_url"), insecure=insecure)
            from imi_monitor.links import amqp_link
        except (ImiError, ImportError):
            return  # the sink of the same server reports it
        pause = _FIRST_PAUSE
        while True:
            link = amqp_link.AmqpLink(address)
            reservations = Reservations(self._settings)
            try:
                home: str | None = await self._context.registry.read(registry_identity.registry_id)
                self._home = home or ""
                await link.open(self._settings.text("servers.amqp_exchange"))
                pause = _FIRST_PAUSE
                await self._take_all(link, reservations, receiver)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                receiver.set_healthy(NAME, "no tasks come in now: the connection was lost")
            except Exception as error:  # noqa: BLE001  whatever a library raises must not stop the dashboard
                why = error.sentence if isinstance(error, ImiError) else type(error).__name__
                receiver.set_healthy(
                    NAME, f"no tasks come in now: {safe(why, 200)}"
                )  # the sinks show the server's state
            finally:
                await link.close()
                await reservations.close()
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _take_all(self, link: AmqpLink, reservations: Reservations, receiver: ReadingReceiver) -> None:
        keys = [*task_message.KEYS, *(f"#.{key}" for key in task_message.KEYS)]
        queue = await link.bind_queue(self._settings.text("tasks.queue"), keys, _AT_ONCE)
        receiver.set_healthy(NAME, None)
        async for message in link.messages(queue):
            item = await self._take(message, reservations)
            await link.acknowledge(message)
            if item is not None and self._settings.text("tasks.start") == "auto":
                await asyncio.to_thread(self._start, item)
            if self._rejected:
                receiver.set_healthy(NAME, f"{count(self._rejected, 'message')} could not be read as tasks")

    async def _take(self, message: IncomingMessage, reservations: Reservations) -> ItemRow | None:
        """Put the task on the board; None if it is none, or not for this home."""
        task = task_message.read_task(message.body, message.key, message.app)
        if task is None:
            self._rejected += 1
            return None
        if task.own:
            return None
        reserved = await reservations.reserve(task.id, self._home)
        if reserved is False:
            return None
        doubled = reserved is None and message.redelivered
        item, new = await self._context.registry.write(task_intake.take, task, maybe_doubled=doubled)
        return item if new else None

    def _start(self, item: ItemRow) -> None:
        """Start an agent on the item, as `imi item start` does; a refusal leaves it on the board, with the reason."""
        try:
            self._start_in_its_repository(item)
        except (ImiError, OSError) as error:
            why = error.sentence if isinstance(error, ImiError) else str(error)
            problem: dict[str, object] = {"error": f"no agent was started by itself: {safe(why, 300)}"}
            with suppress(ImiError), Context(database=self._context.database) as context:
                db.transact(context.connection, item_moves.put, item.id, problem)

    def _start_in_its_repository(self, item: ItemRow) -> None:
        with Context(database=self._context.database) as context:
            place = repositories.list_common_dirs(context.connection).get(item.repo_name or "")
        if place is None:
            raise Refused("it names no repository of this machine", code="no-repository")
        action = find("item start")
        assert action is not None
        with Context(place, database=self._context.database, repo=place) as there:
            action.run(there, Request("item start", {"id": item.id}))


class Reservations:
    """Which home has which task, as all homes of a team see it: in Redis, else in PostgreSQL."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._redis: RedisLink | None = None
        self._postgres: PostgresLink | None = None

    async def reserve(self, task: str, home: str) -> bool | None:
        """Whether this home has the task; None if nothing is shared by which that could be decided."""
        if self._settings.text("servers.redis_url"):
            key = TeamKeys(self._settings.text("team.name")).reservation("task", task)
            return await self._open_redis().reserve(key, home, _RESERVED_SECONDS) == home
        if self._settings.text("servers.postgres_url"):
            return await (await self._open_postgres(home)).reserve(task, home)
        return None

    def _open_redis(self) -> RedisLink:
        if self._redis is None:
            from imi_monitor.links import redis_link

            insecure = self._settings.flag("team.insecure")
            address = redis_url.parse(self._settings.text("servers.redis_url"), insecure=insecure)
            self._redis = redis_link.RedisLink(address)
        return self._redis

    async def _open_postgres(self, home: str) -> PostgresLink:
        if self._postgres is None:
            from imi_monitor.links import postgres_link

            insecure = self._settings.flag("team.insecure")
            address = server_url.parse_postgres(self._settings.text("servers.postgres_url"), insecure=insecure)
            link = postgres_link.PostgresLink(address)
            await link.open(home)
            self._postgres = link
        return self._postgres

    async def close(self) -> None:
        for link in (self._redis, self._postgres):
            if link is not None:
                await link.close()
        self._redis = self._postgres = None
