"""With `claims.auto` the engine also acts: whenever agents come, go, move or end, their claims are brought in line.

A source by its looks, but it uses an action (`actions/claiming/automatic.py`, which decides), so it lives up here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from imi_monitor.actions.claiming import automatic
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.sources.source import ReadingReceiver
from imi_monitor.sources.timers import PollTimer

_AGAIN = 10.0  # seconds: what was held by another may be free by now


class AutoClaim:
    """`saw` is told of every look at the agents."""

    name = "claims.auto"

    def __init__(self, database: str) -> None:
        self._database = database
        self._agents: Sequence[Agent] = ()
        self._told: object = None
        self._pace = PollTimer(_AGAIN)

    def saw(self, agents: Sequence[Agent]) -> None:
        self._agents = agents
        told = tuple((one.id, one.key, one.pid, one.truth.ended, one.facts.ended_at) for one in agents)
        if told != self._told:
            self._told = told
            self._pace.poke()

    async def run(self, board: ReadingReceiver) -> None:
        while True:
            await self._pace.next()
            if self._told is None:
                continue  # nobody has looked yet: that is no reason to think that all are gone
            try:
                await asyncio.to_thread(automatic.follow, self._database, self._agents)
            except (ImiError, OSError) as error:
                self._pace.failed()
                board.fail(self.name, "claiming for agents", str(error))
            else:
                self._pace.worked()
                board.well(self.name)
