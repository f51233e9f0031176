"""The hook script that agents call: its path, the command that calls it, its installation and removal."""

from __future__ import annotations

import os

from imi_monitor import paths
from imi_monitor.actions.hooks import settings_file
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

_HERE = os.path.dirname(os.path.abspath(__file__))


def path() -> str:
    return os.path.join(paths.hooks_dir(), "imi-hook.sh")


def command(cli: str) -> str:
    """The shell command that runs the script. It does nothing when the script is gone, and works on `noexec` mounts."""
    place = path()
    if "'" in place or "\\" in place or not place.isprintable():
        raise Refused(
            f"{safe(place)} cannot be quoted in a command: set XDG_STATE_HOME to a path without quotes", code="bad-path"
        )
    return f"test ! -r '{place}' || exec /bin/sh '{place}' {cli}"


def source() -> bytes:
    with open(os.path.join(_HERE, "imi-hook.sh"), "rb") as file:
        return file.read()


def plugin() -> bytes:
    """The plugin for opencode, which has plugins instead of hooks."""
    import json

    with open(os.path.join(_HERE, "opencode_plugin.js"), encoding="utf-8") as file:
        return file.read().replace('"@PROGRAM@"', json.dumps(path())).encode()


def current() -> bool:
    """Whether the installed script is the one of this version."""
    return settings_file.read(path()) == source()


def install() -> None:
    """Install the script of this version and the spool folder, accessible to this user only."""
    os.makedirs(os.path.join(paths.hooks_dir(), "spool"), mode=0o700, exist_ok=True)
    for folder in (paths.hooks_dir(), os.path.join(paths.hooks_dir(), "spool")):
        os.chmod(folder, 0o700)
    if not current():
        settings_file.write(path(), source(), 0o700)


def uninstall() -> None:
    """Delete the script. Events in the spool stay for the agents source."""
    if os.path.lexists(path()):
        os.unlink(path())
