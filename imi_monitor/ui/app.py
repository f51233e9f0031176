"""The dashboard: one pane that shows every worktree live and acts on the selected one.

It never computes a fact and never edits one: snapshots come from the engine, acts go through actions, and the screen changes
when the sources say that the world did.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from imi_monitor import actions, paths
from imi_monitor.actions.base import Action, Outcome
from imi_monitor.actions.context import Context
from imi_monitor.engine import Engine
from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui import cells
from imi_monitor.ui.dialog import ActionDialog, Message
from imi_monitor.ui.guarded import GuardedApp
from imi_monitor.ui.panels import PANELS, Panel
from imi_monitor.ui.panels.worktrees import WorktreesPanel, key_of
from imi_monitor.ui.views import VIEWS, View
from imi_monitor.ui.widgets.lines import Lines

LEAST = (40, 12)
Live = Callable[[], AbstractAsyncContextManager[Engine]]


def keyed_actions() -> list[Action]:
    """The actions that have a key of their own."""
    return [action for action in actions.all_actions() if action.key]


class ImiApp(GuardedApp):
    """Composition root: engine in, panels and keys out."""

    TITLE = "imi"
    CSS_PATH = [os.path.join(paths.styles_dir(), name) for name in ("app.tcss", "panels.tcss", "dialogs.tcss")]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-middle"), (120, "-wide")]
    ENABLE_COMMAND_PALETTE = True
    BINDINGS = [
        *(Binding(key, f"panel({key})", f"Panel {key}", show=False) for key in "12345"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("p", "pause", "Pause"),
        Binding("z", "zoom", "Zoom"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("escape", "out", "Back", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, live: Live, surroundings: Callable[[str | None], Context], *, read_only: bool = False) -> None:
        super().__init__()
        self._live = live
        self._surroundings = surroundings
        self._read_only = read_only
        self._snapshot: Snapshot | None = None
        self._paused = False
        self._selected: Key | None = None
        for action in keyed_actions():
            if not (read_only and action.changes):
                self.bind(action.key, f"act('{action.words[0]}')", description=action.label)
        for view in VIEWS:
            self.bind(view.key_shown, f"view('{view.word}')", description=view.label)

    def compose(self) -> ComposeResult:
        panels = [panel(number) for number, panel in enumerate(PANELS, 1)]
        yield Static(id="header")
        yield Input(placeholder="filter: text, !not, @agent, type:feat, is:dirty", id="filter")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield panels[0]
                yield panels[2]
            with Vertical(id="right"):
                yield panels[1]
                yield panels[3]
                yield panels[4]
        yield Static(id="small")
        yield Footer(show_command_palette=False)

    @property
    def home(self) -> Screen[Any]:
        """The screen with the panels, whatever lies on top of it."""
        return self.screen_stack[0]

    @property
    def panels(self) -> list[Panel]:
        return list(self.home.query(Panel))

    def on_mount(self) -> None:
        self.home.query_one(WorktreesPanel).lines.focus()
        self._header()
        self.call_after_refresh(self._follow)
        self.set_interval(1.0, self._tick)

    # -- the engine -------------------------------------------------------------------------------------------------

    @work(exit_on_error=False)
    async def _follow(self) -> None:
        """Show what the engine publishes, until the end; what goes wrong is said and not fatal."""
        try:
            async with self._live() as engine:
                async for snapshot in engine.snapshots():
                    self.notices.saw(snapshot)
                    self._snapshot = snapshot
                    if not self._paused:
                        self._draw()
        except Exception as error:  # noqa: BLE001  whatever happened out there, the pane must stay and say it
            sentence = getattr(error, "sentence", f"{type(error).__name__}: {error}")
            self.home.query_one("#header", Static).update(Content.styled(f" imi  ? {safe(sentence, 300)}", "$error"))

    def _tick(self) -> None:
        """Ages move on. Only what looks different is painted."""
        if self._snapshot is not None and not self._paused:
            self._draw()

    def _draw(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        now = times.now()
        if self._selected is None or snapshot.worktree(self._selected) is None:
            self._selected = self._under_cursor(snapshot)
        self._header(now)
        for panel in self.panels:
            panel.show(snapshot, self._selected, now)
        for screen in self.screen_stack:
            if isinstance(screen, View):
                screen.take(snapshot, now)

    def _header(self, now: datetime | None = None) -> None:
        width = self.size.width
        head = cells.summary(self._snapshot, max(10, width - 30)) if self._snapshot else Content.styled(" imi ", "bold")
        right = [Content.styled(" paused ", "reverse")] if self._paused else []
        right += [Content.styled(" read-only ", "$warning")] if self._read_only else []
        failures = [one for one in self._snapshot.health if one.failure] if self._snapshot else []
        if failures and failures[0].failure:
            right.append(Content.styled(f" ? {safe(failures[0].source)} ", "$error"))
        clock = (now or times.now()).astimezone().strftime("%H:%M")
        right.append(Content.styled(f"{clock} ", cells.MUTED))
        tail = Content("").join(right)
        line = head.pad_right(max(0, width - head.cell_length - tail.cell_length)).append(tail)
        self.home.query_one("#header", Static).update(line, layout=False)

    # -- selection --------------------------------------------------------------------------------------------------

    def _under_cursor(self, snapshot: Snapshot) -> Key | None:
        at = self.home.query_one(WorktreesPanel).lines.cursor
        return next((tree.key for tree in snapshot.worktrees if key_of(tree) == at), None)

    @on(Lines.Moved)
    def _moved(self, message: Lines.Moved) -> None:
        panel = self.home.query_one(WorktreesPanel)
        if self._snapshot is not None and message.lines is panel.lines:
            self._selected = self._under_cursor(self._snapshot)
            self._draw()

    @on(Lines.Chosen)
    def _chosen(self, message: Lines.Chosen) -> None:
        if self._selected is not None and self._snapshot is not None:
            tree = self._snapshot.worktree(self._selected)
            if tree is not None and not tree.missing:
                self._open_shell(tree.path)

    def _open_shell(self, path: str) -> None:
        """A shell in the worktree: a tab or window of the multiplexer, else here, with the dashboard asleep."""
        import subprocess

        if os.environ.get("ZELLIJ"):
            subprocess.Popen(["zellij", "action", "new-pane", "--cwd", path], stdin=subprocess.DEVNULL)
        elif os.environ.get("TMUX"):
            subprocess.Popen(["tmux", "new-window", "-c", path], stdin=subprocess.DEVNULL)
        else:
            with self.suspend():
                subprocess.run([os.environ.get("SHELL", "/bin/sh")], cwd=path, check=False)

    # -- keys -------------------------------------------------------------------------------------------------------

    def action_panel(self, number: int) -> None:
        panel = self.home.query_one(f"#panel-{number}", Panel)
        if self.screen.has_class("-narrow") and number > 1:
            self._zoom(panel)
        panel.lines.focus()

    def action_zoom(self) -> None:
        focused = next((panel for panel in self.panels if panel.has_focus_within), None)
        if self.screen.has_class("-zoomed"):
            self._unzoom()
        elif focused is not None:
            self._zoom(focused)

    def _zoom(self, panel: Panel) -> None:
        self._unzoom()
        panel.add_class("-zoom")
        side = "left" if panel.parent is self.home.query_one("#left") else "right"
        self.screen.add_class("-zoomed", f"-zoomed-{side}")
        self.call_after_refresh(self._draw)

    def _unzoom(self) -> None:
        self.screen.remove_class("-zoomed", "-zoomed-left", "-zoomed-right")
        for panel in self.panels:
            panel.remove_class("-zoom")
        self.call_after_refresh(self._draw)

    def action_filter(self) -> None:
        box = self.home.query_one("#filter", Input)
        box.add_class("-open")
        box.focus()

    @on(Input.Changed, "#filter")
    def _filtered(self, event: Input.Changed) -> None:
        self.home.query_one(WorktreesPanel).wanted = event.value
        self._draw()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.home.query_one(WorktreesPanel).lines.focus()

    def action_out(self) -> None:
        """One step out: the zoom, then the filter, then the focus."""
        box = self.home.query_one("#filter", Input)
        if self.screen.has_class("-zoomed"):
            self._unzoom()
        elif box.has_class("-open"):
            box.value = ""
            box.remove_class("-open")
        self.home.query_one(WorktreesPanel).lines.focus()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._header()
        self._draw()

    def action_help(self) -> None:
        shown = [(binding.key_display or binding.key, binding.description) for binding in self.BINDINGS
                 if isinstance(binding, Binding) and binding.show]  # fmt: skip
        acts = [(action.key, f"{action.label}: {action.help}") for action in keyed_actions()]
        fixed = [
            ("j k ↑ ↓", "move"),
            ("1-5 tab", "panels"),
            ("⏎", "open a shell in the worktree"),
            ("ctrl+p", "everything"),
        ]
        lines = [
            Content.styled(f"{key:<9} ", "$accent bold").append(Content(text)) for key, text in [*fixed, *acts, *shown]
        ]
        self.push_screen(Message("Keys", lines))

    def action_view(self, word: str) -> None:
        view = next(view for view in VIEWS if view.word == word)
        if view.needs_worktree and self._selected is None:
            self.notify("select a worktree first", severity="warning", markup=False)
            return
        self.push_screen(view(self._selected, self._surroundings))
        self.call_after_refresh(self._draw)

    def action_act(self, verb: str) -> None:
        action = actions.find(verb)
        if action is None:
            return
        values: dict[str, object] = {}
        takes_target = bool(action.arguments) and action.arguments[0].name == "name" and verb not in _MAKES
        if takes_target:
            if self._selected is None:
                self.notify("select a worktree first", severity="warning", markup=False)
                return
            values["name"] = self._selected.worktree
        repo = self._repository_of(self._selected)
        dialog = ActionDialog(action, values, lambda: self._surroundings(repo))
        self.push_screen(dialog, self._acted)

    def _repository_of(self, key: Key | None) -> str | None:
        tree = self._snapshot.worktree(key) if self._snapshot and key else None
        return tree.path if tree is not None and not tree.missing else None

    def _acted(self, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        lines = [*outcome.lines, *(f"warning: {text}" for text in outcome.warnings)]
        self.notify("\n".join(safe(line, 200) for line in lines[:5]) or "done", markup=False)


_MAKES = ("feat", "fix", "aiops", "devops", "add", "review")
"""Verbs whose first argument is the name of something new."""
