"""One dashboard of `imi web` with the viewer that looks at it now, if there is one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from imi_monitor.cli.web.browser_terminal import BrowserTerminal
from imi_monitor.cli.web.viewer_connection import ViewerConnection

ENDED, ELSEWHERE = 4000, 4002  # close codes that the page does not try again
UNSEEN = "Ended, as no page showed it."


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Seconds. `idle`: without a key, 0 for ever; `unseen`: without a viewer; `kill`: for the end of a dashboard."""

    idle: float
    unseen: float = 60.0
    kill: float = 3.0


class BrowserSession:
    """Lives from `start` until its dashboard ends, it was left alone for too long, or `end`."""

    def __init__(
        self, ident: str, argv: Sequence[str], limits: SessionLimits, forget: Callable[[BrowserSession], object]
    ) -> None:
        self.id = ident
        self.viewer: ViewerConnection | None = None
        self._argv = argv
        self._limits = limits
        self._forget = forget
        self.terminal: BrowserTerminal | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_key = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_ending = False
        self._gone = asyncio.Event()

    async def start(self, width: int, height: int) -> None:
        """Start the dashboard; OSError if the system refuses."""
        self.terminal = await BrowserTerminal.start(self._argv, width, height)
        self._last_key = self._now()
        self._in_background(self._forward(self.terminal))

    async def show_to(self, viewer: ViewerConnection, width: int, height: int) -> None:
        """Show the dashboard to this viewer, instead of another one, until the connection is over."""
        before, self.viewer = self.viewer, viewer
        if before is not None:
            await before.close(ELSEWHERE, "This dashboard is shown in another tab.")
        self._set_timer()
        assert self.terminal is not None
        self.terminal.resize(width, height)
        self.terminal.repaint()
        try:
            async for message in viewer.messages():
                if self._receive(message, self.terminal):
                    self._last_key = self._now()
        finally:
            if self.viewer is viewer:
                self.viewer = None
                self._set_timer()

    def _receive(self, message: str, terminal: BrowserTerminal) -> bool:
        """Carry out a message; True for a key. What this page does not send is ignored."""
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            kind, value = json.loads(message)
            if kind == "stdin" and isinstance(value, str):
                terminal.write(value.encode("utf-8", "replace"))
                return True
            if kind == "resize":
                terminal.resize(int(value["width"]), int(value["height"]))
        return False

    async def _forward(self, terminal: BrowserTerminal) -> None:
        """Send all output to the viewer of the moment; without one it is dropped, as a new one gets a new picture."""
        while data := await terminal.read():
            viewer = self.viewer
            if viewer is None:
                continue
            try:
                await viewer.send(data)
            except (OSError, TimeoutError):  # cut, or too slow
                viewer.abort()
        await self.end("The dashboard has ended.")

    # -- end --------------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """End the session after a while without a viewer or without a key."""
        if self._timer is not None:
            self._timer.cancel()
        now = self._now()
        if self.viewer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limits.unseen, self.end_soon)
        elif self._limits.idle:
            left = self._last_key + self._limits.idle - now
            self._timer = asyncio.get_running_loop().call_later(max(left, 0.0), self._check_idle)

    def _check_idle(self) -> None:
        if self._now() - self._last_key >= self._limits.idle:
            self.end_soon(f"Ended after {self._limits.idle / 60:g} minutes without a key.")
        else:
            self._set_timer()

    def end_soon(self, sentence: str = UNSEEN) -> None:
        self._in_background(self.end(sentence))

    async def end(self, sentence: str) -> None:
        """End the dashboard and give the viewer the reason; returns when it is gone."""
        if self.is_ending:
            await self._gone.wait()
            return
        self.is_ending = True
        if self._timer is not None:
            self._timer.cancel()
        if self.viewer is not None:
            await self.viewer.close(ENDED, sentence)
        if self.terminal is not None:
            await self.terminal.end(self._limits.kill)
        self._gone.set()
        self._forget(self)

    def _in_background(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
