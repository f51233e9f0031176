"""What nobody foresaw: one sentence for the person, the traceback (without values, which may be secrets) in a log."""

from __future__ import annotations

import os
import traceback

from imi_monitor import paths
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

_MOST_BYTES = 1 << 20


def recorded(error: BaseException) -> ImiError:
    """The error as a person may see it, after its traceback went to the log."""
    what = redact(safe(f"{type(error).__name__}: {error}", 200))
    where = _write(error)
    kept = f"details are in {safe(where)}" if where else "the log could not be written either"
    return ImiError(f"something went wrong inside imi ({what}): {kept}; please report it", code="internal")


def _write(error: BaseException) -> str | None:
    path = paths.error_log()
    # `format_exception` gives source lines, never the values of variables
    text = redact("".join(traceback.format_exception(error)))
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > _MOST_BYTES:
            os.replace(path, path + ".old")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{times.stamp()} pid {os.getpid()}\n{text}\n")
    return path
