"""The first screen where there is no repository to show: the demonstration, repositories nearby, the keys.

It opens nothing itself: the command line does what was chosen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from textual.actions import SkipAction
from textual.widgets import Input

from imi_monitor.config import Settings
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.ui import commands, menu_entries, preferences, process_title
from imi_monitor.ui.commands import Command
from imi_monitor.ui.dialogs.menu import Menu, MenuEntry
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.shutdown import RecordError, run_app
from imi_monitor.ui.terminal_app import TerminalApp

DEMO = "demo"
_CODE_FOLDERS = ("code", "src", "projects", "work", "dev", "repos", "git")  # below the home folder
_MOST_CHILDREN = 400  # subfolders of one folder that are examined
_MOST_LISTED = 30
_ABOUT = ("imi shows the git worktrees your agents work in:", "their owners, what changed, and what to review.")


def run(settings: Settings, recorded: RecordError, *, ascii_only: bool = False) -> str | None:
    """Show the screen and return what was chosen: DEMO, the path of a repository, or None."""
    process_title.set_title("imi")
    app = WelcomeApp(
        repositories_nearby(os.getcwd(), os.path.expanduser("~")),
        preferences.from_settings(settings, ascii_only=ascii_only),
    )
    run_app(app, recorded)
    return app.chosen


class WelcomeApp(TerminalApp):
    """Shows the menu and ends with the choice."""

    def __init__(self, nearby: Sequence[str], preferences: Preferences) -> None:
        super().__init__(preferences)
        self.chosen: str | None = None
        self._nearby = nearby
        self.start_with_theme(self.configured_theme)

    def on_mount(self) -> None:
        self.keeps_running = True
        self.push_screen(Welcome(self._nearby, commands.table(self.preferences.keymap)), self._done)

    def _done(self, value: str | None) -> None:
        self.chosen = value
        self.exit()


class Welcome(Menu):
    """Returns DEMO or the path of a repository, listed or typed."""

    def __init__(self, nearby: Sequence[str], known: Sequence[Command]) -> None:
        super().__init__("Welcome to imi", _entries(nearby), hint="type to search, or the folder of a repository")
        self._known = known

    def choose(self, value: str | None) -> None:
        typed = self.query_one(Input).value.strip()
        if typed and not value:
            self._open_typed(os.path.expanduser(typed))
        else:
            super().choose(value)

    def _open_typed(self, path: str) -> None:
        try:
            found = os.path.isdir(path) and layout.discover(path) is not None
            why = f"{safe(path, 200)} is not inside a git repository: `git init` makes one"
        except ImiError as error:
            found, why = False, error.sentence
        if found:
            self.dismiss(os.path.abspath(path))
        else:
            self.notify(why, severity="warning", markup=False)

    def action_shut(self) -> None:
        """`?` lists the keys of the dashboard, unless it is part of a search."""
        if self.query_one(Input).value:
            raise SkipAction
        self.app.push_screen(menu_entries.keys_menu(self._known, lambda _: ""))


def repositories_nearby(here: str, home: str) -> list[str]:
    """The repositories in these folders and in the usual folders for code, the last used first."""
    folders = dict.fromkeys([here, home, *(os.path.join(home, name) for name in _CODE_FOLDERS)])
    found = {path: used for folder in folders for path, used in _repositories_in(folder)}
    return sorted(found, key=lambda path: -found[path])[:_MOST_LISTED]


def _repositories_in(folder: str) -> Iterable[tuple[str, float]]:
    """Each repository in the folder, and when it was used last."""
    try:
        names = sorted(os.listdir(folder))[:_MOST_CHILDREN]
    except OSError:
        return
    for name in names:
        for trunk in ("", "trunk-main"):
            git = os.path.join(folder, name, trunk, ".git")
            try:
                used = max(os.stat(git).st_mtime, os.stat(os.path.join(git, "HEAD")).st_mtime)
            except OSError:
                continue
            yield os.path.join(folder, name), used
            break


def _entries(nearby: Sequence[str]) -> list[MenuEntry]:
    home = os.path.expanduser("~")
    entries = [
        *(MenuEntry("", line) for line in _ABOUT),
        MenuEntry("", ""),
        MenuEntry("", "See it at work"),
        MenuEntry(DEMO, "Demonstration", "three simulated agents; nothing of yours is touched"),
        MenuEntry("", ""),
        MenuEntry("", "Open a repository"),
    ]
    for path in nearby:
        shown = f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path
        entries.append(MenuEntry(path, safe(os.path.basename(path), 60), safe(shown, 300)))
    if not nearby:
        entries.append(MenuEntry("", "none was found nearby: type the folder of one, or start imi inside of it"))
    return [*entries, MenuEntry("", ""), MenuEntry("", "? lists the keys · esc leaves")]
