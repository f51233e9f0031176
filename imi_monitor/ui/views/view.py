"""The base of views: a full screen about one thing, which gets every snapshot like a panel and is left with `esc`.

What a snapshot does not hold (a diff, a log) a view reads itself in a thread, through the action the command line uses; what
cannot be read becomes a sentence on the screen. A view changes nothing: that is done by actions and their dialogs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content

from imi_monitor import actions
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.model.contained_names import in_git
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.ui import view_keys
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.textual_internals import DismissedOnce, ReadyScreen, is_alive
from imi_monitor.ui.widgets.key_bar import KeyBar
from imi_monitor.ui.widgets.parts_line import PartsLine

OpenContextAt = Callable[[str | None], Context]
"""Opens a context for the worktree at a path (None: where the dashboard was started), to be used in a thread."""


_PAINTED_WITHIN = 0.1  # seconds, whatever a view still waits for


class View(DismissedOnce[None], ReadyScreen[None]):
    """Subclasses declare the view, make its widgets in `body` and draw them in `show`."""

    word = ""  # its name in the command table and in `[ui.keymap]`
    group = "Views"
    opening_key = ""  # the key that opens it from anywhere
    key_bar = 0  # as in Action
    label = ""
    help = ""  # lower case, no full stop
    requires: tuple[str, ...] = ()  # as in Action
    needs_worktree = False
    agent_id: str | None = None  # the agent the view shows, or the one under its cursor

    # a binding for something that is also a command has that command's word as id, so that `[ui.keymap]` changes both
    # and its tooltip says what the key does: `?` lists it
    BINDINGS = [Binding("escape,q", "leave", "Back", tooltip="leave this view")]

    def __init__(self, key: Key | None, open_context: OpenContextAt) -> None:
        super().__init__()
        self.key = key
        self.open_context = open_context
        self.snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield PartsLine(id="view-title")
        yield from self.body()
        yield KeyBar()

    def on_mount(self) -> None:
        self.set_timer(_PAINTED_WITHIN, self.paint)
        self.bindings_updated_signal.subscribe(self, lambda _: self._draw_keys())

    def on_resize(self) -> None:
        self._draw_keys()

    def _draw_keys(self) -> None:
        if self.is_current:
            for bar in self.query(KeyBar):
                bar.show(view_keys.hints(self), self.app.size.width)

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        """Draw a new snapshot, or the same one a second later; keep the cursor's place."""

    @property
    def worktree(self) -> Worktree | None:
        return self.snapshot.worktree(self.key) if self.snapshot and self.key else None

    def show_snapshot(self, snapshot: Snapshot, now: datetime) -> None:
        """The app calls this with every snapshot and every second."""
        self.snapshot = snapshot
        if self.is_mounted and is_alive(self):  # `is_mounted` stays true while the screen is removed
            self.show(snapshot, now)
            if self.is_complete:
                self.call_after_refresh(self.paint)

    @property
    def is_complete(self) -> bool:
        """Whether a first picture shows something; one that waits for a reading calls `paint` when it has it."""
        return True

    def set_title(self, title: Content) -> None:
        self.query_one("#view-title", PartsLine).update(title, layout=False)

    def action_leave(self) -> None:
        self.dismiss(None)


def folder_in_repository(snapshot: Snapshot | None, key: Key | None) -> str | None:
    """An existing folder of the worktree's repository: its own, else that of another worktree; none for what is in none."""
    trees = snapshot.worktrees if snapshot is not None and key is not None and in_git(key.repo) else ()
    existing = [tree for tree in trees if key and tree.key.repo == key.repo and not tree.missing]
    own = next((tree for tree in existing if tree.key == key), None)
    return own.path if own else existing[0].path if existing else None


def action_data(
    open_context: OpenContextAt, where: str | None, verb: str, values: dict[str, object], stop: ShouldStop
) -> dict[str, Any]:
    """The data of `imi VERB … --json`, for an action that changes nothing."""
    action = actions.find(verb)
    if action is None or action.changes:
        raise ImiError(
            f"the action {verb} cannot be read: it does not exist or changes something", code="not-a-question"
        )
    with open_context(where) as context:
        context.cancelled, context.needs_registry = stop, action.needs_registry
        return action.run(context, Request(verb, dict(values))).data
