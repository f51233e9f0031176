"""One reading of what all homes of the team publish, for the command line."""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.links import redis_url
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.home_states import HomeStates, PublishedRows
from imi_monitor.store import db, registry_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from imi_monitor.actions.context import Context
    from imi_monitor.links.redis_link import RedisLink
    from imi_monitor.model.snapshot import HomeState

    T = TypeVar("T")


def read_homes(context: Context) -> tuple[HomeState, ...]:
    """The homes of the team, this one first; Refused without a team or when its Redis cannot be used."""
    from imi_monitor.links.presence_keys import TeamKeys

    keys = TeamKeys(context.settings.text("team.name"))

    async def read(link: RedisLink) -> dict[str, PublishedRows]:
        from imi_monitor.links.presence_reader import PresenceReader

        reader = PresenceReader(link, link, keys)
        await reader.read_all()
        return {one.ident: PublishedRows(one.description, one.fields, one.age) for one in reader.homes.values()}

    found = with_redis(context, read)
    return HomeStates(own_home(context), host.hostname(), with_own_rows=True).states(found, found.keys())


def own_home(context: Context) -> str:
    """The id of this machine's home; empty while its registry cannot be used."""
    if context.registry_problem is not None:
        return ""
    return db.read(context.connection, registry_identity.registry_id) or ""


def with_redis(context: Context, act: Callable[[RedisLink], Awaitable[T]]) -> T:
    """The result of `act` on the team's Redis; its faults are one sentence."""
    url = context.settings.text("servers.redis_url")
    if not url:
        raise Refused(
            "this home has no team: set servers.redis_url in the config file, or IMI_REDIS_URL", code="no-team"
        )
    address = redis_url.parse(url, insecure=context.settings.flag("team.insecure"))
    import asyncio

    from imi_monitor.links import redis_link

    async def run() -> T:
        link = redis_link.RedisLink(address)
        try:
            await link.check_server()
            return await act(link)
        finally:
            await link.close()

    try:
        return asyncio.run(run())
    except redis_link.FAULTS as error:
        raise ImiError(
            f"the team's Redis {address.shown} {redis_link.fault_of(error)}; this home works without it",
            code="team-unreachable",
        ) from error
