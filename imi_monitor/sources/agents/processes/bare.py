"""Agent programs of which nothing but the process is known: they are there, and nothing tells what they do.

Every agent has such a sighting; it is joined by its pid to the session that another reader knows. One that stays alone
is shown as unknown, never as idle: it may wait for an answer in a dialog that it opens before it writes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.agent import UNKNOWN, Evidence
from imi_monitor.sources.agents.base import AgentProcess, Reader, Sighting, World


def make() -> Reader:
    return Bare()


class Bare:
    """Says the very same of a process for as long as that is as it was."""

    cli = "processes"

    def __init__(self) -> None:
        self._known: dict[AgentProcess, Sighting] = {}

    def folders(self, world: World) -> Sequence[str]:
        return ()

    def look(self, world: World, touched: frozenset[str] | None) -> Sequence[Sighting]:
        before, here = self._known, [one for one in world.processes if world.root_of_real(one.cwd)]
        if here != list(before):
            self._known = {one: before.get(one) or _sighting(one) for one in here}
        return list(self._known.values())


def _sighting(one: AgentProcess) -> Sighting:
    began = times.stamp(datetime.fromtimestamp(one.began_at, UTC))
    what = "suspended (ctrl-z, SIGSTOP): nothing goes on until it is continued" if one.suspended else "there"
    says = f"a {one.cli} process is {what} (pid {one.pid}); nothing tells what it does"
    return Sighting(
        cli=one.cli,
        session=None,
        cwd=one.cwd,
        pid=one.pid,
        pid_started=one.started,
        alive=True,
        evidence=(Evidence(source="process", state=UNKNOWN, at=began, says=says, standing=True),),
    )
