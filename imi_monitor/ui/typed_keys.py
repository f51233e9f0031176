"""Keys that are typed faster than the dashboard handles them: each is delivered when the one before has had its effect.

Textual gives a key to the widget that has the focus when the key arrives. Of a burst `n`, `p`, `a`, `y` that is the list for
all of them, because the dialog that `n` opens has no focus yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.widgets import Input

TypedEvent = events.Key | events.Paste
Deliver = Callable[[events.Event], Awaitable[None]]
_LONGEST_WAIT = 2.0  # seconds for one key: a widget that is removed meanwhile may drop what it was sent
_MOST_SCREENS = 4  # that open and close after one key


class TypedKeys:
    """Holds back keys while an earlier one is being handled. The first one of a burst is delivered without delay."""

    def __init__(self, app: App[Any], deliver: Deliver) -> None:
        self._app = app
        self._deliver = deliver  # runs in the app's message loop
        self._held: deque[TypedEvent] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a key is still being handled."""
        return self._task is not None and not self._task.done()

    async def deliver_in_order(self, event: TypedEvent) -> None:
        """Deliver the event now, or behind the ones that wait."""
        if self.busy:
            self._held.append(event)
            return
        before = self._app.screen, self._app.focused
        await self._deliver(event)
        self._task = asyncio.create_task(self._follow(event, *before))

    async def _follow(self, event: TypedEvent, screen: DOMNode, focused: DOMNode | None) -> None:
        await self._wait_for_effect(event, screen, focused)
        while self._held:
            event, screen, focused = self._held.popleft(), self._app.screen, self._app.focused
            if not self._app.call_later(self._deliver, event):
                return
            await self._pass(self._app)
            await self._wait_for_effect(event, screen, focused)

    async def _wait_for_effect(self, event: TypedEvent, screen: DOMNode, focused: DOMNode | None) -> None:
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                for _ in range(2):  # the key, then the messages it leads to
                    for node in (focused or screen).ancestors_with_self:
                        await self._pass(node)
                if isinstance(focused, Input) and (isinstance(event, events.Paste) or event.is_printable):
                    return  # it is typed text
                for _ in range(_MOST_SCREENS):
                    before = self._app.screen
                    await self._pass(self._app, refreshed=True)  # and what others do after it
                    await self._pass(self._app)  # which moves the focus
                    if self._app.screen is before:
                        return
        except TimeoutError:
            return

    @staticmethod
    async def _pass(pump: MessagePump, *, refreshed: bool = False) -> None:
        """Wait until the pump has handled the messages it has now, and is painted if wanted."""
        passed = asyncio.Event()
        if (pump.call_after_refresh if refreshed else pump.call_later)(passed.set):
            await passed.wait()
