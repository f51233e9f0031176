"""What the agents of this home have done today, for the other homes."""

from __future__ import annotations

import time

from imi_monitor.actions.history import stats_action
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model import day_work, times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import DayWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.store.async_registry import AsyncRegistry

_LEAST_PAUSE = 30.0  # seconds between two readings


class TodayFigures:
    """The figures: read again when the registry has changed, at most twice a minute, and when the day is over."""

    def __init__(self, registry: AsyncRegistry) -> None:
        self._registry = registry
        self._figures: tuple[DayWork, ...] = ()
        self._changed = True
        self._read_at = 0.0

    def registry_changed(self) -> None:
        self._changed = True

    async def read(self, identity_of: Callable[[str], str]) -> tuple[DayWork, ...]:
        """The work of the day by the identities of repositories; by name they are known only here."""
        pause = time.monotonic() - self._read_at
        if (self._changed and pause >= _LEAST_PAUSE) or not day_work.is_of_today(self._figures, times.now()):
            self._changed, self._read_at = False, time.monotonic()
            try:
                found = await self._registry.read(stats_action.today)
            except ImiError:
                self._changed = True
                raise
            self._figures = tuple(replace(one, repo=one.repo and identity_of(one.repo)) for one in found)
        return self._figures
