"""Every agent at one moment, without an engine: for `imi agents`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.agent_names import named
from imi_monitor.model.snapshot import ClaimState
from imi_monitor.sources.agents import readers
from imi_monitor.sources.agents.joining import as_agent
from imi_monitor.sources.agents.looks import Looks
from imi_monitor.sources.source import RosterEntry

_PATIENCE = 1.0  # seconds for what lies further back in long records


def look(entries: Sequence[RosterEntry], claims: Sequence[ClaimState]) -> tuple[tuple[Agent, ...], list[str]]:
    """(the agents, what could not be read)."""
    places = {os.path.realpath(entry.path): entry.key for entry in entries if not entry.missing}
    looks = Looks(readers.all_readers(), readers.scan(), os.environ)
    look = looks.look(None, tuple(places))
    end = time.monotonic() + _PATIENCE
    while looks.unread and time.monotonic() < end:
        look = looks.look(frozenset(), tuple(places))
    now = times.now()
    agents = [as_agent(one, places.get(root or ""), now).agent for one, root in look.found]
    return named(agents, {claim.key: claim for claim in claims}), look.broken
