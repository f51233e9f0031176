"""Which back end follows files here: raw inotify on Linux, watchfiles elsewhere, polling where nothing else works."""

from __future__ import annotations

import os
import sys

from imi_monitor.model.errors import UsageError
from imi_monitor.sources.files.polling import Polling
from imi_monitor.sources.files.port import FileEvents
from imi_monitor.sources.files.tiers import Tiers

VARIABLE = "IMI_WATCHER"
CHOICES = ("auto", "inotify", "watchfiles", "polling")


def begins_slowly(events: FileEvents) -> bool:
    """Whether to begin following takes so much of the machine that a first picture had better come before."""
    return events.name == "watchfiles"


def choose(wanted: str | None = None) -> FileEvents:
    """The back end asked for by name or by the environment, else the best there is."""
    name = wanted or os.environ.get(VARIABLE) or "auto"
    if name not in CHOICES:
        raise UsageError(f"{VARIABLE} must be one of {', '.join(CHOICES)}, not {name!r}", code="bad-setting")
    if name == "auto":
        name = "inotify" if sys.platform.startswith("linux") else "watchfiles"
    if name == "polling":
        return Polling()
    if name == "watchfiles":
        from imi_monitor.sources.files.watched import Watchfiles

        return Tiers(Watchfiles())
    from imi_monitor.sources.files.inotify import Inotify

    try:
        return Tiers(Inotify())
    except OSError:  # no instance left for this user: looking again and again still works
        return Polling()
