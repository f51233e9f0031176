"""The program files that this process was started from. Import it at the start of a process that goes on for long.

Modules that are imported later come from the files that are there then: after an upgrade they may not fit.
"""

from __future__ import annotations

import os

from imi_monitor import paths
from imi_monitor.model.errors import Refused

RESTART = "restart imi"
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
# An installation replaces all files, a checkout those that differ.
_FILES = ("__init__.py", "command_table.py", "engine.py", "store/schema.py")


def problem() -> str | None:
    """Return what became of the program files since the start; None if they are the same."""
    now = _stamps()
    if now == _AT_START:
        return None
    what = "were replaced by those of another version" if None not in now else "are gone"
    return f"the program files {what} while this process runs: {RESTART}"


def refuse_changed_files() -> None:
    """Refuse after an upgrade: modules that were imported before it and after it do not fit."""
    if (found := problem()) is not None:
        raise Refused(found, code="program-files-changed")


def _stamps() -> tuple[tuple[int, int, int] | None, ...]:
    return tuple(paths.file_stamp(os.path.join(_PACKAGE, name)) for name in _FILES)


_AT_START = _stamps()
