"""Keeps the names of the multiplexer's tabs equal to the states on the screen, in a thread."""

from __future__ import annotations

import asyncio

from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.state_words import DONE
from imi_monitor.mux.tab_states import TabStates
from imi_monitor.ui import agent_cells, glyphs
from imi_monitor.ui.snapshot_facts import SnapshotFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

_PAUSE = 1.0  # seconds between two changes of names, each of which is a process
_LONGEST_PAUSE = 60.0  # after refusals, each of which doubles it


class TabSigns:
    """Asks the multiplexer only when a state has changed."""

    def __init__(self, app: ImiApp, states: TabStates, pause: float = _PAUSE) -> None:
        self._app = app
        self._states = states
        self._pause = pause
        self._wanted: dict[str, str] = {}
        self._shown: dict[str, str] | None = None
        self._busy = False

    def update(self, snapshot: Snapshot) -> None:
        self._wanted = self._signs(snapshot)
        self._start()

    def _start(self) -> None:
        if self._wanted != self._shown and not self._busy:
            self._busy = True
            self._app.run_worker(self._show(), group="tabs")

    def show_again(self) -> None:
        """A tab may have been opened."""
        self._shown = None
        self._start()

    async def _show(self) -> None:
        pause = self._pause
        try:
            while self._wanted != self._shown:
                wanted = self._shown = self._wanted
                if await asyncio.to_thread(self._states.show, wanted):
                    pause = self._pause
                else:
                    self._shown, pause = None, min(2 * pause, _LONGEST_PAUSE)
                await asyncio.sleep(pause)
        finally:
            self._busy = False

    def restore(self) -> None:
        """After the app has ended; blocks."""
        self._states.restore()

    def _signs(self, snapshot: Snapshot) -> dict[str, str]:
        """Return the sign of each worktree; of two with one name, that of the one with an agent."""
        from imi_monitor.model import attention, times

        facts = SnapshotFacts(snapshot, times.now())
        found: dict[str, str] = {}
        for tree in snapshot.worktrees:
            standing = next((attention.standing(agent) for agent in facts.agents_in(tree)), DONE)
            sign = "" if standing == DONE else agent_cells.SIGNS[standing][0]
            if self._app.preferences.ascii_only:
                sign = glyphs.to_ascii(sign)
            found[tree.key.worktree] = sign or found.get(tree.key.worktree, "")
        return found
