"""Dialogs alone in an app of their own: no engine, no repository, so that a test takes a fraction of a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Button, Input, Static

from imi_monitor.actions.action import Action, Argument, Outcome, Preview, Request
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from tests.ui.pilot_kit import wait_until

Reply = Preview | ImiError | list[str]


class DialogAction(Action):
    """An action with the attributes that a test gives it. It records the values of its previews and runs."""

    words = ("try",)
    label = "Try"
    help = "try one thing"
    arguments: tuple[Argument, ...] = (Argument("name", "which worktree"),)
    recovers = False

    def __init__(self, **attributes: Any) -> None:
        self.previewed: list[dict[str, object]] = []
        self.ran: list[dict[str, object]] = []
        self.contexts: list[Context] = []
        self.reply: Callable[[Request], Reply] = lambda _: ["tries it"]
        self.result: Callable[[Context, Request], Outcome] = lambda _context, _request: Outcome(["tried"])
        vars(self).update(attributes)

    def preview(self, context: Context, request: Request) -> Preview:
        self.previewed.append(dict(request.values))
        self.contexts.append(context)
        found = self.reply(request)
        if isinstance(found, ImiError):
            return Preview([], found)
        return found if isinstance(found, Preview) else Preview(found)

    def run(self, context: Context, request: Request) -> Outcome:
        self.ran.append(dict(request.values))
        self.contexts.append(context)
        return self.result(context, request)


class Overridable(DialogAction):
    """Refused because of work, until the name is typed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{"reply": lambda _: Refused("there is work in it", code="work"), **attributes})

    def override(self, refusal: ImiError, name: str) -> dict[str, object] | None:
        return {"force": name} if refusal.code == "work" else None


class DialogApp(App[None]):
    """Shows one dialog; `closed` holds what it returned."""

    def __init__(self, dialog: ActionDialog) -> None:
        super().__init__()
        self.dialog = dialog
        self.closed: list[Outcome | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.dialog, self.closed.append)

    @property
    def said(self) -> str:
        """The text about what would happen or has happened; empty once the dialog is closed."""
        return "".join(str(one.content) for one in self.dialog.query("#said").results(Static))

    @property
    def override(self) -> Input:
        return self.dialog.query_one("#override", Input)

    def button(self, name: str) -> Button:
        return self.dialog.query_one(f"#{name}", Button)

    @property
    def focus(self) -> str | None:
        return self.focused.id if self.focused is not None else None

    @property
    def toasts(self) -> list[str]:
        return [str(one.message) for one in self._notifications]


Play = Callable[[DialogApp, Pilot[None]], Awaitable[None]]


def open_context() -> Context:
    return Context("/")


def show_dialog(
    action: Action,
    play: Play,
    *,
    values: dict[str, object] | None = None,
    names: Sequence[Any] = (),
    size: tuple[int, int] = (80, 40),
    wait: bool = True,
    **options: Any,
) -> None:
    """Open the dialog on the worktree feat-x and play; with `wait` first until its preview is shown."""
    given = {"name": "feat-x"} if values is None and not names else values or {}

    run_dialog(ActionDialog(action, given, options.pop("opens", open_context), names, **options), play, size, wait=wait)


def run_dialog(dialog: ActionDialog, play: Play, size: tuple[int, int] = (80, 40), *, wait: bool = True) -> None:
    async def main() -> None:
        app = DialogApp(dialog)
        async with app.run_test(size=size, notifications=True) as pilot:
            await wait_until(pilot, lambda: dialog.is_mounted and app.focused is not None and dialog.query("#said"))
            if wait:
                await wait_until(pilot, lambda: "checking…" not in app.said)
                await pilot.pause()  # what the preview changes is drawn
            await play(app, pilot)

    asyncio.run(main())
