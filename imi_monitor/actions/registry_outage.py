"""What a command that goes on (`--wait`, `--follow`) says and does while the registry cannot be used.

Such a command follows the registry's file, waits while the registry cannot be used, and goes on with what is there then.
"""

from __future__ import annotations

import time

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, registry_file
from imi_monitor.store.followed_registry import is_about_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.actions.context import Context

_RETRY_SECONDS = 0.5


class RegistryOutage:
    """Says once why the registry cannot be used, and once that it can be used again."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sentence: str | None = None

    def wait(self, error: RegistryError) -> None:
        """Pause before the next attempt; raises an error that no attempt of this process will change."""
        if not is_about_file(error) or error.code == registry_file.NEWER_CODE:
            raise error
        self._context.handle_registry_error(error)
        if error.code == registry_file.REPLACED_CODE:
            return  # the next attempt finds what is there now
        if error.sentence != self._sentence:
            self._sentence = error.sentence
            self._context.notify(f"{error.sentence} (waiting for it)")
        time.sleep(_RETRY_SECONDS)

    def end(self) -> None:
        """The registry was read."""
        if self._sentence is not None:
            self._sentence = None
            self._context.notify("the registry can be used again")


def follow_commits(context: Context, show: Callable[[sqlite3.Connection], None], poll_seconds: float) -> None:
    """Call `show` now and after each commit of another process, until the caller is cancelled."""
    context.follow_registry()
    outage, seen = RegistryOutage(context), None
    while not context.cancelled():
        try:
            connection = context.connection
            version = db.data_version(connection)  # read before the rows, so that no commit in between is missed
            if version != seen:
                show(connection)
                seen = version
        except (RegistryError, *db.Error) as error:
            known = error if isinstance(error, RegistryError) else db.registry_error(error, context.database)
            outage.wait(known)
        else:
            outage.end()
            time.sleep(poll_seconds)
