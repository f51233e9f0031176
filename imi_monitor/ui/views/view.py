"""What all views share: a whole screen about one thing, fed with every snapshot like a panel, left with `esc`.

A view reads more than a snapshot holds (a diff, a log) itself, in a worker, through `surroundings`; what cannot be read is a
sentence on the screen. It never acts: acts are actions, and have their dialog.

How views ask what a snapshot does not hold: through the action that the command line would use, in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from imi_monitor import actions
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.textual_internals import is_alive

Surroundings = Callable[[str | None], Context]
"""A context for the worktree at a path (None: where the dashboard was started). Use it as a context manager, in a thread."""


class View(Screen[None]):
    """Subclasses set the class attributes, give the widgets of `body`, and draw in `show`."""

    word = ""  # its name in the command table and in `[ui.keymap]`
    group = "Views"
    opening_key = ""  # the key that opens it from anywhere
    key_bar = 0  # as in Action
    label = ""
    help = ""  # lower case, no full stop
    requires: tuple[str, ...] = ()  # as in Action
    needs_worktree = False
    agent_id: str | None = None  # the agent that it is about, or that is chosen in it

    # a binding that does what a command does has that command's word as its id: then `[ui.keymap]` holds for it, too
    BINDINGS = [("escape,q", "leave", "Back")]

    def __init__(self, key: Key | None, surroundings: Surroundings) -> None:
        super().__init__()
        self.key = key
        self.surroundings = surroundings
        self.snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="view-title")
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        """The world moved on (or a second passed). Keep the reader's place; paint only what looks different."""

    @property
    def worktree(self) -> Worktree | None:
        return self.snapshot.worktree(self.key) if self.snapshot and self.key else None

    def take(self, snapshot: Snapshot, now: datetime) -> None:
        """Called by the app with every snapshot and every second."""
        self.snapshot = snapshot
        if self.is_mounted and is_alive(self):  # `is_mounted` stays true while it is taken down
            self.show(snapshot, now)

    def set_title(self, title: Content) -> None:
        self.query_one("#view-title", Static).update(title, layout=False)

    def action_leave(self) -> None:
        self.dismiss(None)


def folder_in_repository(snapshot: Snapshot | None, key: Key | None) -> str | None:
    """A folder of the worktree's repository that exists: its own, else that of another worktree of the same repository."""
    trees = snapshot.worktrees if snapshot is not None and key is not None else ()
    there = [tree for tree in trees if key and tree.key.repo == key.repo and not tree.missing]
    own = next((tree for tree in there if tree.key == key), None)
    return own.path if own else there[0].path if there else None


def action_data(
    surroundings: Surroundings, where: str | None, verb: str, values: dict[str, object], stop: ShouldStop
) -> dict[str, Any]:
    """What `imi VERB …` tells scripts. Only for actions that change nothing."""
    action = actions.find(verb)
    if action is None or action.changes:
        raise ImiError(f"{verb} is nothing that can be looked at", code="not-a-question")
    with surroundings(where) as context:
        context.cancelled = stop
        return action.run(context, Request(verb, dict(values))).data
