"""`imi layout`: a layout of Zellij or a file of tmux commands with the dashboard in a pane of its own."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.hooks import settings_file
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_COLUMNS = 60
_MARK = "made by `imi layout`"
# the template of new tabs: without it Zellij opens each new tab like the first one, with another dashboard
_ZELLIJ = f"""\
// {_MARK}: `zellij --layout imi`, or in a session `zellij action new-tab --layout imi`
layout {{
    pane size=1 borderless=true {{
        plugin location="zellij:tab-bar"
    }}
    pane split_direction="vertical" {{
        pane focus=true
        pane size={_COLUMNS} name="imi" command="imi" {{
            args "monitor"
        }}
    }}
    pane size=1 borderless=true {{
        plugin location="zellij:status-bar"
    }}
    new_tab_template {{
        pane size=1 borderless=true {{
            plugin location="zellij:tab-bar"
        }}
        pane
        pane size=1 borderless=true {{
            plugin location="zellij:status-bar"
        }}
    }}
}}
"""
_TMUX = f"""\
# {_MARK}: `tmux source-file FILE` gives the current window a pane with the dashboard
split-window -h -d -l {_COLUMNS} -c "#{{pane_current_path}}" "exec imi monitor"
# for notifications and the focus, in your tmux.conf:
#   set -s focus-events on
#   set -g allow-passthrough on
"""
LAYOUTS = {"zellij": _ZELLIJ, "tmux": _TMUX}


class LayoutAction(Action):
    words = ("layout",)
    group = "Setup"
    label = "Layout"
    help = "print a layout of Zellij or tmux with the dashboard in a pane"
    more = (
        f"The pane has {_COLUMNS} columns. With --install the layout is written where `zellij --layout imi` finds it, or as"
        " a file for `tmux source-file`. A file that imi did not make is never replaced."
    )
    examples = (("imi layout zellij --install", "then: zellij --layout imi"),)
    changes = False
    arguments = (Argument("multiplexer", "zellij or tmux", choices=tuple(LAYOUTS)),)
    options = (Option("install", "write it to your configuration instead of printing it"),)

    def run(self, context: Context, request: Request) -> Outcome:
        name = request.text("multiplexer") or ""
        if name not in LAYOUTS:
            raise UsageError(f"imi layout takes zellij or tmux, not {safe(name)!r}", code="bad-layout")
        text, path = LAYOUTS[name], installed_path(name)
        if not request.flag("install"):
            return Outcome(text.splitlines(), {"layout": text, "path": path, "installed": False})
        changed = _install(path, text)
        use = "zellij --layout imi" if name == "zellij" else f"tmux source-file {path}"
        lines = [f"{'wrote' if changed else 'unchanged:'} {safe(path, 4096)}", f"use it with: {safe(use, 4096)}"]
        return Outcome(lines, {"layout": text, "path": path, "installed": True, "changed": changed})


def installed_path(name: str) -> str:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    base = config if os.path.isabs(config) else os.path.expanduser("~/.config")
    if name == "tmux":
        return os.path.join(base, "tmux", "imi.conf")
    return os.path.join(os.environ.get("ZELLIJ_CONFIG_DIR") or os.path.join(base, "zellij"), "layouts", "imi.kdl")


def _install(path: str, text: str) -> bool:
    """Write the file unless it has this text; Refused if another program or person has made it."""
    before = settings_file.read(path)
    if before == text.encode():
        return False
    if before and _MARK.encode() not in before.partition(b"\n")[0]:
        raise Refused(
            f"{safe(path, 400)} is not imi's: move it away, or save the printed layout yourself", code="exists"
        )
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise Refused(f"{safe(path, 400)} cannot be written: {error.strerror}", code="unwritable") from error
    settings_file.write(path, text.encode(), 0o644, before)
    return True


ACTIONS = (LayoutAction(),)
