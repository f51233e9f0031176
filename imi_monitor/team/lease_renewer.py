"""Renews the claims that this home's agents have in other homes, one question for all of one home, and ends those that are over.

A claim whose holder is proven dead is released. One that its home does not renew any more is over at the moment until which it
was certain; whether its home still has it is asked for one more lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from imi_monitor import host
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.links import retry_loop
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.question_channel import QuestionChannel
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model import team_question
from imi_monitor.model.team_question import HeldClaim, HomeQuestion
from imi_monitor.store import remote_claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.links.redis_url import RedisAddress
    from imi_monitor.store.async_registry import AsyncRegistry
    from imi_monitor.store.remote_claims import RemoteClaimRow

_TICK_SECONDS = 1.0
_MOST = 50  # claims in one question


class LeaseRenewer:
    """Renews for the home `ident`; `report` gets a fault as a sentence."""

    def __init__(
        self,
        registry: AsyncRegistry,
        address: RedisAddress,
        keys: TeamKeys,
        ident: str,
        report: Callable[[str | None], None],
    ) -> None:
        self._registry, self._ident, self._report, self._address = registry, ident, report, address
        self._link, self._blocking = RedisLink(address), RedisLink(address, blocking=True)
        self._channel = QuestionChannel(self._link, self._blocking, keys)

    async def run(self) -> None:
        async def renew_and_wait() -> None:
            await self._renew_due()
            await asyncio.sleep(_TICK_SECONDS)

        try:
            await retry_loop.repeat(renew_and_wait, self._address, self._report)
        finally:
            await self._link.close()
            await self._blocking.close()

    async def _renew_due(self) -> None:
        claims = await self._registry.read(remote_claims.list_open)
        over = [one for one in claims if _is_over(one)]
        for one in over:
            await self._registry.write(remote_claims.end, one, "silent")
        kept = [one for one in claims if one not in over]
        gone = [one for one in kept if one.is_abandoned]
        due = [one for one in kept if one not in gone and _is_due(one)]
        for act, wanted in ((team_question.RELEASE, gone), (team_question.RENEW, due)):
            for home in dict.fromkeys(one.home for one in wanted):
                of_home = [one for one in wanted if one.home == home][:_MOST]
                await self._ask(home, act, of_home)

    async def _ask(self, home: str, act: str, claims: Sequence[RemoteClaimRow]) -> None:
        held = tuple(HeldClaim(one.repo, one.worktree_name, one.epoch) for one in claims)
        read = await self._channel.ask(home, HomeQuestion(new_id(), act, self._ident, claims=held))
        if read is None:
            return
        for claim, result in zip(claims, read.answer.results, strict=False):
            if result == "renewed":
                good_until = read.since + claim.seconds - team_question.margin(claim.seconds)
                await self._registry.write(remote_claims.extend, claim, good_until)
            elif result in ("lost", "released"):
                await self._registry.write(remote_claims.end, claim, result)


def _is_due(claim: RemoteClaimRow) -> bool:
    """Whether a third of the lease is over since the last renewal."""
    certain = claim.seconds - team_question.margin(claim.seconds)
    return claim.seconds_left < certain - team_question.renewal(claim.seconds)


def _is_over(claim: RemoteClaimRow) -> bool:
    """Whether its home has ended the lease long ago."""
    return host.is_other_boot(claim.boot) is False and host.uptime() - claim.good_until > claim.seconds
