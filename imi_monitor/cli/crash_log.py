"""Unexpected errors: one sentence for the user, and the traceback, without values and secrets, in the error log."""

from __future__ import annotations

import errno
import os
import sys
import traceback

from imi_monitor import paths
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

_MOST_BYTES = 1 << 20
_MOST_ENTRY = 64 << 10
_SECRET_NAMES = ("TOKEN", "SECRET", "PASSW", "APIKEY", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIAL")
_SHORTEST_SECRET = 6
# Errors of the machine, not of imi: the sentence does not ask for a bug report.
_SYSTEM = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENAMETOOLONG,
    errno.EFBIG,
    errno.EBUSY,
    errno.ESTALE,
    errno.EAGAIN,
}


def recorded(error: BaseException) -> ImiError:
    """Write the traceback to the log; return the error to show."""
    what = safe(_without_secrets(_described(error)), 200)
    where = _write(error)
    kept = f"details are in {safe(where)}" if where else "the log could not be written either"
    replaced = _replaced_program()
    if replaced is not None:
        return ImiError(f"{replaced} ({what}; {kept})", code="upgraded")
    refused = _refused_by_system(error)
    if refused is not None:
        return ImiError(f"the system refused: {refused} ({kept})", code="system")
    return ImiError(f"something went wrong inside imi ({what}): {kept}; please report it", code="internal")


def _replaced_program() -> str | None:
    """What became of imi's own files; None if they are the same, or if the process did not note them at its start."""
    installation = sys.modules.get("imi_monitor.installation")
    return installation.problem() if installation is not None else None


def _refused_by_system(error: BaseException) -> str | None:
    """Return what the system refused; None if the error is imi's own."""
    if isinstance(error, MemoryError):
        return os.strerror(errno.ENOMEM)
    if isinstance(error, ImportError):  # a shared library: the loader gives the system's reason as text only
        reasons = ("failed to map segment", *map(os.strerror, sorted(_SYSTEM)))
        return next((text for text in reasons if text in str(error)), None)
    if not (isinstance(error, OSError) and error.errno in _SYSTEM):
        return None
    named = _without_secrets(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else ""
    place = f"{safe(named, 200)}: " if named else ""
    return f"{place}{error.strerror}"


def _described(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001  str() of the exception fails
        return name


def _write(error: BaseException) -> str | None:
    """Append the traceback to the log and return its path; None when it cannot be written."""
    path = paths.error_log()
    try:
        # `format_exception` gives source lines, never the values of variables
        text = _without_secrets("".join(traceback.format_exception(error)))[-_MOST_ENTRY:]
        entry = f"{times.stamp()} pid {os.getpid()}\n{text}\n".encode("utf-8", "backslashreplace")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > _MOST_BYTES:
            os.replace(path, path + ".old")
        _append(path, entry)
    except Exception:  # noqa: BLE001  a failing log must not hide the error
        return None
    return path


def _append(path: str, entry: bytes) -> None:
    # a link or a named pipe in place of the log is an error: it is not followed and does not block
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        os.fchmod(handle, 0o600)
        os.write(handle, entry)
    finally:
        os.close(handle)


def _without_secrets(text: str) -> str:
    """The text without passwords in URLs, tokens, and values of environment variables with secret names."""
    for value in _secrets():
        text = text.replace(value, "***")
    return redact(text)


def _secrets() -> list[str]:
    found = {
        value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST_SECRET and any(word in name.upper() for word in _SECRET_NAMES)
    }
    return sorted(found, key=len, reverse=True)
