"""The context of the dashboard's own terminal: offered again after a crash or reboot, and recorded every two minutes."""

from __future__ import annotations

import asyncio

from imi_monitor.model.errors import ImiError
from imi_monitor.mux import multiplexer, terminal_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

_SAVE_SECONDS = 120.0


class TerminalContexts:
    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._saving = False

    def start(self) -> None:
        """Look for an earlier context, and record this one from now on; without a terminal nothing happens."""
        if self._app.read_only or terminal_place.find() is None:
            return
        self._app.run_worker(self._offer(), group="context")
        if multiplexer.current():
            self._app.set_interval(_SAVE_SECONDS, self._save)

    async def _offer(self) -> None:
        ident = await asyncio.to_thread(self._find_earlier)
        if ident is not None and len(self._app.screen_stack) == 1:
            self._app.action_commands.open("context-resume", values={"id": ident})

    def _find_earlier(self) -> str | None:
        """The context that this terminal can continue."""
        from imi_monitor.actions.notes import terminal_context
        from imi_monitor.store import db

        place = terminal_place.find()
        if place is None:
            return None
        try:
            with self._app.open_context(None) as context:
                if context.registry_problem is not None:
                    return None
                row = db.read(context.connection, terminal_context.offered, place, context.cwd)
        except ImiError:
            return None  # the registry's own badge reports it
        return row.id if row is not None else None

    def _save(self) -> None:
        if not self._saving:
            self._saving = True
            self._app.run_worker(self._save_now(), group="context-saving")

    async def _save_now(self) -> None:
        try:
            await asyncio.to_thread(self._record)
        finally:
            self._saving = False

    def _record(self) -> None:
        from imi_monitor.actions.notes import terminal_context

        place = terminal_place.find()
        try:
            with self._app.open_context(None) as context:
                if place is not None and context.registry_problem is None:
                    terminal_context.save(context, place)
        except ImiError:
            return  # the multiplexer or the registry does not answer now: the next time does
