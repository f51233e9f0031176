"""The program that agents call: where it lies, how it is called, whether it is the one of this version."""

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
    """For a shell, whichever it is: nothing happens when the program is gone, and no mount option keeps it from running."""
    place = path()
    if "'" in place or "\\" in place or not place.isprintable():
        raise Refused(
            f"{safe(place)} cannot be written into a command: set XDG_STATE_HOME to a plainer path", code="bad-path"
        )
    return f"test ! -r '{place}' || exec /bin/sh '{place}' {cli}"


def source() -> bytes:
    with open(os.path.join(_HERE, "imi-hook.sh"), "rb") as file:
        return file.read()


def plugin() -> bytes:
    """For opencode, which has no hooks but plugins."""
    import json

    with open(os.path.join(_HERE, "opencode_plugin.js"), encoding="utf-8") as file:
        return file.read().replace('"@PROGRAM@"', json.dumps(path())).encode()


def current() -> bool:
    return settings_file.read(path()) == source()


def install() -> None:
    """The program of this version, and the spool beside it; both only for this user."""
    os.makedirs(os.path.join(paths.hooks_dir(), "spool"), mode=0o700, exist_ok=True)
    for folder in (paths.hooks_dir(), os.path.join(paths.hooks_dir(), "spool")):
        os.chmod(folder, 0o700)
    if not current():
        settings_file.write(path(), source(), 0o700)


def uninstall() -> None:
    """Nobody calls it any more. What is in the spool stays for whoever reads it."""
    if os.path.lexists(path()):
        os.unlink(path())
