"""The dashboard's preferences from the settings and the command line, checked before the terminal is taken over."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from textual.theme import BUILTIN_THEMES

from imi_monitor.config import Settings
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import UsageError
from imi_monitor.model.own_command import OwnCommand
from imi_monitor.model.text import safe
from imi_monitor.ui import commands, glyphs, themes


@dataclass(frozen=True, slots=True)
class Preferences:
    """Without a `state_file` the layout is not saved."""

    theme: str = ""
    interval: float = 1.0
    ascii_only: bool = False
    keymap: Mapping[str, str] | None = None
    state_file: str = ""
    own_commands: tuple[OwnCommand, ...] = ()
    tab_layout: str = ""  # of Zellij, or a file of tmux commands
    tab_states: bool = False  # the signs of the agents' states in the names of tabs
    ssh_destination: Callable[[str], str] = lambda label: ""  # of another home; empty: none is set


def from_settings(settings: Settings, *, ascii_only: bool = False, state_file: str = "") -> Preferences:
    """Return the preferences; UsageError for a theme that does not exist or an invalid keymap."""
    theme = settings.text("ui.theme")
    known = [*themes.NAMES, *BUILTIN_THEMES]
    full = next((name for name in known if theme in (name, name.removeprefix("imi-"))), None)
    if theme and full is None:
        raise UsageError(
            f"there is no theme {safe(theme)!r}: use one of {', '.join(map(themes.config_name, themes.NAMES | themes.KNOWN))}",
            code="bad-setting",
        )
    keymap = settings.table("ui.keymap")
    own = tuple(settings.own_commands().values())
    commands.table(keymap, own=own)
    return Preferences(
        theme=full or "" if theme else "",
        interval=max(0.2, settings.number("ui.refresh_interval_ms") / 1000),
        ascii_only=ascii_only or settings.flag("ui.ascii") or glyphs.terminal_is_plain(),
        keymap=keymap,
        state_file=state_file if settings.flag("ui.remember") else "",
        own_commands=own,
        tab_layout=os.path.expanduser(settings.text("ui.tab_layout")),
        tab_states=settings.flag("ui.tab_states"),
        ssh_destination=settings.ssh_destination,
    )
